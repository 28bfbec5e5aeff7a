"""The answer of a query so far, small enough for the process that shows it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import QueryError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.files.revision_rows import REVISE_KINDS
from anabranch.model.history import History, net_all, snapshot_of
from anabranch.model.revision import Revision, clipped_changes, snapshot_changes
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray

Instant: TypeAlias = Literal["latest", "stable"]

MAX_EVENTS: Final = 1_000_000
"""Above this many events the oldest final ones are forgotten."""

_MERGE_FROM_EVENTS: Final = 2**16


@final
class Answer:
    """The elements of a result, netted now and then; filled by one thread, read by others.

    Attributes:
        schema: The columns of the result.
        clock: How times are counted.
        changed: Notified when elements come in.
        batches: How many times that was.
        stable: The stable point of what came in.
        latest: The latest instant at which something begins to hold.
        forgotten: Snapshots before this instant are lost.
    """

    def __init__(self, schema: pa.Schema, *, clock: Clock, most: int = MAX_EVENTS) -> None:
        """Nothing yet."""
        self.schema = schema
        self.clock = clock
        self.changed: threading.Condition = threading.Condition()
        self.batches: int = 0
        self.stable: Time = BEGINNING
        self.latest: Time = BEGINNING
        self.forgotten: Time = BEGINNING
        self._most = most
        self._parts: list[EventBatch] = []
        self._revised = EventBatch.empty(schema)
        self._merged_rows = self._pending = 0
        self._last: int | None = None

    @staticmethod
    def of(elements: pa.Table, schema: pa.Schema, *, clock: Clock) -> Answer:
        """Everything that a result says."""
        answer = Answer(schema, clock=clock)
        answer.replace(elements)
        return answer

    def add(self, elements: pa.Table, batch: int) -> None:
        """Take in the elements of a batch; after a failure the last one may come again."""
        with self.changed:
            if self._last is None or batch > self._last:
                self._last = batch
                self._take_in(elements)

    def replace(self, elements: pa.Table) -> None:
        """Take in all elements again, from the beginning."""
        with self.changed:
            self._parts, self._merged_rows, self._pending = [], 0, 0
            self._revised = EventBatch.empty(self.schema)
            self._take_in(elements)

    def await_batch(self, batches: int, seconds: float) -> None:
        """Wait until there are not just so many batches any more, at most so long."""
        with self.changed:
            self.changed.wait_for(lambda: self.batches != batches, seconds)

    def snapshot(self, at: Time) -> pa.RecordBatch:
        """The payloads that hold at an instant.

        Raises:
            QueryError: What was known of it has been forgotten.
        """
        with self.changed:
            parts, forgotten = [*self._parts, self._revised], self.forgotten
        if at < forgotten:
            raise QueryError(
                f"the snapshot at {self.show(at)} is no longer kept",
                where=f"snapshots are kept from {self.show(forgotten)} on",
                hint="write the query to a folder with \\to, and read the folder",
            )
        return snapshot_of(parts, at, self.schema)

    def instant(self, at: Instant = "stable") -> Time:
        """Where to look: at the last final instant, or where something begins to hold last.

        A window lets rows begin to hold long after the last one came in, when others leave it. So
        the latest instant is not what most people want to see.
        """
        if at == "stable" and BEGINNING < self.stable < FOREVER:
            return Time(self.stable - 1)
        return self.latest

    def history(self) -> History:
        """All events that are kept, after revisions."""
        with self.changed:
            parts: list[EventBatch | Revision] = [*self._parts]
            # What was revised of snapshots that are forgotten has nothing left to change.
            kept = clipped_changes(self._revised, self.forgotten, FOREVER)
            revision, stable = Revision.of(1, kept), self.stable
        history = History.of([*parts, revision] if revision else parts, self.schema)
        return History(payload=history.payload, start=history.start, end=history.end, stable=stable)

    def recent(self, count: int) -> History:
        """The events that began to hold last, among those of the last batches."""
        with self.changed:
            parts, stable = list(self._parts), self.stable
        tail: list[EventBatch] = []
        while parts and sum(map(len, tail)) < count:
            tail.append(parts.pop())
        events = net_all(reversed(tail), self.schema)
        # An end that moved may be that of an event before the tail.
        events = events.where(events.end == events.start)
        last = events.take(np.argsort(events.start, kind="stable")[-count:])
        return History(payload=last.payload, start=last.start, end=last.new_end, stable=stable)

    def show(self, time: int) -> str:
        """A time for people."""
        return self.clock.format(time)

    def _take_in(self, elements: pa.Table) -> None:
        is_revised = _kinds(elements, REVISE_KINDS)
        if is_revised.any():
            changes = _events(elements.filter(pa.array(is_revised)), self.schema)
            self._revised = snapshot_changes(EventBatch.concat([self._revised, changes]))
            elements = elements.filter(pa.array(~is_revised))
        events = _events(elements, self.schema)
        self.batches += 1
        self.stable = Time(max(self.stable, events.stable))
        if len(events):
            self.latest = Time(max(self.latest, int(events.start.max())))
            self._parts.append(events)
            self._pending += len(events)
            if self._pending > max(_MERGE_FROM_EVENTS, self._merged_rows):
                self._compact()
        self.changed.notify_all()

    def _compact(self) -> None:
        whole = net_all(self._parts, self.schema)
        if len(whole) > self._most:
            # An end at the stable point itself may still move; what is before it may not.
            old = np.sort(whole.new_end[whole.new_end < self.stable])
            surplus = min(len(whole) - self._most // 2, len(old))
            if surplus:
                self.forgotten = Time(int(old[surplus - 1]))
                whole = whole.where(whole.new_end > self.forgotten)
        self._parts, self._merged_rows, self._pending = [whole], len(whole), 0


def _events(elements: pa.Table, schema: pa.Schema) -> EventBatch:
    """The rows of an element table as moves of ends, without those that announce revisions."""
    elements = elements.filter(pa.array(~_kinds(elements, REVISE_KINDS[:1])))
    is_stable = _kinds(elements, ("stable",))
    times = elements["start"].to_numpy()
    stable = Time(int(times[is_stable].max(initial=BEGINNING)))
    rows = elements.filter(pa.array(~is_stable)) if is_stable.any() else elements
    if not rows.num_rows:
        return EventBatch.empty(schema, stable)
    start = rows["start"].to_numpy()
    is_adjust = _kinds(rows, ("adjust", "revise-adjust"))
    end, new_end = _ends(rows["end"]), _ends(rows["new_end"])
    payload = rows.select(schema.names).combine_chunks().to_batches()[0]
    return EventBatch(
        pa.RecordBatch.from_arrays(payload.columns, schema=schema),
        start,
        np.where(is_adjust, end, start),
        np.where(is_adjust, new_end, end),
        stable,
    )


def _kinds(elements: pa.Table, kinds: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which rows are of one of these kinds."""
    return np.asarray(pc.is_in(elements["kind"], pa.array(kinds, pa.string())).to_numpy())


def _ends(column: pa.ChunkedArray) -> TimeArray:
    return np.asarray(pc.fill_null(column, int(FOREVER)).to_numpy())
