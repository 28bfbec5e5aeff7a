"""Positions of rows in an order, at every instant: compared before and after each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.ranking import NEIGHBOURS, Ranking
from anabranch.expressions.expression import evaluate_all
from anabranch.kernels.columns.grouped import Ids, Ints, is_first
from anabranch.kernels.columns.lazy_concat import LazyConcat, LazyPart
from anabranch.kernels.contract.column_names import END, ID, NEW_END, ROW, ROW_CHECK, START, TIME
from anabranch.kernels.contract.kernel import Arrived, Need, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import key_checks, key_ids
from anabranch.kernels.contract.prepared import assemble, hashes, keyed, numbers
from anabranch.kernels.contract.routing import BY_CHECK, Routing, by_payload, marked
from anabranch.kernels.multiplicity.multiplicity import Runs, Steps, forget, revise_multiplicity
from anabranch.kernels.ranking.positions import CodeOrder, HeldRows, Pieces, changed_positions
from anabranch.kernels.top_k.row_order import order_codes, rank_rows
from anabranch.kernels.top_k.top_k import ArrivedMoves
from anabranch.kernels.trace.cutting import cut_before
from anabranch.kernels.trace.event_trace import (
    event_rows,
    events_merger,
    events_over,
    events_schema,
)
from anabranch.kernels.trace.ranked_events import unknown_event
from anabranch.kernels.trace.rest import lists_rest
from anabranch.kernels.trace.runs import add_run
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.identity import Identity
from anabranch.model.time import Time

EVENTS: Final = "events"
_POSITIONS: Final = {"row_number": 0, "rank": 1, "dense_rank": 2}


@final
@dataclass(frozen=True, slots=True)
class RankingKernel(Stateful):
    """Rows of groups with their positions.

    One trace keeps the events that may still change. For the stretch of time that a batch touches
    in a group, the positions of all its rows are computed without the batch and with it; the
    difference goes through timelines of the output, so that it leaves in its longest lifetimes.
    """

    identity: ClassVar[Identity] = Identity("RankingKernel", ("node",), form=("route",))

    node: Ranking

    @property
    def label(self) -> str:
        """The node's; events are kept."""
        return f"{self.node.label} [keeps events]"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the input, then the new ones."""
        return self.node.schema

    @property
    def spread(self) -> str:
        """The partitioning."""
        return ", ".join(expression.sql for _, expression in self.node.partition_by)

    @property
    def _given(self) -> pa.Schema:
        return self.node.input.schema

    def routing(self, name: str) -> Routing:
        """Events have payloads; what was sent has marked hashes."""
        return by_payload(self.route, self._given) if name == EVENTS else BY_CHECK

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Events with the ids of their groups."""
        del side
        times = numbers(START, END, NEW_END)
        return pa.schema([*hashes(ID), *times, *keyed(self._given.types)])

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with their payloads."""
        del side
        parts = [part for _, part in self.node.partition_by]
        ids = key_ids(evaluate_all(parts, batch.payload, len(batch)), len(batch))
        columns = {f"key{index}": column for index, column in enumerate(batch.payload.columns)}
        columns |= {ID: ids, START: batch.start, END: batch.end, NEW_END: batch.new_end}
        return assemble(self.prepared_schema(), columns)

    def purge(
        self, trace: Trace, arrived: Arrived, need: Need, sides: Sequence[Time]
    ) -> tuple[Trace, Arrived]:
        """Forget the snapshots that are not needed: positions follow from the snapshot."""
        del sides
        return cut_before(self, trace, arrived, need.first)

    def rest(self, trace: Trace) -> Rest:
        """Until some of its rows are expected to have expired."""
        return Rest(lists_rest(trace.runs, trace.stable, plain=(EVENTS,)))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Compare the positions in the groups that something arrived for."""
        (rows,) = arrived
        runs: Runs = dict(trace.runs)
        held = runs.pop(EVENTS, ())
        output = EventBatch.empty(self.schema, stable)
        fresh = None
        if rows.num_rows:
            fresh = self._events(rows)
            output = self._compare(runs, held, (*held, SortedRun(fresh)), rows, stable)
        runs = forget(runs, stable)
        if held or fresh is not None:
            new = no_rows(held[0].rows.schema) if fresh is None else fresh
            merge = events_merger(stable, [ROW, ROW_CHECK])
            runs[EVENTS] = add_run(held, new, stable, merge, anchors=False)
        return Trace({name: kept for name, kept in runs.items() if kept}, stable), output

    def _events(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = (ID, START, END, NEW_END)
        ids, start, end, new_end = (rows.column(name).to_numpy() for name in names)
        payload = [rows.column(f"key{index}") for index in range(len(self._given))]
        both = [hash_(payload, rows.num_rows) for hash_ in (key_ids, key_checks)]
        arrays = [*(pa.array(part) for part in both), *payload]
        return event_rows(ids, start, end, new_end, list(zip(self._event_names, arrays)))

    @property
    def _event_names(self) -> list[str]:
        return [ROW, ROW_CHECK, *(f"key{index}" for index in range(len(self._given)))]

    def _compare(
        self,
        runs: Runs,
        before: Sequence[SortedRun],
        after: Sequence[SortedRun],
        rows: pa.RecordBatch,
        stable: Time,
    ) -> EventBatch:
        moves = ArrivedMoves.of(rows)
        low, high = moves.reach()
        both = [self._held(each, moves.ids, low, high) for each in (before, after)]
        parts = [LazyPart.of(part, len(self._given)) for part, _ in both]
        concat = LazyConcat(self._given, parts)
        owner = np.concatenate([of for _, of in both])
        if not len(owner):
            return EventBatch.empty(self.schema, stable)
        code = rank_rows(concat, owner, self.node.order_by)
        cut = len(both[0][1])
        held = [
            HeldRows(
                of,
                code[:cut] if number == 0 else code[cut:],
                np.maximum(part.column(TIME).to_numpy(), low[of]),
                np.minimum(part.column(END).to_numpy(), high[of]),
                part.column(COUNT).to_numpy(),
            )
            for number, (part, of) in enumerate(both)
        ]
        row_of = np.empty(int(code.max()) + 1, np.int64)
        row_of[code] = np.arange(len(code))
        order = self._order(concat, owner, row_of, len(moves.ids))
        pieces = changed_positions([call for _, call in self.node.columns], order, *held)
        return self._sent(runs, pieces, concat, row_of, moves.ids[owner], stable)

    def _held(
        self, runs: Sequence[SortedRun], ids: Ids, low: Ints, high: Ints
    ) -> tuple[pa.RecordBatch, Ints]:
        kinds = [pa.uint64(), pa.uint64(), *self._given.types]
        schema = events_schema(list(zip(self._event_names, kinds)))
        found, owner = events_over(runs, schema, [ROW, ROW_CHECK], ids, low, high)
        if (found.column(COUNT).to_numpy() < 0).any():
            raise unknown_event()
        return found, owner

    def _order(self, concat: LazyConcat, owner: Ints, row_of: Ints, groups: int) -> CodeOrder:
        """Codes follow each other by group; peers are those that `order_by` cannot tell apart."""
        first_code = np.zeros(groups + 1, np.int64)
        np.add.at(first_code, owner[row_of] + 1, 1)
        first_code = np.cumsum(first_code)
        keys = [key[row_of] for key in order_codes(concat, self.node.order_by)]
        first = is_first(owner[row_of], *keys)
        return CodeOrder(first_code, np.cumsum(first) - 1, np.flatnonzero(first))

    def _sent(
        self,
        runs: Runs,
        pieces: Pieces,
        concat: LazyConcat,
        row_of: Ints,
        group_ids: Ids,
        stable: Time,
    ) -> EventBatch:
        """The difference as moves of output events, in their longest lifetimes."""
        length, rows = len(pieces.code), row_of[pieces.code]
        given = concat.take(rows)
        payload = pa.RecordBatch.from_arrays(
            [*given.columns, *self._positions(pieces, concat, row_of, given)], schema=self.schema
        )
        route = self.route
        routes = group_ids[rows] if route is None or route.is_own else route.ids(given)
        more = pieces.count > 0
        steps = Steps(
            ids=key_ids(payload.columns, length),
            check=marked(routes, key_checks(payload.columns, length)),
            end=np.where(more, pieces.low, pieces.high),
            new_end=np.where(more, pieces.high, pieces.low),
            count=np.abs(pieces.count),
            route=routes,
        )
        if not length:
            return EventBatch.empty(self.schema, stable)
        found = revise_multiplicity(runs, "", steps, "coalesce", stable, self.label)
        return EventBatch(
            payload.take(pa.array(found.rows)), found.start, found.end, found.new_end, stable
        )

    def _positions(
        self, pieces: Pieces, concat: LazyConcat, row_of: Ints, given: pa.RecordBatch
    ) -> list[pa.Array]:
        """The new columns."""
        columns, seen = [], 3
        for _, call in self.node.columns:
            if call.function not in NEIGHBOURS:
                numbers_ = pieces.table[:, _POSITIONS[call.function]]
                columns.append(pa.array(numbers_).cast(pa.int32()))
                continue
            assert call.argument is not None
            other = pieces.table[:, seen]
            seen += 1
            needed = concat.columns(call.argument.columns)
            (values,) = evaluate_all([call.argument], needed, len(concat))
            alone = other < 0
            source = np.where(alone, 0, row_of[other])
            if call.default is not None:
                (own,) = evaluate_all([call.default], given, len(given))
                values = pa.concat_arrays([values, own.cast(values.type)])
                source = np.where(alone, len(concat) + np.arange(len(source)), source)
                alone = np.zeros_like(alone)
            columns.append(values.take(pa.array(source, mask=alone)).cast(call.type))
        return columns
