"""Hold back what may still change, and let it go in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.kernels.contract.column_names import CHECK, END, ID, TIME
from anabranch.kernels.contract.kernel import RESTLESS, Arrived, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.packed_events import payload_of, unpack_events
from anabranch.kernels.contract.routing import Routing, by_payload
from anabranch.kernels.lifetimes.final import FinalKernel
from anabranch.kernels.lifetimes.packed_events import concat_where, pack, packed_schema, run_of
from anabranch.kernels.trace.event_trace import add_up, events_merger
from anabranch.kernels.trace.runs import add_run
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Time


@final
@dataclass(frozen=True, slots=True)
class CleanseKernel(Stateful):
    """Only inserts leave, ordered by start: cut at the stable point, or whole events.

    Whole events are remembered until they leave. The events that may still change say how far
    the others may go: up to the least start among them.
    """

    identity: ClassVar[Identity] = Identity("CleanseKernel", ("node",), form=("route",))

    node: Cleanse

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    @property
    def promises_by_state(self) -> bool:
        """What may still change holds back whole events."""
        return not self.node.cut

    @property
    def looks_back(self) -> bool:
        """What was released is not released again."""
        return self.node.cut

    def routing(self, name: str) -> Routing:
        """Events have their payload."""
        del name
        return by_payload(self.route, self.schema)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Events with both hashes of their payload."""
        del side
        return packed_schema(self.node.input.schema)

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with the hash of their payload."""
        del side
        return pack(batch)

    def rest(self, trace: Trace) -> Rest:
        """Until the first of the events that may still change is settled; they hold others back."""
        held = trace.runs.get("events", ())
        if self.node.cut:
            return FinalKernel(self.schema).rest(trace)
        if not held:
            return Rest(FOREVER)
        rows = held[0].rows
        if len(held) > 1 or (rows.column(COUNT).to_numpy() < 0).any():
            # What is taken away again holds nothing back.
            return RESTLESS
        changes = ~_settled(rows, trace.stable)
        start, end = (rows.column(name).to_numpy()[changes] for name in (TIME, END))
        until = min(int(end.min(initial=FOREVER)), FOREVER - 1)
        return Rest(Time(until), Time(start.min(initial=FOREVER)))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Take in what arrived; let go what is settled and has nothing in front of it."""
        if self.node.cut:
            return FinalKernel(self.schema).step(trace, arrived, stable)
        (rows,) = arrived
        fresh = run_of(rows, unpack_events(rows, self.schema, stable))
        held = trace.runs.get("events", ())
        runs = (*held, SortedRun(fresh))
        least = self._least_open(runs, stable)
        due = [
            (run.rows, _settled(run.rows, stable) & (run.rows.column(TIME).to_numpy() <= least))
            for run in runs
        ]
        leaving = _events(due)
        output = self._output(leaving, Time(min(least, stable)))
        if stable == FOREVER:
            return Trace({}, stable), output
        # What left is taken away by rows that count -1; ends say nothing about when that is.
        merge = events_merger(BEGINNING, [CHECK])
        gone = run_of(leaving, output.with_ends(output.new_end, output.start))
        for news in (fresh, gone):
            held = add_run(held, news, BEGINNING, merge, anchors=False)
        return Trace({"events": held} if held else {}, stable), output

    def _least_open(self, runs: Sequence[SortedRun], stable: Time) -> int:
        """The least start of an event that may still change, FOREVER without any."""
        still = _events([(run.rows, ~_settled(run.rows, stable)) for run in runs])
        return int(still.column(TIME).to_numpy().min(initial=FOREVER))

    def _output(self, events: pa.RecordBatch, stable: Time) -> EventBatch:
        start, end = (events.column(name).to_numpy() for name in (TIME, END))
        return EventBatch(payload_of(events, self.schema), start, start, end, stable)


def _settled(rows: pa.RecordBatch, stable: Time) -> np.ndarray:
    """Which events are fully frozen."""
    end = rows.column(END).to_numpy()
    return np.full(len(end), True) if stable == FOREVER else end < stable


def _events(parts: Sequence[tuple[pa.RecordBatch, np.ndarray]]) -> pa.RecordBatch:
    """The events that are there, one row each, by start and end, then by payload.

    They are added up by the hash of their payload, and sorting keeps the order of ties.
    """
    rows = concat_where(parts)
    positions, counts = add_up(rows, [CHECK], rows.column(ID).to_numpy())
    rows = rows.take(pa.array(np.repeat(positions, np.maximum(counts, 0))))
    return rows.take(
        pa.array(np.lexsort((rows.column(END).to_numpy(), rows.column(TIME).to_numpy())))
    )
