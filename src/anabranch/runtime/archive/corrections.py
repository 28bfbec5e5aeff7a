"""Corrections of archived rows, kept beside what they correct."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, final

import pyarrow as pa

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.time import Time
from anabranch.runtime.archive.bucket import read_bucket, write_rows
from anabranch.runtime.sources.archived.about import CORRECTIONS
from anabranch.runtime.sources.archived.index import ArchiveIndex
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece, inside
from anabranch.runtime.store.folder import Folder

_FOLDER: Final = "corrections"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What was learnt later about rows that had come before.

    Attributes:
        revision: Its number.
        known: The batch after which it became known.
        known_at: When it became known, in microseconds since 1970; 0: nobody said.
        rows: Rows that were missing, as inserts, and rows that were wrong, as withdrawals.
    """

    revision: int
    known: int
    known_at: int
    rows: EventBatch


@final
@dataclass(frozen=True, slots=True)
class CorrectionLog:
    """The corrections of an archive: a file each, and an index like that of its batches.

    In this index the number of a revision stands for that of a batch, and the batch after which it
    became known for what was promised.
    """

    folder: Folder

    @property
    def index(self) -> ArchiveIndex:
        """Which corrections there are."""
        return ArchiveIndex(self.folder.child(CORRECTIONS))

    def add(
        self, revision: int, known: int, rows: EventBatch, known_at: int, *, clock: Clock
    ) -> None:
        """Record a correction; recording it again changes nothing."""
        name = f"{_FOLDER}/{revision:08d}.parquet"
        piece = write_rows(self.folder, name, rows, known=known, revision=revision, clock=clock)
        entry = ArchivedBatch(batch=revision, pieces=(piece,), promised=known, known_at=known_at)
        self.index.add(entry)

    def add_late(self, revision: int, entry: ArchivedBatch) -> None:
        """Record the late rows of a batch as a correction: they stay where they are."""
        late = tuple(piece for piece in entry.pieces if piece.is_late)
        if late:
            self.index.add(replace(entry, batch=revision, pieces=late, promised=entry.batch))

    def read(
        self, schema: pa.Schema, upto: int | None = None, span: Span = EVERYTHING
    ) -> list[Correction]:
        """The corrections up to a number, with the rows that hold in a span."""
        found = []
        for entry in self.index.entries(upto=upto, span=span):
            parts = [EventBatch.empty(schema)]
            for piece in entry.pieces:
                name = piece.split.path
                parts += read_bucket(self.folder, name, schema, every=schema, span=span)
            rows = inside(EventBatch.concat(parts), span)
            if len(rows):
                found.append(
                    Correction(
                        revision=entry.batch,
                        known=entry.promised,
                        known_at=entry.known_at,
                        rows=rows,
                    )
                )
        return found

    def pieces(self) -> list[Piece]:
        """All of them, as pieces."""
        return [piece for _, piece in self.index.pieces()]

    def cut(self, oldest: Time, batch: int = -1) -> None:
        """Corrections of what the archive no longer has go as well.

        Args:
            oldest: From this instant on the archive is complete.
            batch: Batches up to this one are gone, and with them their late rows.
        """
        index = self.index
        old = index.cut()
        new = index.doomed(int(oldest), None)
        lost = [
            entry.batch
            for entry in index.entries()
            if entry.promised <= batch and any(piece.is_late for piece in entry.pieces)
        ]
        new = replace(new, batch=max([new.batch, *lost]))
        if new == old:
            return
        gone = [piece for _, piece in index.gone(old, new)]
        index.set_cut(new)
        for piece in gone:
            if piece.is_late:
                # The archive removes the buckets of its batches itself.
                continue
            self.folder.child(_FOLDER).remove(piece.split.path.removeprefix(f"{_FOLDER}/"))
        index.purge()
