"""The first rows in an order, at every instant: looked up again only where one of them leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.top_k import TopK
from anabranch.errors import EngineError, StreamError
from anabranch.expressions.expression import evaluate_all
from anabranch.kernels.columns.families import TOP
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first, order_by_id
from anabranch.kernels.columns.lazy_concat import LazyConcat, LazyPart
from anabranch.kernels.contract.column_names import END, ID, NEW_END, ROW, ROW_CHECK, START, TIME
from anabranch.kernels.contract.kernel import Arrived, Need, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import ids_and_checks, key_checks, key_ids, needs_check
from anabranch.kernels.contract.prepared import assemble, hashes, keyed, numbers
from anabranch.kernels.contract.routing import Routing, by_payload
from anabranch.kernels.top_k.best_rows import (
    Alive,
    Ranges,
    RankChanges,
    Stretches,
    crowded,
    keep_best,
    survey,
)
from anabranch.kernels.top_k.contenders import contenders
from anabranch.kernels.top_k.lifetimes import Lifetimes, move_lifetimes, order_by_code_and_time
from anabranch.kernels.top_k.memberships import (
    Members,
    membership_rows,
    memberships_merger,
    memberships_of,
)
from anabranch.kernels.top_k.next_rows import rows_to_read
from anabranch.kernels.top_k.rank_order import RankedRows, RowOrder
from anabranch.kernels.top_k.row_order import rank_rows
from anabranch.kernels.top_k.sweep import sweep
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
from anabranch.model.time import BEGINNING, FOREVER, Time

BEST: Final = "best"
EVENTS: Final = "events"


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrivedMoves:
    """What arrived: the groups, in order, and per row its group and the move of its end."""

    ids: Ids
    owner: Ints
    start: Ints
    end: Ints
    new_end: Ints

    @staticmethod
    def of(rows: pa.RecordBatch) -> ArrivedMoves:
        """Out of prepared rows."""
        names = (ID, START, END, NEW_END)
        ids, start, end, new_end = (rows.column(name).to_numpy() for name in names)
        order = order_by_id(ids)
        first = is_first(ids[order])
        owner = np.empty(len(ids), np.int64)
        owner[order] = np.cumsum(first) - 1
        return ArrivedMoves(ids[order[first]], owner, start, end, new_end)

    def reach(self) -> tuple[Ints, Ints]:
        """The first and the last instant of each group at which something may change."""
        low, high = np.full(len(self.ids), FOREVER), np.full(len(self.ids), BEGINNING)
        np.minimum.at(low, self.owner, np.minimum(self.end, self.new_end))
        np.maximum.at(high, self.owner, np.maximum(self.end, self.new_end))
        return low, high

    def take(self, rows: Ints) -> ArrivedMoves:
        """Some of the rows; the groups stay."""
        return ArrivedMoves(
            self.ids, self.owner[rows], self.start[rows], self.end[rows], self.new_end[rows]
        )


@final
@dataclass(frozen=True, slots=True)
class TopKKernel(Stateful):
    """The first k rows of each group.

    One trace knows which rows are among the first k, and when. Against it, what comes is
    compared: behind k others it changes nothing. Where one of the first k goes, the one that
    follows is found among the events, which another trace keeps (none, where nothing ever goes).
    """

    identity: ClassVar[Identity] = Identity(
        "TopKKernel", ("node",), form=("route", "insert_only=_insert_only")
    )

    node: TopK

    @property
    def label(self) -> str:
        """The node's, and whether events are kept."""
        return f"{self.node.label} [{'insert-only' if self._insert_only else 'keeps events'}]"

    @property
    def schema(self) -> pa.Schema:
        """That of the input."""
        return self.node.schema

    @property
    def spread(self) -> str:
        """The partitioning."""
        return ", ".join(expression.sql for _, expression in self.node.partition_by)

    @property
    def _insert_only(self) -> bool:
        return self.node.input.properties.insert_only

    def routing(self, name: str) -> Routing:
        """Both lists have payloads."""
        del name
        return by_payload(self.route, self.schema)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Events with the ids of their groups."""
        del side
        times = numbers(START, END, NEW_END)
        return pa.schema([*hashes(ID), *times, *keyed(self.schema.types)])

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with their payloads; if nothing ever goes, without what never gets in."""
        del side
        parts = [part for _, part in self.node.partition_by]
        ids = key_ids(evaluate_all(parts, batch.payload, len(batch)), len(batch))
        if self._insert_only:
            keep = self._may_get_in(ids, batch) | (batch.end > batch.start)
            ids, batch = (ids, batch) if keep.all() else (ids[keep], batch.where(keep))
        columns = {f"key{index}": column for index, column in enumerate(batch.payload.columns)}
        columns |= {ID: ids, START: batch.start, END: batch.end, NEW_END: batch.new_end}
        return assemble(self.prepared_schema(), columns)

    def _may_get_in(self, ids: Ids, batch: EventBatch) -> Mask:
        """Without what comes behind k others that stay as long."""
        keep = np.ones(len(batch), np.bool_)
        rows = np.flatnonzero(crowded(self.node.k, ids, batch.start, batch.new_end))
        if len(rows):
            owner = np.unique(ids[rows], return_inverse=True)[1]
            part = LazyPart(batch.payload.columns, len(rows), rows)
            codes = rank_rows(LazyConcat(self.schema, [part]), owner, self.node.order_by)
            start, end, once = batch.start[rows], batch.new_end[rows], np.ones_like(rows)
            keep[rows] = keep_best(self.node.k, Stretches(owner, codes, start, end, once))
        return keep

    def purge(
        self, trace: Trace, arrived: Arrived, need: Need, sides: Sequence[Time]
    ) -> tuple[Trace, Arrived]:
        """Forget the snapshots that are not needed: the first k follow from the snapshot."""
        del sides
        return cut_before(self, trace, arrived, need.first)

    def rest(self, trace: Trace) -> Rest:
        """Until some of its rows are expected to have expired."""
        return Rest(lists_rest(trace.runs, trace.stable, plain=(BEST, EVENTS)))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Compare what came and went with the first k of the groups it belongs to."""
        (rows,) = arrived
        held = {name: trace.runs.get(name, ()) for name in (BEST, EVENTS)}
        output = EventBatch.empty(self.schema, stable)
        fresh: dict[str, pa.RecordBatch] = {}
        if rows.num_rows:
            moves = ArrivedMoves.of(rows)
            if not self._insert_only:
                fresh[EVENTS] = self._events(rows, stable)
            low, high = moves.reach()
            best = memberships_of(held[BEST], len(self.schema), moves.ids, low, high)
            ranked, found = self._find(best, held[EVENTS], moves, rows)
            if len(found.code):
                fresh[BEST], output = self._write(best, moves, ranked, found, stable)
        runs: dict[str, tuple[SortedRun, ...]] = {}
        for name, merge in (
            (BEST, memberships_merger(stable)),
            (EVENTS, events_merger(stable, [ROW, ROW_CHECK], any_order=True)),
        ):
            if held[name] or name in fresh:
                new = fresh.get(name)
                new = no_rows(held[name][0].rows.schema) if new is None else new
                runs[name] = add_run(held[name], new, stable, merge, anchors=False)
        return Trace({name: kept for name, kept in runs.items() if kept}, stable), output

    def _events(self, rows: pa.RecordBatch, since: Time = BEGINNING) -> pa.RecordBatch:
        """The events of some rows as a run, without those that end before `since`."""
        names = (ID, START, END, NEW_END)
        ids, start, end, new_end = (rows.column(name).to_numpy() for name in names)
        payload = [rows.column(f"key{index}") for index in range(len(self.schema))]
        hashes = map(pa.array, ids_and_checks(payload, rows.num_rows))
        values = list(zip(self._event_names, [*hashes, *payload]))
        compared = [ROW, ROW_CHECK]
        return event_rows(ids, start, end, new_end, values, since=since, compared=compared)

    @property
    def _event_names(self) -> list[str]:
        """The hashes of a payload, and its columns by number."""
        return [ROW, ROW_CHECK, *(f"key{index}" for index in range(len(self.schema)))]

    def _find(
        self, best: Members, events: Sequence[SortedRun], moves: ArrivedMoves, rows: pa.RecordBatch
    ) -> tuple[RankedRows, RankChanges]:
        """What changes among the first k, and the rows it is about."""
        width, order_by, k = len(self.schema), self.node.order_by, self.node.k
        concat = LazyConcat(self.schema, [*best.parts, LazyPart.of(rows, width)])
        owner = np.concatenate([best.whose, moves.owner])
        self._refuse_collisions(concat, owner)
        every = moves
        came = LazyConcat(self.schema, concat.parts[-1:])
        chosen = contenders(k, came, order_by, moves.owner, moves.end, moves.new_end)
        if chosen is not None:
            concat = LazyConcat(self.schema, [*best.parts, LazyPart.of(rows, width, chosen)])
            moves = moves.take(chosen)
            owner = np.concatenate([best.whose, moves.owner])
        ranked = RankedRows(concat, owner, rank_rows(concat, owner, order_by))
        was, moved = self._stretches(best, moves, ranked.code)
        found = self._compare(len(every.ids), was, moved, None)
        lost = found.lost
        if not len(lost.owner):
            return ranked, found
        if self._insert_only:
            raise StreamError(
                "an adjust or withdrawal in a stream that was declared insert-only",
                where=self.node.label,
                hint="declare the source without insert_only",
            )
        alive, range_, ahead = self._alive(events, every, rows, ranked, was, moved, lost)
        cut = Stretches(
            owner=lost.owner[range_],
            code=range_,
            low=np.maximum(alive.column(TIME).to_numpy(), lost.low[range_]),
            high=np.minimum(alive.column(END).to_numpy(), lost.high[range_]),
            count=alive.column(COUNT).to_numpy(),
        )
        part = LazyPart.of(alive, width)
        among = LazyConcat(self.schema, [part])
        chosen = contenders(k, among, order_by, range_, cut.low, cut.high)
        if chosen is not None:
            part, range_, cut = LazyPart.of(alive, width, chosen), range_[chosen], cut.take(chosen)
        concat = LazyConcat(self.schema, [*concat.parts, part])
        owner = np.concatenate([owner, cut.owner])
        again = RankedRows(concat, owner, rank_rows(concat, owner, order_by))
        cut = replace(cut, code=again.code[len(owner) - len(range_) :])
        if len(ahead.owner):
            code = again.code[ranked.by_code()[1][ahead.code]]
            cut = cut.beside(replace(ahead, owner=lost.owner[ahead.owner], code=code))
            range_ = np.concatenate([range_, ahead.owner])
        was, moved = self._stretches(best, moves, again.code)
        alive_rows = Alive(cut, range_, lost.owner)
        return again, self._compare(len(every.ids), was, moved, alive_rows)

    def _alive(
        self,
        events: Sequence[SortedRun],
        moves: ArrivedMoves,
        rows: pa.RecordBatch,
        ranked: RankedRows,
        was: Stretches,
        moved: Stretches,
        lost: Ranges,
    ) -> tuple[pa.RecordBatch, Ints, Stretches]:
        """The events after the batch that tell the first k of lost ranges, and the range of each.

        In large groups these are few, and tell it with the rows ahead of them: the last ones.
        """
        is_lost = np.zeros(len(moves.ids), np.bool_)
        is_lost[lost.owner] = True
        chosen = np.flatnonzero(is_lost[moves.owner])
        # Those that are stored lack what has ended, which a lost range may still meet.
        fresh = SortedRun(self._events(rows.take(pa.array(chosen))))
        kinds = [pa.uint64(), pa.uint64(), *self.schema.types]
        schema = events_schema(list(zip(self._event_names, kinds)))
        ids = moves.ids[lost.owner]
        every, compared = (*events, fresh), [ROW, ROW_CHECK]
        order = RowOrder(self.schema, self.node.order_by)
        read, ahead = rows_to_read(self.node.k, every, order, ids, lost, ranked, was, moved)
        alive, range_ = events_over(
            every, schema, compared, ids, lost.low, lost.high, any_order=True, among=read
        )
        if (alive.column(COUNT).to_numpy() < 0).any():
            raise unknown_event()
        return alive, range_, ahead

    def _stretches(
        self, best: Members, moves: ArrivedMoves, code: Ints
    ) -> tuple[Stretches, Stretches]:
        """The first k as they were, and the moves of the batch."""
        was = Stretches(best.owner, code[best.row], best.start, best.end, best.count)
        arrived_rows, once = code[len(best.whose) :][: len(moves.owner)], np.ones_like(moves.owner)
        return was, Stretches(moves.owner, arrived_rows, moves.end, moves.new_end, once)

    def _compare(
        self, groups: int, was: Stretches, moved: Stretches, alive: Alive | None
    ) -> RankChanges:
        """The first k before and after."""
        rows = len(was.owner) + len(moved.owner) + (0 if alive is None else len(alive.range_))
        loops = TOP.loops(rows)
        if loops is not None:
            return sweep(loops, self.node.k, groups, was, moved, alive)
        return survey(self.node.k, was, moved, alive)

    def _refuse_collisions(self, concat: LazyConcat, owner: Ints) -> None:
        """Two groups under one id are found, never mixed."""
        parts = [part for _, part in self.node.partition_by]
        if not needs_check([part.type for part in parts]):
            return
        payload = concat.columns(frozenset[str]().union(*(part.columns for part in parts)))
        check = key_checks(evaluate_all(parts, payload, len(owner)), len(owner))
        of_group = np.zeros(int(owner.max()) + 1, np.uint64)
        of_group[owner] = check
        if (of_group[owner] != check).any():
            raise EngineError(
                "two different keys have the same 64-bit hash",
                where=self.node.label,
                hint="please report this with the query; until then add a column to the "
                "partitioning",
            )

    def _write(
        self,
        best: Members,
        moves: ArrivedMoves,
        ranked: RankedRows,
        found: RankChanges,
        stable: Time,
    ) -> tuple[pa.RecordBatch, EventBatch]:
        """The changes as moves of lifetimes: those to remember, and the output."""
        event = np.repeat(np.arange(len(best.owner)), best.count)
        held = ranked.code[best.row]
        old = Lifetimes(held[event], best.start[event], best.end[event])
        moved = move_lifetimes(old, found.code, found.time, found.change)
        owner_of, row_of = ranked.by_code()
        number_of: Ids = best.next_number[owner_of] + np.arange(len(owner_of)).view(np.uint64)
        number_of[held] = best.number
        order = order_by_code_and_time(owner_of[moved.code], moved.start)
        code, start, end, new_end, was = (
            part[order] for part in (moved.code, moved.start, moved.end, moved.new_end, moved.was)
        )
        number = number_of[code]
        number[was >= 0] = best.number[event[was[was >= 0]]]
        payload = ranked.rows.take(row_of[code])
        ids = moves.ids[owner_of[code]]
        kept = membership_rows(ids, start, end, new_end, number, payload)
        return kept, EventBatch(payload, start, end, new_end, stable)
