"""Aggregation over time: one row per group and stretch of time on which nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.aggregate import Aggregation
from anabranch.errors import StreamError
from anabranch.expressions.expression import evaluate_all
from anabranch.kernels.aggregate.all_values import over_all_values
from anabranch.kernels.aggregate.distinct_values import count_distinct
from anabranch.kernels.aggregate.holistic import ArgumentValues, fresh_values
from anabranch.kernels.aggregate.measures import Measures
from anabranch.kernels.aggregate.order_statistics import old_statistics, revise_statistics
from anabranch.kernels.aggregate.peaks import Peaks, find_peaks
from anabranch.kernels.aggregate.results import Results
from anabranch.kernels.columns.combining import combine
from anabranch.kernels.columns.grouped import Ints, Mask, mostly_different
from anabranch.kernels.columns.sum_lanes import SumLane
from anabranch.kernels.contract.column_names import CHECK, END, ID, NEW_END, START
from anabranch.kernels.contract.kernel import (
    Arrived,
    Need,
    Progress,
    Rest,
    SortedRun,
    Stateful,
    Trace,
)
from anabranch.kernels.contract.keys import key_checks, key_ids, needs_check
from anabranch.kernels.contract.per_window import has_window_end
from anabranch.kernels.contract.prepared import assemble, hashes, keyed, numbers
from anabranch.kernels.contract.routing import (
    BY_CHECK,
    Route,
    Routing,
    by_id_or,
    like,
    routed_checks,
)
from anabranch.kernels.multiplicity.multiplicity import routes_of
from anabranch.kernels.trace.cutting import cut_before
from anabranch.kernels.trace.event_trace import event_rows, events_merger
from anabranch.kernels.trace.output import changed_events
from anabranch.kernels.trace.ranked_events import ranked_merger
from anabranch.kernels.trace.rest import lists_rest
from anabranch.kernels.trace.runs import add_run
from anabranch.kernels.trace.timeline import (
    LaneMoves,
    Lanes,
    TimelineRevision,
    boundaries,
    revise,
    settle,
)
from anabranch.kernels.trace.timeline_rows import COUNT, add_rows
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, Time

Runs = dict[str, tuple[SortedRun, ...]]
TIMELINE: Final = "timeline"


@final
@dataclass(frozen=True, slots=True)
class AggregateKernel(Stateful):
    """Grouped and scalar aggregation.

    Sums and counts are revised where moves add to them. An extreme can only be raised by what
    comes; what goes matters where it was the extreme, and only there events are looked up again.
    Order statistics move on from where they were, by as many values as came and went below them.
    """

    identity: ClassVar[Identity] = Identity(
        "AggregateKernel",
        ("node",),
        form=("route", "keeps_events", "columns=lanes.first_schema"),
        ignored={"measures": "derived from the node"},
    )

    node: Aggregation
    measures: Measures
    lanes: Lanes
    keeps_events: bool

    @staticmethod
    def of(node: Aggregation) -> AggregateKernel:
        """The kernel of a node."""
        measures = Measures.of(node)
        checked = needs_check([expression.type for _, expression in node.group_by])
        keeps = bool(measures.extremes) and not node.input.properties.insert_only
        return AggregateKernel(node, measures, measures.lanes(checked), keeps)

    @property
    def remembers_events(self) -> bool:
        """Where an extreme or all values have to be found again."""
        return self.keeps_events or bool(self.measures.holistic)

    def routed(self, route: Route) -> AggregateKernel:
        """The same; where ids do not tell the shard, second hashes have to."""
        checked = self.lanes.checked or not route.is_own
        return replace(self, route=route, lanes=replace(self.lanes, checked=checked))

    @property
    def label(self) -> str:
        """The node's, and whether events are kept."""
        how = " [keeps events]" if self.keeps_events or self.measures.holistic else ""
        how = how or (" [insert-only]" if self.measures.extremes else "")
        return f"{self.node.label}{how}"

    @property
    def schema(self) -> pa.Schema:
        """Group columns, then aggregates."""
        return self.node.schema

    @property
    def spread(self) -> str:
        """The grouping."""
        return ", ".join(expression.sql for _, expression in self.node.group_by)

    def interest(self, end: Time, side: int = 0) -> Time:
        """Any row may begin a result, unless results are those of single windows."""
        del side
        names = [part.is_column for _, part in self.node.group_by]
        return end if has_window_end(self.node.input, names) else BEGINNING

    @property
    def looks_back(self) -> bool:
        """Results of all values that leave are made as they were."""
        return self.measures.writes_values

    def routing(self, name: str) -> Routing:
        """Whatever is alive has a row in the timeline; different values have ids of their own."""
        if name.startswith("distinct"):
            return BY_CHECK
        return by_id_or(self.route, BY_CHECK) if name == TIMELINE else like(self.route, TIMELINE)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Ids, times, groups, weights and values; starts only where rows are never added up."""
        del side
        late = self.measures.late
        fields = hashes(ID, *([CHECK] if self.lanes.checked else []))
        fields += numbers(*([] if self.measures.combines else [START]), END, NEW_END)
        fields += keyed(part.type for _, part in self.node.group_by)
        fields += numbers(*(name for name in self.lanes.whole if name not in late))
        fields += [field for each in self._sent_sums for field in each.fields()]
        for measure in self.measures.arguments:
            if measure.needs_values:
                fields.append((measure.value_column, measure.argument.type))
        return pa.schema(fields)

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """Ids, weights and values; rows of one group with the same ends are added up already."""
        del side
        length = len(batch)
        parts = [part for _, part in self.node.group_by]
        wanted = parts + [measure.argument for measure in self.measures.arguments]
        found = evaluate_all(wanted, batch.payload, length)
        keys = found[: len(parts)]
        columns: dict[str, pa.Array] = {ID: pa.array(key_ids(keys, length))}
        if self.lanes.checked:
            check = key_checks(keys, length)
            columns[CHECK] = pa.array(routed_checks(self.route, batch.payload, check))
        arguments = {
            measure.index: values
            for measure, values in zip(self.measures.arguments, found[len(parts) :], strict=True)
        }
        weights: dict[str, np.ndarray] = {COUNT: np.ones(length, np.int64)}
        if self.measures.counting:
            for measure in self.measures.arguments:
                weights |= measure.weigh(arguments[measure.index])
        ids = columns[ID].to_numpy()
        if self.measures.combines and not mostly_different(ids, batch.end, batch.new_end):
            first, columns, weights = self._combine(batch, columns, weights)
            keys = [key.take(first) for key in keys]
        else:
            columns |= {
                START: pa.array(batch.start),
                END: pa.array(batch.end),
                NEW_END: pa.array(batch.new_end),
            }
        for index, key in enumerate(keys):
            columns[f"key{index}"] = key
        columns |= {name: pa.array(values) for name, values in weights.items()}
        for each in self._sent_sums:
            columns[each.rest] = each.packed(weights, len(weights[COUNT]))
        for measure in self.measures.arguments:
            if measure.needs_values:
                columns[measure.value_column] = arguments[measure.index]
        return assemble(self.prepared_schema(), columns)

    @property
    def _sent_sums(self) -> list[SumLane]:
        return [each for each in self.lanes.sums if each not in self.measures.late_sums]

    def _combine(
        self,
        batch: EventBatch,
        ids: Mapping[str, pa.Array],
        weights: Mapping[str, Ints],
    ) -> tuple[pa.Array, dict[str, pa.Array], dict[str, Ints]]:
        """Add up the rows that move the same ends of one group: whole numbers, so exactly."""
        weights = dict(weights)
        for each in self._sent_sums:
            weights |= each.relieved(weights, len(batch))
        del weights[COUNT]
        checks = ids[CHECK].to_numpy() if CHECK in ids else None
        found = combine(ids[ID].to_numpy(), checks, batch.end, batch.new_end, weights)
        summed = {**found.sums, COUNT: found.counts}
        for each in self._sent_sums:
            own = each.lanes(summed)
            others = {name: part for name, part in summed.items() if name not in own}
            summed = {**others, **each.carried(summed)}
        first = pa.array(found.first)
        columns = {name: column.take(first) for name, column in ids.items()}
        columns[END] = pa.array(batch.end[found.first])
        columns[NEW_END] = pa.array(batch.new_end[found.first])
        return first, columns, summed

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Revise the timelines of the groups that something arrived for."""
        (rows,) = arrived
        return self._step(trace, rows, stable)

    def remember(self, trace: Trace, arrived: Arrived, progress: Progress) -> Trace:
        """The memory alone: results are not computed."""
        (rows,) = arrived
        return self._step(trace, rows, progress.least, tells=False)[0]

    def tell(self, trace: Trace, arrived: Arrived, progress: Progress) -> EventBatch:
        """The results alone: timelines are not written."""
        (rows,) = arrived
        return self._step(trace, rows, progress.least, writes=False)[1]

    def purge(
        self, trace: Trace, arrived: Arrived, need: Need, sides: Sequence[Time]
    ) -> tuple[Trace, Arrived]:
        """Forget the snapshots that are not needed: a result follows from the snapshot."""
        del sides
        return cut_before(self, trace, arrived, need.first)

    def rest(self, trace: Trace) -> Rest:
        """Until some of its rows are expected to have expired."""
        plain = [name for name in trace.runs if name == "events" or name.startswith("ranked")]
        return Rest(lists_rest(trace.runs, trace.stable, plain=plain))

    def _step(
        self,
        trace: Trace,
        arrived: pa.RecordBatch,
        stable: Time,
        *,
        tells: bool = True,
        writes: bool = True,
    ) -> tuple[Trace, EventBatch]:
        runs = dict(trace.runs)
        if TIMELINE in runs:
            runs[TIMELINE] = self.lanes.completed(runs[TIMELINE])
        if not arrived.num_rows:
            return self._only_progress(runs, stable)
        moves = self._moves(arrived)
        for measure in self.measures.arguments:
            if measure.distinct:
                name = f"distinct{measure.index}"
                held, route = runs.get(name, ()), routes_of(self.route, arrived)
                runs[name], moves = count_distinct(held, arrived, moves, measure, route, stable)
        timeline = runs.get(TIMELINE, ())
        revision, peaks = self._revise(runs, moves, arrived, stable)
        self._refuse_unknown_events(revision)
        forgotten = Time(max(trace.stable, trace.cut))
        values = self._keep_values(runs, moves, arrived, forgotten, stable)
        new_values = peaks.decoded(peaks.new)
        for measure in self.measures.holistic:
            events = values[measure.index].after
            new_values |= revise_statistics(measure, revision, arrived, moves, events)
        # What else the value lanes hold changes only where the lane `mix` does.
        differ = peaks.differ(len(revision.ids))
        if writes:
            changed = peaks.changed(len(revision.ids))
            runs[TIMELINE], new_row = settle(
                timeline, self.lanes, revision, new_values, differ, changed, stable
            )
        else:
            new_row = boundaries(revision, differ)
        after = Trace({name: held for name, held in runs.items() if held}, stable)
        if not tells:
            return after, EventBatch.empty(self.schema, stable)
        output = self._output(arrived, revision, new_row, peaks, new_values, values, stable)
        return after, output

    def _revise(
        self, runs: Runs, moves: LaneMoves, arrived: pa.RecordBatch, stable: Time
    ) -> tuple[TimelineRevision, Peaks]:
        timeline = runs.get(TIMELINE, ())
        if not self.measures.extremes:
            return revise(timeline, self.lanes, moves), Peaks.none()
        held, fresh = runs.get("events", ()), self._fresh_events(arrived)
        events = (*held, SortedRun(fresh)) if self.keeps_events else None
        found = find_peaks(timeline, self.lanes, self.measures, moves, arrived, events)
        if self.keeps_events:
            runs["events"] = self._add_events(held, fresh, stable)
        return found

    def _keep_values(
        self, runs: Runs, moves: LaneMoves, arrived: pa.RecordBatch, before: Time, stable: Time
    ) -> dict[int, ArgumentValues]:
        """Take in the values that are kept in order; what they were, and what they are."""
        values = {}
        for measure in self.measures.holistic:
            name = f"ranked{measure.index}"
            held = runs.get(name, ())
            fresh = fresh_values(measure, arrived, arrived.column(START).to_numpy(), moves)
            values[measure.index] = ArgumentValues(held, (*held, SortedRun(fresh)), before)
            runs[name] = add_run(held, fresh, stable, ranked_merger(stable), anchors=False)
        return values

    def _values(self) -> list[str]:
        return [measure.value_column for measure in self.measures.extremes]

    def _fresh_events(self, arrived: pa.RecordBatch) -> pa.RecordBatch:
        return event_rows(
            arrived.column(ID).to_numpy(),
            arrived.column(START).to_numpy(),
            arrived.column(END).to_numpy(),
            arrived.column(NEW_END).to_numpy(),
            [(name, arrived.column(name)) for name in self._values()],
        )

    def _add_events(
        self, held: tuple[SortedRun, ...], fresh: pa.RecordBatch, stable: Time
    ) -> tuple[SortedRun, ...]:
        merge = events_merger(stable, self._values())
        return add_run(held, fresh, stable, merge, anchors=False)

    def _only_progress(self, runs: Runs, stable: Time) -> tuple[Trace, EventBatch]:
        for name, held in runs.items():
            fresh = no_rows(held[0].rows.schema)
            if name == "events":
                runs[name] = self._add_events(held, fresh, stable)
            elif name.startswith("ranked"):
                runs[name] = add_run(held, fresh, stable, ranked_merger(stable), anchors=False)
            else:
                runs[name] = add_rows(held, fresh, stable)
        remaining = {name: held for name, held in runs.items() if held}
        return Trace(remaining, stable), EventBatch.empty(self.schema, stable)

    def _moves(self, arrived: pa.RecordBatch) -> LaneMoves:
        sent = replace(
            self.lanes,
            whole=tuple(name for name in self.lanes.whole if name not in self.measures.late),
            sums=tuple(self._sent_sums),
        )
        nothing = np.zeros(arrived.num_rows, np.int64)
        return LaneMoves(
            ids=arrived.column(ID).to_numpy(),
            end=arrived.column(END).to_numpy(),
            new_end=arrived.column(NEW_END).to_numpy(),
            whole=dict.fromkeys(self.lanes.numbers, nothing) | sent.held(arrived),
            check=arrived.column(CHECK).to_numpy() if self.lanes.checked else None,
        )

    def _refuse_unknown_events(self, revision: TimelineRevision) -> None:
        if (revision.new[COUNT] < 0).any():
            where = int(np.flatnonzero(revision.new[COUNT] < 0)[0])
            raise StreamError(
                "an adjust or withdrawal of an event that was never inserted",
                where=f"{self.node.label}: at instant {int(revision.times[where])} "
                "more events end than ever began",
                hint="run `anabranch check` on the source; every adjust must name the end that was "
                "last announced",
            )

    def _output(
        self,
        arrived: pa.RecordBatch,
        revision: TimelineRevision,
        new_row: Mask,
        peaks: Peaks,
        new_values: Mapping[str, pa.Array],
        values: Mapping[int, ArgumentValues],
        stable: Time,
    ) -> EventBatch:
        """Old against new segments: equal starts and payloads keep their identity."""
        old_values = peaks.decoded(peaks.old)
        for measure in self.measures.holistic:
            old_values |= old_statistics(measure, revision)
        old_there, new_there = revision.old[COUNT] > 0, revision.new[COUNT] > 0
        both = revision.complete & revision.old_row & new_row & old_there & new_there
        results = Results(self.measures, revision, old_values, new_values)
        same = results.same(np.flatnonzero(both))
        changes = changed_events(revision, new_row, old_there, new_there, same)
        positions, is_old = changes.positions, changes.is_old
        count = len(self.node.group_by)
        rows = pa.array(revision.move[positions])
        columns = [arrived.column(f"key{number}").take(rows) for number in range(count)]
        columns += results.at(positions, is_old)
        if self.measures.writes_values:
            ids, times = revision.ids[positions], revision.times[positions]
            for index, found in over_all_values(self.measures, values, ids, times, is_old):
                columns[count + index] = found
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return EventBatch(payload, changes.start, changes.end, changes.new_end, stable)
