"""One right stream out of several copies: the kernel of all five cases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import ORDERED, Case
from anabranch.algebra.analysis.settled_order import is_ordered_when_settled
from anabranch.algebra.merge import Merge
from anabranch.algebra.node import clock_of
from anabranch.algebra.source import Source
from anabranch.kernels.contract.column_names import CHECK, COPY, ID, TIMES
from anabranch.kernels.contract.kernel import Arrived, Progress, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import ids_and_checks, key_ids
from anabranch.kernels.contract.packed_events import (
    pack_events,
    packed_schema,
)
from anabranch.kernels.contract.routing import BY_CHECK, EVERYWHERE, GATHERED, Routing, by_id_or
from anabranch.kernels.merge.arrived_rows import ArrivedRows
from anabranch.kernels.merge.contradictions import Note, contradiction, report_run
from anabranch.kernels.merge.copies import Copies
from anabranch.kernels.merge.keyed import MergeResult, Runs, step_keyed
from anabranch.kernels.merge.lead import lead_of
from anabranch.kernels.merge.multiset import step_multiset
from anabranch.kernels.merge.nodes import Elements
from anabranch.kernels.merge.order import broken, in_order
from anabranch.kernels.merge.ordered import LAST_ELEMENTS, TWICE, refuse_twice, step_ordered
from anabranch.kernels.merge.waiting import WAITING, those_who_wait, told_apart
from anabranch.kernels.merge.weaken import FLOOR, below_floor, weakened
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Time

COPIES: Final = "copies"
REPORT: Final = "report"


@final
@dataclass(frozen=True, slots=True)
class MergeKernel(Stateful):
    """Merges the copies that are its sides, or those that one side holds."""

    identity: ClassVar[Identity] = Identity(
        "MergeKernel", ("node",), form=("route", "case=node.chosen")
    )

    node: Merge

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """That of all copies."""
        return self.node.schema

    @property
    def sides(self) -> int:
        """One per input."""
        return len(self.node.inputs)

    @property
    def takes_copies(self) -> bool:
        """The only input may stand for many."""
        return True

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the sides are called, if they are the copies."""
        only = self.node.inputs[0]
        return () if isinstance(only, Source) and only.copies else self.node.names

    @property
    def spread(self) -> str:
        """Elements of one start are together where that is all that tells them apart."""
        return "start" if self._by_start else "payload"

    @property
    def by_order(self) -> bool:
        """Whether it takes for granted that inputs are in order, at least to begin with."""
        return self.node.chosen in ORDERED

    @property
    def _source(self) -> str:
        """The name of the source that holds the copies."""
        only = self.node.inputs[0]
        return only.name if isinstance(only, Source) and only.copies else ""

    @property
    def _by_start(self) -> bool:
        return self.node.chosen in ("r0", "r1")

    @property
    def can_be_shared_anew(self) -> bool:
        """A shard that knows the order of its elements knows nothing of those of others."""
        return not self.by_order

    def routing(self, name: str) -> Routing:
        """Events by their payload; what is known of the copies is known everywhere.

        What was forgotten each shard says for itself.
        """
        if name in (COPIES, REPORT):
            return GATHERED if name == COPIES else EVERYWHERE
        return by_id_or(self.route, BY_CHECK)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Events with what tells them apart, and the numbers of their copies."""
        del side
        return packed_schema(self.schema, hashed=(ID, CHECK), counted=(COPY,))

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with hashes of their payloads and the numbers of their copies."""
        rows = len(batch)
        columns = [batch.payload.column(name) for name in self.schema.names]
        copy = np.full(rows, side, np.int64)
        if COPY in batch.schema.names:
            copy = batch.payload.column(COPY).to_numpy().astype(np.int64)
        if self._by_start:
            ids, check = key_ids([pa.array(batch.start)], rows), np.zeros(rows, np.uint64)
        else:
            ids, check = ids_and_checks(columns, rows)
        moves = batch.with_payload(batch.payload.select(self.schema.names))
        return pack_events(moves, hashed={ID: ids, CHECK: check}, counted={COPY: copy})

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """All inputs have come equally far."""
        return self.advance(trace, arrived, Progress((stable,) * self.sides))

    def advance(
        self, trace: Trace, arrived: Arrived, progress: Progress
    ) -> tuple[Trace, EventBatch]:
        """Take in what arrived of each copy, then the stable point that this makes possible."""
        about = (COPIES, REPORT)
        runs: Runs = {name: held for name, held in trace.runs.items() if name not in about}
        before = Copies.of(trace.runs.get(COPIES, ()))
        if trace.stable == FOREVER and not runs and before.are_over:
            return replace(trace, runs={COPIES: trace.runs[COPIES]}), self._nothing
        copies = before.advanced(self.input_names, progress, trace.stable)
        copies = copies.weakened(self.node.chosen, self._source, progress.commands)
        if copies.case is not None and copies.case != before.case:
            runs = weakened(runs, self._case(before), copies.case, trace.stable)
        rows = ArrivedRows.of(arrived, self.schema)
        since, outputs, notes = trace.stable, list[EventBatch](), list[Note]()
        while True:
            now, until, outcome = self._heard(runs, rows, before, copies, since, notes)
            outputs.append(outcome.output)
            copies, runs = now.joined(until), outcome.runs
            if copies == now:
                break
            # Who has joined by that may lead further.
            before, since, rows = now, until, rows.take(np.empty(0, np.int64))
        after = {**runs, COPIES: (now.run(),)}
        if notes:
            after[REPORT] = (report_run(notes),)
        return Trace(after, until), EventBatch.concat(outputs)

    def report(self, trace: Trace) -> dict[str, Any]:
        """Who leads, how far all have come, and what the last step heard of contradictions."""
        copies = Copies.of(trace.runs.get(COPIES, ()))
        noticed = [run.rows for run in trace.runs.get(REPORT, ())]
        leader = [copy.name for copy in copies.each if copy.number == copies.leader]
        return {
            "leader": leader[0] if leader else None,
            "stable": int(trace.stable),
            **({} if copies.case is None else {"case": copies.case}),
            **({} if copies.reach == BEGINNING else {"reach": copies.reach}),
            "copies": [copy.report(trace.stable) for copy in copies.each],
            "divergent": [
                {"copy": row["copy"], "event": row["event"]}
                for rows in noticed
                for row in rows.to_pylist()
            ],
        }

    @property
    def _nothing(self) -> EventBatch:
        return EventBatch.empty(self.schema, FOREVER)

    def _heard(
        self,
        runs: Runs,
        rows: ArrivedRows,
        before: Copies,
        copies: Copies,
        since: Time,
        notes: list[Note],
    ) -> tuple[Copies, Time, MergeResult]:
        """Listen to all who are to be listened to, and move the stable point once.

        What is heard of contradictions is added to the notes.
        """
        while True:
            now, until = copies.led(since, self.node.policy.lag)
            now, elements, waiting = self._elements(runs, rows, now, before)
            now, outcome = self._merge(runs, elements, before, now, since, until)
            guilty = self._judge(now, outcome)
            names = [copy.name for copy in now.heard]
            notes += [
                (names[each.by], each.text(names[each.by], clock=self._clock))
                for each in outcome.found
            ]
            if not guilty:
                held = {name: it for name, it in outcome.runs.items() if it and name != WAITING}
                if waiting:
                    held[WAITING] = waiting
                return now, until, replace(outcome, runs=held)
            # It is as if they had not been listened to in this batch.
            for number in guilty:
                found = now.numbered(number).diverged
                copies = copies.changed(number, status="quarantined", diverged=found)

    def _merge(
        self,
        runs: Runs,
        elements: Elements,
        before: Copies,
        copies: Copies,
        since: Time,
        until: Time,
    ) -> tuple[Copies, MergeResult]:
        case, policy = self._case(copies), self.node.policy
        if case in ("r3", "r4"):
            lead = lead_of(before, copies, since, until)
            if case == "r4":
                outcome = step_multiset(runs, elements, lead, policy, self.schema)
            else:
                asserted = self.node.is_asserted
                outcome = step_keyed(runs, elements, lead, policy, self.schema, asserted=asserted)
            if outcome.twice is not None:
                copy = copies.heard[elements.column[outcome.twice]]
                raise broken(copy, elements, outcome.twice, case, TWICE)
        else:
            by_promise = all(self._settles_order)
            # Ties are counted as they come, unless they come all at once. Once the output is
            # complete, nothing is remembered.
            known = not self.node.is_asserted and (case != "r1" or by_promise)
            proven = known or since == FOREVER
            runs, copies, ordinal = in_order(runs, elements, copies, case, proven=proven)
            if case == "r2" and self.node.is_asserted:
                runs = {**runs, LAST_ELEMENTS: refuse_twice(runs, elements, copies)}
            if case == "r1" and by_promise:
                elements, case = told_apart(elements), "r2"
            outcome = step_ordered(runs, elements, case, since, until, ordinal)
        numbers = [copy.number for copy in copies.heard]
        late = outcome.ignored
        ends = np.maximum(elements.start, elements.new_end)[late]
        copies = copies.counted(elements.column[late], outcome.by, numbers, ends)
        slow = min((max(copy.stable, copy.known) for copy in copies.heard), default=int(until))
        copies = copies.forgetting(max(Time(min(slow, int(until))), outcome.slow or BEGINNING))
        # Of what has passed below the floor nobody knows how long it goes on.
        reach = copies.reach
        if outcome.reach is not None and FLOOR not in runs:
            reach = outcome.reach
        return replace(copies, reach=reach), outcome

    def _judge(self, copies: Copies, outcome: MergeResult) -> set[int]:
        """The numbers of those that are not to be listened to any more.

        Raises:
            StreamError: The user wants to hear of contradictions at once.
        """
        if not len(outcome.by) or self.node.policy.divergence == "warn":
            return set()
        heard = copies.heard
        if self.node.policy.divergence == "fail":
            first = int(outcome.by[0])
            found = [each for each in outcome.found if each.by == first]
            raise contradiction(heard[first].name, found, clock=self._clock)
        return {heard[index].number for index in outcome.by.tolist()}

    def _elements(
        self, runs: Runs, rows: ArrivedRows, copies: Copies, before: Copies
    ) -> tuple[Copies, Elements, tuple[SortedRun, ...]]:
        """What those say who are heard, in the order of each of them, and what has to wait.

        What a copy says against its own promise is a repetition, or nonsense: it does not count.
        Where elements are told apart by their order, those who are joining have to wait: they may
        lack what others have yet to say.
        """
        column, heard, promised = copies.columns(before)
        number = rows.column(COPY)
        start, end, new_end = (rows.column(name) for name in TIMES)
        bound = promised[number]
        fine = start >= bound
        if not fine.all():
            fine |= (end >= bound) & (new_end >= bound)
        counts = np.bincount(number, minlength=len(column))
        late = np.zeros(len(column), np.int64)
        if not fine.all():
            late = np.bincount(number[~fine], minlength=len(column))
        keep = heard[number] & fine
        if not keep.all():
            rows = rows.take(np.flatnonzero(keep))
        held: tuple[SortedRun, ...] = ()
        if self._case(copies) in ORDERED:
            settles = self._settles_order
            rows, held = those_who_wait(runs, rows, before, copies, settles)
        elif copies.case is not None:
            rows, below = self._from_floor_on(runs, rows, heard)
            late += np.bincount(below, minlength=len(column))
        each = tuple(
            replace(c, rows=c.rows + int(counts[c.number]), ignored=c.ignored + int(late[c.number]))
            for c in copies.each
        )
        ids, check, number = rows.column(ID), rows.column(CHECK), rows.column(COPY)
        start, end, new_end = (rows.column(name) for name in TIMES)
        whose, bound = column[number], promised[number]
        elements = Elements(ids, check, start, end, new_end, whose, bound, rows.payload)
        return replace(copies, each=each), elements, held

    def _from_floor_on(
        self, runs: Runs, rows: ArrivedRows, heard: np.ndarray
    ) -> tuple[ArrivedRows, np.ndarray]:
        """What counts by the weaker case in force, and the copies of what does not.

        Rows that had to wait by the case before need not any more: joining inputs have nodes, too.
        """
        waited = runs.get(WAITING, ())
        if waited:
            rows = ArrivedRows.of([*(run.rows for run in waited), rows.as_batch()], self.schema)
            rows = rows.take(np.flatnonzero(heard[rows.column(COPY)]))
        if self._by_start:
            rows = rows.by_payload()
        below = below_floor(runs, rows.column(ID), rows.column(CHECK), rows.column(TIMES[0]))
        if not below.any():
            return rows, np.empty(0, np.int64)
        return rows.take(np.flatnonzero(~below)), rows.column(COPY)[below]

    @property
    def _settles_order(self) -> tuple[bool, ...]:
        """Whether the order of each side is there before its promise only.

        What a user asserts is checked as it comes.
        """
        asserted = self.node.is_asserted
        return tuple(not asserted and is_ordered_when_settled(each) for each in self.node.inputs)

    def _case(self, copies: Copies) -> Case:
        """The case in force."""
        return copies.case or self.node.chosen

    @property
    def _clock(self) -> Clock:
        """How the copies count time."""
        return clock_of(self.node)
