"""Lifetimes out of signed points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.forms.from_signed import FromSigned, no_sign, too_long
from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import Ids, Ints, is_first, positions_of
from anabranch.kernels.contract.column_names import CHECK, ID, TIME
from anabranch.kernels.contract.kernel import RESTLESS, Arrived, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import key_checks, key_ids, needs_check
from anabranch.kernels.contract.packed_events import payload_names, payload_of
from anabranch.kernels.contract.prepared import assemble, hashes, keyed, numbers
from anabranch.kernels.contract.routing import (
    BY_CHECK,
    Routing,
    by_id_or,
    by_payload,
    is_own,
    routed_checks,
)
from anabranch.kernels.lifetimes.packed_events import concat_where
from anabranch.kernels.multiplicity.multiplicity import (
    Runs,
    Steps,
    first_rows,
    forget,
    revise_levels,
    routes_of,
)
from anabranch.kernels.trace.rest import lists_rest
from anabranch.kernels.trace.timeline import LaneMoves, Lanes, revise, settle
from anabranch.kernels.trace.timeline_rows import COUNT, REMOVED, newest_rows
from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.identity import Identity
from anabranch.model.payload import payloads, show_payload
from anabranch.model.time import FOREVER, Time, format_time

MOST_POINTS: Final = 20_000_000
"""A batch with more points than this is refused."""

NET: Final = "net"
"""The lane with the sum of signs; COUNT is 0 where that is 0, else 1, as a count is never < 0."""


@final
@dataclass(frozen=True, slots=True)
class FromSignedKernel(Stateful):
    """Sums of signs over time, per payload; level k holds while the sum is at least k.

    Payloads with a sum below 0 are remembered, to be named if the stable point passes it.
    """

    identity: ClassVar[Identity] = Identity(
        "FromSignedKernel", ("node",), form=("route", "columns=_lanes.schema")
    )

    node: FromSigned

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """That of the input without the sign."""
        return self.node.schema

    @property
    def _lanes(self) -> Lanes:
        checked = needs_check([field.type for field in self.schema])
        return Lanes(whole=(COUNT, NET), checked=checked or not is_own(self.route))

    @property
    def looks_back(self) -> bool:
        """What is settled is looked at once more."""
        return True

    def routing(self, name: str) -> Routing:
        """Sums of payloads, their levels, and payloads."""
        if name == "suspects":
            return by_payload(self.route, self.schema)
        return by_id_or(self.route, BY_CHECK) if name == "sums" else BY_CHECK

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Points of payloads with the sums of their signs."""
        del side
        checks = [CHECK] if self._lanes.checked else []
        return pa.schema([*hashes(ID, *checks), *numbers(TIME, NET), *keyed(self.schema.types)])

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """Points of one payload and instant are added up."""
        del side
        weight = self._signs(batch) * np.where(batch.new_end > batch.end, 1, -1)
        low, high = np.minimum(batch.end, batch.new_end), np.maximum(batch.end, batch.new_end)
        instants = high.view(np.uint64) - low.view(np.uint64)
        if float(instants.astype(np.float64).sum()) > MOST_POINTS:
            raise too_long(self.label, int(instants.max()))
        offset, row = positions_of(np.zeros(len(batch), np.int64), instants.astype(np.int64))
        payload = _without(batch.payload, self.node.sign_index)
        columns = list(payload.columns)
        ids = key_ids(columns, len(batch))
        checks = routed_checks(self.route, payload, key_checks(columns, len(batch)))
        instant = low[row] + offset
        order = np.lexsort((instant, checks[row], ids[row]))
        row, instant = row[order], instant[order]
        first = is_first(ids[row], checks[row], instant)
        total = np.add.reduceat(weight[row], np.flatnonzero(first)) if len(row) else weight[row]
        row, instant = row[first], instant[first]
        nonzero = np.flatnonzero(total)
        row = row[nonzero]
        arrays = {ID: ids[row], CHECK: checks[row], TIME: instant[nonzero], NET: total[nonzero]}
        taken = take_rows(payload, row)
        arrays |= zip(payload_names(self.schema), taken.columns, strict=True)
        return assemble(self.prepared_schema(), arrays)

    def _signs(self, batch: EventBatch) -> Ints:
        column = batch.payload.column(self.node.sign_index)
        signs: Ints = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        wrong = np.flatnonzero(np.abs(signs) != 1)
        if len(wrong):
            row = batch.take(wrong[:1])
            raise no_sign(self.label, payloads(row.payload, 1)[0], int(row.start[0]))
        return signs

    def rest(self, trace: Trace) -> Rest:
        """As other counts of payloads, but sums below 0 are looked at in every step."""
        return RESTLESS if "suspects" in trace.runs else Rest(lists_rest(trace.runs, trace.stable))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Revise the sums of the payloads that something arrived for."""
        (rows,) = arrived
        runs = dict(trace.runs)
        suspects = runs.pop("suspects", ())
        output = EventBatch.empty(self.schema, stable)
        if rows.num_rows:
            output = self._revise(runs, rows, trace.stable, stable)
        suspects = self._suspects(runs.get("sums", ()), suspects, rows, stable)
        runs = forget(runs, stable)
        if suspects:
            runs["suspects"] = suspects
        return Trace(runs, stable), output

    def _revise(self, runs: Runs, rows: pa.RecordBatch, before: Time, stable: Time) -> EventBatch:
        lanes, held = self._lanes, runs.get("sums", ())
        ids, instant = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
        net, nothing = rows.column(NET).to_numpy(), np.zeros(rows.num_rows, np.int64)
        check = rows.column(CHECK).to_numpy() if lanes.checked else None
        forever = np.full(rows.num_rows, np.int64(FOREVER))
        moves = LaneMoves(ids, instant, forever, {COUNT: nothing, NET: net}, check)
        sums = revise(held, lanes, moves)
        sums.new[COUNT] = (sums.new[NET] != 0).astype(np.int64)
        same = np.zeros(len(sums.ids), np.bool_)
        # What the new stable point settles is looked at once more before it is forgotten.
        runs["sums"], _ = settle(held, lanes, sums, {}, same, same, before)
        route = routes_of(self.route, rows)
        steps = Steps(ids, check, instant, forever, nothing, route=route)
        was, now = np.maximum(sums.old[NET], 0), np.maximum(sums.new[NET], 0)
        found = revise_levels(runs, "", steps, sums, was, now, stable)
        payload = payload_of(take_rows(rows, found.rows), self.schema)
        return EventBatch(payload, found.start, found.end, found.new_end, stable)

    def _suspects(
        self,
        sums: tuple[SortedRun, ...],
        runs: tuple[SortedRun, ...],
        rows: pa.RecordBatch,
        stable: Time,
    ) -> tuple[SortedRun, ...]:
        """The payloads with a sum below 0, after the stable point: before it, that is an error."""
        negative = _negative(sums)
        if not negative.num_rows:
            return ()
        ids, times = negative.column(ID).to_numpy(), negative.column(TIME).to_numpy()
        named = [ID, *payload_names(self.schema)]
        parts = [*(run.rows for run in runs), rows.select(named)]
        seen = pa.concat_batches(parts)
        wanted = ids[is_first(ids)]
        seen = seen.take(pa.array(first_rows(seen.column(ID).to_numpy(), wanted)))
        if (times < stable).any():
            where = int(np.argmin(times))
            row = seen.slice(int(np.searchsorted(wanted, ids[where])), 1)
            payload = payloads(payload_of(row, self.schema), 1)[0]
            raise StreamError(
                "more ends than beginnings",
                where=f"{self.label}: the signs of {show_payload(payload)} add up to "
                f"{int(negative.column(NET).to_numpy()[where])} at instant "
                f"{format_time(int(times[where]))}",
                hint="every -1 needs an earlier +1 of the same payload",
            )
        return (SortedRun(seen),)


def _negative(sums: tuple[SortedRun, ...]) -> pa.RecordBatch:
    """The rows of the sums that are below 0 now, by id and time."""
    below = [run.rows.column(NET).to_numpy() < 0 for run in sums]
    ids: list[Ids] = [run.rows.column(ID).to_numpy() for run in sums]
    below_zero = [np.unique(of[mask]) for of, mask in zip(ids, below, strict=True)]
    suspected = np.concatenate([np.empty(0, np.uint64), *below_zero])
    if not len(suspected):
        return pa.RecordBatch.from_pydict({ID: pa.array([], pa.uint64())})
    masks = [np.isin(of, suspected) for of in ids]
    rows = newest_rows([concat_where([(run.rows, m)]) for run, m in zip(sums, masks, strict=True)])
    stands = rows.column(COUNT).to_numpy() != REMOVED
    return rows.take(pa.array(np.flatnonzero(stands & (rows.column(NET).to_numpy() < 0))))


def _without(payload: pa.RecordBatch, index: int) -> pa.RecordBatch:
    return payload.select([number for number in range(payload.num_columns) if number != index])
