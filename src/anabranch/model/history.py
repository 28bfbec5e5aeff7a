"""The history of a stream: its events, and how much of them is final."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch, no_rows, take_rows
from anabranch.model.elements import Adjust, elements_of, show_element
from anabranch.model.netting import net
from anabranch.model.revised_events import revised_events
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray

NET_FROM_ROWS: Final = 2**18
"""From this many moves on that are not yet netted, they are netted."""


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class History:
    """The events of a stream after all its elements: a multiset of (payload, start, end).

    Attributes:
        payload: The user's columns, one row per event.
        start: When each event begins to hold.
        end: When it ceases to hold.
        stable: What is before this time is final.
    """

    payload: pa.RecordBatch
    start: TimeArray
    end: TimeArray
    stable: Time = BEGINNING

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(parts: Iterable[EventBatch | Revision], schema: pa.Schema | None = None) -> History:
        """Apply all elements and revisions; events come by start, end and payload.

        Revisions cut lifetimes and add new ones. An adjust names an event as it was announced.

        Raises:
            StreamError: An adjust names an event that does not exist, or a revision withdraws what
                does not hold.
        """
        revisions: list[Revision] = []
        netted = net_all(_without_revisions(parts, revisions), schema)
        broken = np.flatnonzero(netted.end != netted.start)
        if len(broken):
            element = elements_of(netted.take(broken[:1]))[0]
            assert isinstance(element, Adjust)
            raise StreamError(
                "an adjust names an event that does not exist",
                where=show_element(element),
                hint="'anabranch check' finds the element that breaks a promise",
            )
        if revisions:
            changes = EventBatch.concat([revision.changes for revision in revisions])
            if not len(netted):
                netted = EventBatch.empty(changes.schema, netted.stable)
            netted = revised_events(netted, changes).with_stable(netted.stable)
        order = _reading_order(netted)
        return History(
            payload=take_rows(netted.payload, order),
            start=netted.start[order],
            end=netted.new_end[order],
            stable=netted.stable,
        )

    @property
    def is_final(self) -> npt.NDArray[np.bool_]:
        """Which events can no longer change: those that end before the stable point.

        Where the stream has ended, all of them, also those that hold for ever.
        """
        return np.asarray((self.end < self.stable) | (self.stable == FOREVER))

    def snapshot(self, instant: int) -> pa.RecordBatch:
        """The payloads that hold at an instant."""
        return take_rows(
            self.payload, np.flatnonzero((self.start <= instant) & (instant < self.end))
        )

    def table(self, *, final: bool = False) -> pa.Table:
        """Payload columns, then `start` and `end`, and `final` if asked for."""
        names = [*self.payload.schema.names, "start", "end"]
        columns = [*self.payload.columns, pa.array(self.start), pa.array(self.end)]
        if final:
            names.append("final")
            columns.append(pa.array(self.is_final))
        return pa.Table.from_arrays(columns, names=names)


def _without_revisions(
    parts: Iterable[EventBatch | Revision], revisions: list[Revision]
) -> Iterator[EventBatch]:
    for part in parts:
        if isinstance(part, Revision):
            revisions.append(part)
        else:
            yield part


def net_all(batches: Iterable[EventBatch], schema: pa.Schema | None = None) -> EventBatch:
    """All batches as one, netted; memory is in proportion to the result, not to the stream."""
    parts: list[EventBatch] = []
    pending = kept = 0
    for batch in batches:
        parts.append(batch)
        pending += len(batch)
        if pending > max(NET_FROM_ROWS, kept):
            parts = [net(EventBatch.concat(parts))]
            pending, kept = 0, len(parts[0])
    if not parts:
        return EventBatch.empty(schema or pa.schema([]))
    return net(EventBatch.concat(parts))


def snapshot_of(batches: Iterable[EventBatch], instant: int, schema: pa.Schema) -> pa.RecordBatch:
    """The payloads that hold at an instant, from the moves of a stream; one pass, little memory."""

    def at_instant(batch: EventBatch) -> EventBatch:
        gains = (batch.end <= instant) & (instant < batch.new_end)
        loses = (batch.new_end <= instant) & (instant < batch.end)
        rows = np.flatnonzero(gains | loses)
        # Seen from the instant, a payload is inserted or withdrawn.
        zero = np.zeros(len(rows), np.int64)
        lost = loses[rows].astype(np.int64)
        return EventBatch(take_rows(batch.payload, rows), zero, lost, 1 - lost)

    found = net_all((at_instant(batch) for batch in batches), schema)
    held = found.where(found.new_end > found.end)
    return take_rows(held.payload, _reading_order(held)) if len(held) else no_rows(schema)


def _reading_order(batch: EventBatch) -> npt.NDArray[np.int64]:
    """By start, end, and those payload columns that have an order."""
    keys = [pa.array(batch.start), pa.array(batch.new_end)]
    keys += [column for column in batch.payload.columns if _is_sortable(column.type)]
    table = pa.Table.from_arrays(keys, names=[str(i) for i in range(len(keys))])
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
    return np.asarray(order.to_numpy().astype(np.int64))


def _is_sortable(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind))
