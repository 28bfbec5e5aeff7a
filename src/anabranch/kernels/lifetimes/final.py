"""Let pass only what can no longer change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import CHECK, END, ID, NEW_END, START, TIME
from anabranch.kernels.contract.kernel import Arrived, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import key_checks, key_ids
from anabranch.kernels.contract.packed_events import pack_events, packed_schema, payload_names
from anabranch.kernels.contract.routing import Routing, by_payload
from anabranch.kernels.trace.event_trace import add_up, event_rows, events_merger
from anabranch.kernels.trace.rest import runs_rest
from anabranch.kernels.trace.runs import add_run
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import FOREVER, Time


@final
@dataclass(frozen=True, slots=True)
class FinalKernel(Stateful):
    """Final emission: when the stable point moves from a to b, what holds in [a, b), cut to it.

    No element that leaves is ever taken back, and the output's stable point is the input's.
    """

    identity: ClassVar[Identity] = Identity("FinalKernel", ("payload",), form=("route",))

    payload: pa.Schema

    @property
    def label(self) -> str:
        """The label in explain: final emission."""
        return "Final (holds what may still change)"

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.payload

    @property
    def looks_back(self) -> bool:
        """What was released is not released again."""
        return True

    def routing(self, name: str) -> Routing:
        """Events have their payload."""
        del name
        return by_payload(self.route, self.payload)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Events with both hashes of their payload."""
        del side
        return packed_schema(self.payload, hashed=(ID, CHECK))

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with the hash of their payload."""
        del side
        columns = list(batch.payload.columns)
        ids, checks = key_ids(columns, len(batch)), key_checks(columns, len(batch))
        return pack_events(batch, hashed={ID: ids, CHECK: checks})

    def rest(self, trace: Trace) -> Rest:
        """Until the first event begins of which nothing has left; what is open leaves in pieces."""
        held, stable = trace.runs.get("events", ()), trace.stable
        begins = int(FOREVER)
        for run in held:
            start, end = (run.rows.column(name).to_numpy() for name in (TIME, END))
            begins = min(begins, int(start[end > stable].min(initial=FOREVER)))
        # What has begun leaves with the next step of the stable point.
        due = max(begins, int(stable))
        return Rest(Time(min(due, runs_rest(held, stable, anchors=False))))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Hold what arrived; release what lies between the old and the new stable point."""
        (rows,) = arrived
        held = trace.runs.get("events", ())
        values = [(name, rows.column(name)) for name in (CHECK, *payload_names(self.payload))]
        fresh = event_rows(
            rows.column(ID).to_numpy(),
            rows.column(START).to_numpy(),
            rows.column(END).to_numpy(),
            rows.column(NEW_END).to_numpy(),
            values,
        )
        output = self._release((*held, SortedRun(fresh)), trace.stable, stable)
        kept = add_run(held, fresh, stable, events_merger(stable, [CHECK]), anchors=False)
        return Trace({"events": kept} if kept else {}, stable), output

    def _release(self, runs: tuple[SortedRun, ...], before: Time, stable: Time) -> EventBatch:
        parts = []
        for run in runs:
            start, end = run.rows.column(TIME).to_numpy(), run.rows.column(END).to_numpy()
            due = np.flatnonzero((start < stable) & (end > before))
            if len(due) and stable > before:
                parts.append(run.rows.take(pa.array(due)))
        if not parts:
            return EventBatch.empty(self.payload, stable)
        rows = pa.concat_batches(parts)
        positions, counts = add_up(rows, [CHECK], rows.column(ID).to_numpy())
        positions = np.repeat(positions, np.maximum(counts, 0))
        start = np.maximum(rows.column(TIME).to_numpy()[positions], np.int64(before))
        end = np.minimum(rows.column(END).to_numpy()[positions], np.int64(stable))
        columns = [
            rows.column(f"key{index}").take(pa.array(positions))
            for index in range(len(self.payload))
        ]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.payload)
        order = np.lexsort((end, start))
        return EventBatch(payload, start, start, end, stable).take(order)
