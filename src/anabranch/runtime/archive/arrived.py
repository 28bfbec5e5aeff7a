"""What tasks write down about the rows they have read, for whoever keeps the past.

In the folder `revisions` of a checkpoint a task leaves two kinds of files. `arrived/` has a record
per batch, source and part: where the rows can be read again. `withheld/<source>/` has the rows that
the query did not take in as they came. Names follow from the batch and the part, so an attempt that
is repeated puts the same files in place; what belongs to a batch that was never committed does not
count, because whoever reads asks for committed batches only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, final
from urllib.parse import quote

import pyarrow as pa

from anabranch.algebra.analysis.spans import Span
from anabranch.kernels.contract.packed_events import pack_events, unpack_events
from anabranch.model.batch import EventBatch
from anabranch.model.record import plain, record
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sources.archived.pieces import Piece, hull
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import arrow_file

ARRIVED: Final = "arrived"
WITHHELD: Final = "withheld"
BELOW: Final = "below"
_HINT: Final = "the checkpoint is damaged: restore it, or start with a new one"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedPart:
    """What a task has read of a source in a batch.

    Attributes:
        source: The name of the source.
        part: The number of the task among those of the source.
        pieces: Where the rows can be read again.
        promised: How far the source had promised before the batch.
        bound: Late rows are replayed before this instant; what they change behind it was sent on.
        withheld: How many rows were not taken in as they came.
        reached: How far the source has promised with the part.
    """

    source: str
    part: int
    pieces: tuple[Piece, ...] = field(default=())
    promised: int = BEGINNING
    bound: int = BEGINNING
    withheld: int = 0
    reached: int = BEGINNING


@final
@dataclass(frozen=True, slots=True)
class ArrivedFolder:
    """The records of tasks, by batch."""

    folder: Folder

    @staticmethod
    def of(revisions: str) -> ArrivedFolder:
        """That of a checkpoint, whose folder `revisions` this is."""
        return ArrivedFolder(Folder.at(revisions).child(ARRIVED))

    def write(self, batch: int, part: ArrivedPart) -> None:
        """Leave a record."""
        name = f"{batch}-{part.part}-{quote(part.source, safe='')}.json"
        self.folder.write_json(name, plain(part), mark=str(batch))

    def take(self, batch: int) -> list[ArrivedPart]:
        """The records of a batch, by source and part; those of earlier batches are removed."""
        found: list[ArrivedPart] = []
        for name in self.folder.names():
            number = name.partition("-")[0]
            if not number.isdigit() or int(number) > batch:
                continue
            if int(number) < batch:
                self.folder.remove(name)
                continue
            where = f"{self.folder.path}/{name}"
            found.append(record(ArrivedPart, self.folder.read_json(name), where=where, hint=_HINT))
        return sorted(found, key=lambda each: (each.source, each.part))


@final
@dataclass(frozen=True, slots=True)
class BelowFolder:
    """What guards were told of below their stable points, by batch, output and shard."""

    folder: Folder

    @staticmethod
    def of(revisions: str) -> BelowFolder:
        """That of a checkpoint, whose folder `revisions` this is."""
        return BelowFolder(Folder.at(revisions).child(BELOW))

    def write(self, batch: int, output: int, shard: int, moves: EventBatch) -> None:
        """Keep what one shard was told."""
        name = f"{batch}-{output}-{shard}.arrow"
        self.folder.write(name, arrow_file(pack_events(moves)), mark=str(batch))

    def read(self, batch: int, output: int, schema: pa.Schema) -> EventBatch:
        """What all shards of an output were told in a batch."""
        found = [EventBatch.empty(schema)]
        for name in sorted(self.folder.names()):
            if name.startswith(f"{batch}-{output}-"):
                data = self.folder.read(name)
                assert data is not None
                rows = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
                found.append(unpack_events(rows, schema, Time(BEGINNING)))
        return EventBatch.concat(found)

    def forget(self, batch: int) -> None:
        """Forget what an attempt of a batch has left, before the next one."""
        for name in self.folder.names():
            if name.startswith(f"{batch}-"):
                self.folder.remove(name)

    def clean(self, batch: int) -> None:
        """Forget what came before a batch that is committed."""
        for name in self.folder.names():
            number = name.partition("-")[0]
            if number.isdigit() and int(number) < batch:
                self.folder.remove(name)


@final
@dataclass(frozen=True, slots=True)
class WithheldFolder:
    """Rows of one source that a query did not take in as they came, as moves to be added up."""

    folder: Folder

    @staticmethod
    def of(revisions: str, source: str) -> WithheldFolder:
        """That of a source of a checkpoint, whose folder `revisions` this is."""
        return WithheldFolder(Folder.at(revisions).child(WITHHELD).child(quote(source, safe="")))

    def write(self, batch: int, part: int, rows: EventBatch) -> None:
        """Keep what a task has withheld; the name says when it holds."""
        first, last = hull(rows)
        name = f"{batch}_{part}_{first}_{last}.arrow"
        self.folder.write(name, arrow_file(pack_events(rows)), mark=str(batch))

    def forget(self, batch: int) -> None:
        """Forget what an attempt of a batch has left, before the next one."""
        for name in self.folder.names():
            if name.startswith(f"{batch}_"):
                self.folder.remove(name)

    def read(
        self, schema: pa.Schema, span: Span, upto: int, batch: int | None = None
    ) -> Iterator[tuple[int, EventBatch]]:
        """What was withheld and may hold in a span, by batch and part.

        Args:
            schema: The payload columns.
            span: The instants.
            upto: Later batches are left out: they are not committed yet.
            batch: Only this one.
        """
        found = []
        for name in self.folder.names():
            numbers = _numbers(name)
            if numbers is not None:
                number, part, first, last = numbers
                wanted = number <= upto if batch is None else number == batch
                if wanted and first < span[1] and last > span[0]:
                    found.append((number, part, name))
        for number, _, name in sorted(found):
            data = self.folder.read(name)
            assert data is not None
            rows = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
            yield number, unpack_events(rows, schema, Time(BEGINNING))


@lru_cache(maxsize=1 << 14)
def _numbers(name: str) -> tuple[int, int, int, int] | None:
    """Batch, part, and the first and last instant, as the name of a file says; else None.

    All names are looked at for every revision, and there are more of them with each.
    """
    parts = name.removesuffix(".arrow").split("_")
    if len(parts) != 4 or not name.endswith(".arrow"):
        return None
    batch, part, first, last = map(int, parts)
    return batch, part, first, last
