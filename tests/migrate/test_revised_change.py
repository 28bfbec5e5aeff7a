"""A query over sources that are corrected changes: before T the old meaning of the corrected input.

From T on it is the new meaning, also for corrections that come long after the change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.explain import explain_tree
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate.change import (
    NewAnswer,
    RunningPlan,
    clip_instant,
    meant_at_all_times,
    planned_change,
)
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.runtime.revisions.in_process import ReviserInProcess
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.testing import meaning, sources_of
from anabranch.testing.oracle import history_of
from anabranch.testing.physical import elements_of
from anabranch.testing.strategies import points, streams
from tests.kernels.operators import OPERATORS
from tests.migrate.test_change import EMISSIONS, can_be_compiled, runs_alone
from tests.optimizer.plans import SCHEMA, plans
from tests.revisions.histories import (
    NONE,
    Step,
    broken_promises,
    is_swapped,
    judged,
    names_of,
)
from tests.revisions.test_in_process import POINTS_ONLY


class RevisedChange:
    """A plan over corrected sources that changes to another one, in this process."""

    def __init__(self, old: Node, new: Node, emit: Emission) -> None:
        self.old, self.new, self.emit = old, new, emit
        names = {each.name for each in sources_of(Union(inputs=(old, new)))}
        self.revised = frozenset(names)
        self.runner = LocalRunner(self.compiled(old))
        self.reviser = ReviserInProcess(Replayer.of([old]))
        self.came: dict[str, list[EventBatch]] = {name: [] for name in names}
        self.promised = dict.fromkeys(names, BEGINNING)
        self.left: list[EventBatch] = []
        self.stable: Time = BEGINNING
        self.at: Time | None = None
        self.then: PhysicalPlan | None = None

    def compiled(self, *nodes: Node) -> PhysicalPlan:
        return compile_plan(*nodes, emit=self.emit, late=self.revised)

    def switch(self) -> None:
        ends = {
            name: Time(
                max(
                    [
                        int(BEGINNING),
                        *(int(max(b.end.max(), b.new_end.max())) for b in each if len(b)),
                    ]
                )
            )
            for name, each in self.came.items()
            if name in self.runner.plan.sources
        }
        running = RunningPlan(
            plan=self.runner.plan,
            nodes=(self.old,),
            ends=ends,
            stables=(self.stable,),
            tables=(),
            compile=self.compiled,
            revised=self.revised,
        )
        at, why = clip_instant(running, [NewAnswer(0, self.new)])
        if why is not None or at == FOREVER:
            return
        change = planned_change(running, [NewAnswer(0, self.new)], at)
        self.at, self.then = at, change.then
        self.runner = self.runner.changed(change.both)
        self.reviser._replayer = Replayer.of([meant_at_all_times(self.old, self.new, at)])

    def step(self, number: int, step: Step) -> None:
        on_time, late = {}, {}
        for name, batch in step.items():
            on_time[name], late[name] = judged(batch, self.promised[name], 1, NONE, swaps=False)
            self.came[name].append(batch)
        sent = self.reviser.take(number, step, late, self.promised, self.revised)
        for revision in self.reviser.ready(self.stable):
            assert revision.last <= self.stable
            self.left.append(revision.changes)
        read = {name: batch for name, batch in on_time.items() if name in self.runner.plan.sources}
        out = self.runner.step_all(read, late=sent)[0]
        moved = out.where(out.end != out.new_end)
        assert not (np.minimum(moved.end, moved.new_end) < self.stable).any(), "a broken promise"
        assert out.stable >= self.stable
        self.left.append(out)
        self.stable = out.stable
        for name, batch in step.items():
            self.promised[name] = Time(max(self.promised[name], batch.stable))
        if self.then is not None and self.at is not None and self.stable >= self.at:
            self.runner, self.then = self.runner.changed(self.then), None

    def compare(self) -> None:
        self.left += [each.changes for each in self.reviser.ready(self.stable)]
        means = {name: LogicalStream.of_batches(each) for name, each in self.came.items()}
        histories = {name: history_of(each) for name, each in self.came.items()}
        node = self.old if self.at is None else meant_at_all_times(self.old, self.new, self.at)
        promises = [
            int(b.stable) for each in self.came.values() for b in each if b.stable < FOREVER
        ]
        wanted = meaning(node, means, histories, max(promises, default=int(BEGINNING)))
        late = any(each.holds_back for each in node.walk())
        at_once = self.emit == "speculative" and not late and not self.reviser.waiting
        before = Time(min(FOREVER if at_once else self.stable, self.reviser.corrected))
        difference = LogicalStream.of_batches(self.left).difference(wanted, before)
        assert not difference, f"{difference}\n{self.story()}"

    def story(self) -> str:
        lines = ["old:", explain_tree(self.old), "new:", explain_tree(self.new), f"at {self.at}"]
        lines += [
            f"{name}: {[(list(elements_of(b)), b.stable) for b in each]}"
            for name, each in self.came.items()
        ]
        return "\n".join(lines)


def revised_and_changed(
    old: Node, new: Node, steps: Sequence[Step], at: int, emit: Emission
) -> None:
    query = RevisedChange(old, new, emit)
    for number, step in enumerate(steps):
        if number >= at and query.at is None:
            query.switch()
        query.step(number, step)
    query.compare()


@given(st.data(), plans(steps=3), plans(steps=3), EMISSIONS)
def test_corrections_are_answered_by_the_plan_of_their_time(
    data: st.DataObject, old: Node, new: Node, emit: Emission
) -> None:
    names = {each.name for each in sources_of(old)}
    if not can_be_compiled(old, new) or old.schema != new.schema:
        return
    if names != {each.name for each in sources_of(new)} or is_swapped(old) or is_swapped(new):
        return
    longest = data.draw(st.sampled_from([3, 8, 40]))
    rows = {
        each.name: streams(
            SCHEMA,
            longest=longest,
            insert_only=each.insert_only,
            only_points=each.only_points,
            odd_floats=False,
        )
        for each in sources_of(Union(inputs=(old, new)))
    }
    steps = data.draw(broken_promises(**rows))
    silent = [{name: each.with_stable(BEGINNING) for name, each in s.items()} for s in steps]
    if not runs_alone(old, silent) or not runs_alone(new, silent):
        return
    revised_and_changed(old, new, steps, data.draw(st.integers(0, len(steps))), emit)


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_every_operator_is_corrected_across_a_change(name: str, data: st.DataObject) -> None:
    old, new = data.draw(OPERATORS[name]), data.draw(OPERATORS[name])
    if old.schema != new.schema or not can_be_compiled(old, new):
        return
    if {s.name for s in sources_of(old)} != {s.name for s in sources_of(new)}:
        return
    if is_swapped(old) or is_swapped(new):
        return
    insert_only = data.draw(st.booleans())
    stream = streams(SCHEMA, insert_only=insert_only, longest=6)
    if name in POINTS_ONLY:
        stream = points(SCHEMA, insert_only=insert_only)
    steps = [
        {each: batch for each, batch in step.items() if each in names_of(old)}
        for step in data.draw(broken_promises(S=stream, T=stream))
    ]
    at = data.draw(st.integers(0, len(steps)))
    revised_and_changed(old, new, steps, at, data.draw(EMISSIONS))


def test_earlier_events_that_are_adjusted_do_not_reach_what_holds_results_back() -> None:
    source = Source(name="S", schema=SCHEMA)
    old = TimeWindow(input=source, size=Duration(2))
    new = TimeWindow(input=source, size=Duration(1), slide=Duration(2))
    row = ("a", None, 0.5)
    first = batch_of([Insert(row, 24, 28), Insert(row, 30, 33)], SCHEMA)
    second = batch_of([Insert(row, 30, 32), Adjust(row, 24, 28, 27)], SCHEMA)
    revised_and_changed(old, new, [{"S": first}, {"S": second}], 1, "final")


def test_a_plan_that_stays_as_it_is_goes_on_with_its_state() -> None:
    left, right = (Source(name=name, schema=SCHEMA) for name in "ST")
    node = SetOperation(kind="max-union", left=left, right=right)
    row = ("a", None, 0.5)
    first = batch_of([Insert(row, 0, 1), Insert(row, 0, 2)], SCHEMA)
    second = batch_of([Insert(row, 0, 1), Adjust(row, 0, 2, 1)], SCHEMA)
    revised_and_changed(node, node, [{"T": first}, {"T": second}], 1, "final")
