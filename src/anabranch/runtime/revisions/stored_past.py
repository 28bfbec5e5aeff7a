"""The past of a query on Spark: archives of its sources, and what was withheld."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

import pyarrow as pa

from anabranch.algebra.analysis.spans import Span
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.arrived import WithheldFolder
from anabranch.runtime.archive.narrowing import Wanted
from anabranch.runtime.revisions.past import Past


@final
class StoredPast(Past):
    """What has been committed up to a batch."""

    def __init__(
        self,
        folder: str,
        archives: Mapping[str, Archive],
        schemas: Mapping[str, pa.Schema],
        upto: int,
    ) -> None:
        """Read these archives, and what was withheld in the folder `revisions`.

        Args:
            folder: The folder.
            archives: Per source.
            schemas: Per source, the columns that the query needs.
            upto: Later batches do not count.
        """
        self._folder = folder
        self._archives = archives
        self._schemas = schemas
        self._upto = upto
        self.read = 0

    def schema(self, source: str) -> pa.Schema:
        """The columns that the query needs."""
        return self._schemas[source]

    def rows(self, source: str, span: Span, keep: Wanted) -> Iterable[EventBatch]:
        """What the archive has."""
        columns: Sequence[str] = self._schemas[source].names
        for batch in self._archives[source].read(span, self._upto, columns, keep):
            self.read += len(batch)
            yield batch

    def count(self, source: str, span: Span) -> int:
        """The rows of the pieces that overlap the span, by the index."""
        pieces = self._archives[source].pieces(span, self._upto)
        return sum(piece.rows for _, piece in pieces)

    def withheld(self, source: str, span: Span) -> Iterable[tuple[int, EventBatch]]:
        """What tasks left out."""
        folder = WithheldFolder.of(self._folder, source)
        return folder.read(self._schemas[source], span, self._upto)

    def oldest(self, source: str) -> Time:
        """Nothing is missing from here on."""
        return self._archives[source].oldest()
