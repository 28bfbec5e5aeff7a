"""What a query has been told of its sources, so that it can be computed again.

The past of a source is kept as it came. What the query took in is another thing: late rows were
dropped, clipped, or put aside for a revision. So beside the rows there is what was *withheld*,
batch by batch, as moves to be subtracted. What the query believes is what came, less what is
withheld and has not become a revision yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.kernels.plan.replay import past_events
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.revision import reversed_changes
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.narrowing import Wanted, having
from anabranch.runtime.sources.archived.pieces import hull


def touching(rows: EventBatch, span: Span) -> EventBatch:
    """The moves that change something in a span."""
    low, high = np.minimum(rows.end, rows.new_end), np.maximum(rows.end, rows.new_end)
    return rows.where((low < span[1]) & (high > span[0]) & (low < high))


class Past(ABC):
    """The rows of all sources of a query, batch by batch."""

    @abstractmethod
    def schema(self, source: str) -> pa.Schema:
        """The payload columns that are kept of a source."""

    @abstractmethod
    def rows(
        self, source: str, span: Span, keep: Wanted, absent: Collection[int] = ()
    ) -> Iterable[EventBatch]:
        """What came of a source and may matter in a span, in the order of arrival.

        Args:
            source: The name of the source.
            span: The instants.
            keep: By column the values of which a row must have one.
            absent: Batches that are left out, as `absent` names them.
        """

    @abstractmethod
    def rows_behind(self, source: str, batch: int) -> Iterable[EventBatch]:
        """What came of a source behind a batch, in the order of arrival."""

    @abstractmethod
    def count(self, source: str, span: Span) -> int:
        """How many rows have to be looked at to read a span: about so many, and quickly told."""

    @abstractmethod
    def withheld(self, source: str, span: Span) -> Iterable[tuple[int, EventBatch]]:
        """What was not taken in, with the batch it came in."""

    def absent(
        self, source: str, span: Span, withheld: Sequence[tuple[int, EventBatch]]
    ) -> frozenset[int]:
        """The batches of which nothing was taken in, in a span: their rows need not be read.

        Args:
            source: The name of the source.
            span: The instants.
            withheld: What touches the span and was not taken in, with its batch.
        """
        del source, span, withheld
        return frozenset()

    def oldest(self, source: str) -> Time:
        """Nothing is missing of a source from here on."""
        del source
        return BEGINNING

    def believed(
        self, source: str, span: Span, revised: Collection[int], keep: Wanted | None = None
    ) -> EventBatch:
        """The events of a source in a span, as the query believes them.

        Args:
            source: The name of the source.
            span: Snapshots inside it are right.
            revised: The batches whose withheld rows have become a revision since.
            keep: Only rows with these values, by column; columns that are not kept do not count.
        """
        schema = self.schema(source)
        nothing = EventBatch.empty(schema)
        wanted = {name: values for name, values in (keep or {}).items() if name in schema.names}
        withheld = self._withheld_in(source, span, revised)
        absent = self.absent(source, span, withheld)
        rows = [touching(each, span) for each in self.rows(source, span, wanted, absent)]
        missing = [
            having(reversed_changes(each), wanted)
            for batch, each in withheld
            if batch not in absent
        ]
        return past_events(EventBatch.concat([nothing, *rows, *missing]), *span)

    def events(self, source: str, revised: Collection[int]) -> EventBatch:
        """All events of a source, as the query believes them, as they were named when they came.

        Later moves name them. Where a move named none, as in a revision of another query, those
        that have the same snapshots.
        """
        rows = [
            EventBatch.empty(self.schema(source)),
            *self.rows(source, EVERYTHING, {}),
            self.not_believed(source, EVERYTHING, revised),
        ]
        named = net(EventBatch.concat(rows))
        if (named.end != named.start).any():
            return past_events(named, *EVERYTHING)
        return named.with_stable(BEGINNING)

    def moves_behind(self, source: str, batch: int) -> EventBatch:
        """What the query has taken in of a source behind a batch, one move per event."""
        withheld = self.withheld(source, EVERYTHING)
        rows = [
            EventBatch.empty(self.schema(source)),
            *self.rows_behind(source, batch),
            *(reversed_changes(each) for number, each in withheld if number > batch),
        ]
        return net(EventBatch.concat(rows))

    def not_believed(self, source: str, span: Span, revised: Collection[int]) -> EventBatch:
        """What to add to the rows of a source to get what the query believes, as moves."""
        withheld = self._withheld_in(source, span, revised)
        missing = [reversed_changes(each) for _, each in withheld]
        return EventBatch.concat([EventBatch.empty(self.schema(source)), *missing])

    def _withheld_in(
        self, source: str, span: Span, revised: Collection[int]
    ) -> list[tuple[int, EventBatch]]:
        """What was not taken in, touches a span, and has not become a revision since."""
        return [
            (batch, touching(each, span))
            for batch, each in self.withheld(source, span)
            if batch not in revised
        ]


@final
class PastInMemory(Past):
    """The past of a query that runs in this process, over files that end."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Nothing has come yet of sources with these columns."""
        self._rows: dict[str, list[tuple[int, EventBatch]]] = {}
        self._withheld: dict[str, list[tuple[int, EventBatch]]] = {}
        self._schemas = dict(schemas)

    def add(self, source: str, batch: int, rows: EventBatch, withheld: EventBatch | None) -> None:
        """Keep what a batch brought."""
        self._schemas[source] = rows.schema
        self._rows.setdefault(source, []).append((batch, rows))
        if withheld is not None and len(withheld):
            self._withheld.setdefault(source, []).append((batch, withheld))

    def schema(self, source: str) -> pa.Schema:
        """The columns of the rows that came, or may come."""
        return self._schemas[source]

    def rows(
        self, source: str, span: Span, keep: Wanted, absent: Collection[int] = ()
    ) -> Iterable[EventBatch]:
        """All of it with these values: whoever asks picks what touches the span."""
        del span, absent
        return (having(each, keep) for _, each in self._rows.get(source, []))

    def rows_behind(self, source: str, batch: int) -> Iterable[EventBatch]:
        """What later batches brought."""
        return (each for number, each in self._rows.get(source, []) if number > batch)

    def count(self, source: str, span: Span) -> int:
        """The rows of batches that touch the span."""
        hulls = ((each, hull(each)) for _, each in self._rows.get(source, []))
        return sum(len(each) for each, (first, last) in hulls if first < span[1] and last > span[0])

    def withheld(self, source: str, span: Span) -> Iterable[tuple[int, EventBatch]]:
        """All of it."""
        del span
        return self._withheld.get(source, [])
