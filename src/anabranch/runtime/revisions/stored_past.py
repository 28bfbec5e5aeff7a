"""The past of a query on Spark: archives of its sources, and what was withheld."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import final

import pyarrow as pa

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.arrived import WithheldFolder
from anabranch.runtime.archive.narrowing import Wanted
from anabranch.runtime.revisions.past import Past
from anabranch.runtime.sources.archived.pieces import Piece


@final
class StoredPast(Past):
    """What has been committed up to a batch."""

    def __init__(
        self,
        folder: str,
        archives: Mapping[str, Archive],
        schemas: Mapping[str, pa.Schema],
        upto: int,
        revised: Collection[str] = (),
    ) -> None:
        """Read these archives, and what was withheld in the folder `revisions`.

        Args:
            folder: The folder.
            archives: Per source.
            schemas: Per source, the columns that the query needs.
            upto: Later batches do not count.
            revised: The sources with LATE REVISE: what is withheld of them are rows as they came.
        """
        self._folder = folder
        self._archives = archives
        self._schemas = schemas
        self._upto = upto
        self._revised = revised
        # What the index says of a span, which is asked for more than once.
        self._pieces: dict[tuple[str, Span], list[tuple[int, Piece]]] = {}
        self.read: int = 0

    def schema(self, source: str) -> pa.Schema:
        """The columns that the query needs."""
        return self._schemas[source]

    def rows(
        self, source: str, span: Span, keep: Wanted, absent: Collection[int] = ()
    ) -> Iterable[EventBatch]:
        """What the archive has."""
        columns: Sequence[str] = self._schemas[source].names
        archive = self._archives[source]
        for number, piece in self._pieces_in(source, span):
            if number not in absent:
                for batch in archive.read_piece(piece, span, columns, keep):
                    self.read += len(batch)
                    yield batch

    def rows_behind(self, source: str, batch: int) -> Iterable[EventBatch]:
        """What the archive has of later batches."""
        archive, columns = self._archives[source], self._schemas[source].names
        for number, piece in archive.pieces(EVERYTHING, self._upto):
            if number > batch:
                for rows in archive.read_piece(piece, EVERYTHING, columns):
                    self.read += len(rows)
                    yield rows

    def absent(
        self, source: str, span: Span, withheld: Sequence[tuple[int, EventBatch]]
    ) -> frozenset[int]:
        """The batches of whose pieces in the span every row was withheld.

        What was withheld are some of the rows of these pieces: where they are as many, all of them.
        So a late row that came alone, as most do, is not read only to be taken out again.
        """
        if source not in self._revised or not withheld:
            return frozenset()
        left = Counter[int]()
        for batch, rows in withheld:
            left[batch] -= len(rows)
        for batch, piece in self._pieces_in(source, span):
            if batch in left:
                left[batch] += piece.rows
        return frozenset(batch for batch, rows in left.items() if not rows)

    def count(self, source: str, span: Span) -> int:
        """The rows of the pieces that overlap the span, by the index."""
        return sum(piece.rows for _, piece in self._pieces_in(source, span))

    def _pieces_in(self, source: str, span: Span) -> list[tuple[int, Piece]]:
        found = self._pieces.get((source, span))
        if found is None:
            found = self._archives[source].pieces(span, self._upto)
            self._pieces[source, span] = found
        return found

    def withheld(self, source: str, span: Span) -> Iterable[tuple[int, EventBatch]]:
        """What tasks left out."""
        folder = WithheldFolder.of(self._folder, source)
        return folder.read(self._schemas[source], span, self._upto)

    def oldest(self, source: str) -> Time:
        """Nothing is missing from here on."""
        return self._archives[source].oldest()
