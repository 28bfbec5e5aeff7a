"""A change at any batch: the old meaning before T, the new one from T on, at every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.explain import explain_tree
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.errors import PlanError, StreamError
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate.change import (
    NewAnswer,
    PlannedChange,
    RunningPlan,
    clip_instant,
    meant_at_all_times,
    planned_change,
    state_instant,
    taken_over,
)
from anabranch.migrate.handover import (
    Handover,
    HealedStates,
    ReplayedStates,
    closing_moves,
    healed_state,
    opening_moves,
    reopened_states,
)
from anabranch.migrate.healing import below_coalesce
from anabranch.migrate.operators import revised_plan
from anabranch.migrate.preparing import OpenResults
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import freeze
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.optimizer.driver import optimize
from anabranch.runtime.sinks.sinks import Sink
from anabranch.testing import meaning, sources_of
from anabranch.testing.oracle import history_of
from anabranch.testing.physical import KitStable, PhysicalState, elements_of, violations
from anabranch.testing.strategies import schedules, streams
from tests.optimizer.plans import SCHEMA, plans

EMISSIONS: st.SearchStrategy[Emission] = st.sampled_from(["speculative", "final"])


class Written(Sink):
    """A sink with batches that are there already."""

    def __init__(self, batches: Sequence[EventBatch]) -> None:
        self.written = list(batches)

    def open(self, begin: object) -> None:
        raise NotImplementedError

    def commit(self, *given: object) -> None:
        raise NotImplementedError

    def parts(self) -> list[EventBatch | Revision]:
        return list(self.written)


class Changing:
    """A plan that changes to another one, run in this process, batch by batch."""

    def __init__(self, old: Node, new: Node, emit: Emission, *, heals: bool = False) -> None:
        self.old, self.new, self.emit = old, new, emit
        # Both end in a coalesce, and the change is made below it.
        self.heals = heals
        self.results = OpenResults(Written([]))
        # What the output means before the change, at all times.
        self.meant = old
        self.runner = LocalRunner(self.compiled(old))
        self.change: PlannedChange | None = None
        self.is_over = False
        self.arrived: dict[str, list[EventBatch]] = {
            source.name: [] for source in sources_of(Union(inputs=(old, new)))
        }
        self.state = PhysicalState.empty()
        self.left: list[EventBatch] = []
        self.stable: Time = BEGINNING
        self.moves: EventBatch | None = None

    def compiled(self, *nodes: Node) -> PhysicalPlan:
        return compile_plan(*nodes, emit=self.emit)

    def step(self, step: Mapping[str, EventBatch]) -> None:
        for name, batch in step.items():
            self.arrived[name].append(batch)
        read = {name: batch for name, batch in step.items() if name in self.runner.plan.sources}
        out = self.runner.step(read)
        if self.moves is not None:
            out = EventBatch.concat([self.moves, out]).with_stable(out.stable)
            self.moves = None
        illegal = next(violations(elements_of(out), self.state), None)
        assert illegal is None, f"{illegal}\n{self.story()}"
        assert out.stable >= self.stable
        self.stable = out.stable
        self.state.take(KitStable(out.stable))
        self.left.append(out)
        self.compare()
        if self.heals and not len(out) % 2:
            # Now and then somebody reads along, as a change that is being prepared does.
            self.results = self.read_along()
        if self.change is not None and not self.is_over and out.stable >= self.change.at:
            self.runner = self.runner.changed(self.change.then)
            self.is_over = True

    def compare(self) -> None:
        means = {name: LogicalStream.of_batches(each) for name, each in self.arrived.items()}
        histories = {name: history_of(each) for name, each in self.arrived.items()}
        events = self.state.events.items()
        got = LogicalStream.of(event for event, count in events for _ in range(count))
        # How far time had come before it ended: so far empty windows are told of.
        promised = [
            max([int(BEGINNING), *(b.stable for b in each if b.stable < FOREVER)])
            for each in self.arrived.values()
        ]
        finite = min(promised, default=int(BEGINNING))
        node = self.meant
        if self.change is not None:
            node = meant_at_all_times(self.meant, self.new, self.change.at)
        wanted = meaning(node, means, histories, finite)
        late = any(each.holds_back for each in node.walk())
        before_ = FOREVER if self.emit == "speculative" and not late else self.stable
        difference = got.difference(wanted, before_)
        assert not difference, f"{difference}\n{self.story()}"
        if self.heals:
            longest = Counter((freeze(row), start, end) for row, start, end in got.events())
            there = Counter({(freeze(e[0]), *e[1:]): n for e, n in events})
            assert there == longest, f"not the longest lifetimes: {there}\n{self.story()}"

    def below(self) -> Node:
        """What of the new plan is computed in place of what of the old one."""
        return below_coalesce(self.new) if self.heals else self.new

    def read_along(self) -> OpenResults:
        sink = self.results._sink
        assert isinstance(sink, Written)
        sink.written = list(self.left)
        self.results.read(self.stable)
        return self.results

    def heal(self, others: Handover | None) -> None:
        """Let the coalesce of both answers begin with what has left."""
        assert self.change is not None
        stage = self.change.both.stages[self.change.both.outputs[0]]
        rows, given = self.read_along().rows, None if others is None else others.moves[0]
        own, moves = healed_state(stage, rows, self.stable, given)
        handover = HealedStates({stage.name: own}, {0: moves}, others)
        self.moves = moves if others is not None else None
        ((_, state),) = handover.shards(stage, self.change.both, 1)
        self.runner.exchange({**self.runner.states, stage.name: state})

    def running(self) -> RunningPlan:
        ends = {
            name: Time(
                max(
                    (int(max(b.end.max(), b.new_end.max())) for b in each if len(b)),
                    default=int(BEGINNING),
                )
            )
            for name, each in self.arrived.items()
            if name in self.runner.plan.sources
        }
        return RunningPlan(
            plan=self.runner.plan,
            nodes=(self.old,),
            ends=ends,
            stables=(self.stable,),
            tables=(),
            compile=self.compiled,
            states=lambda name: [(0, self.runner.states[name])],
        )

    def switch(self) -> bool:
        """Change by clip; whether that can be done now."""
        running, new = self.running(), self.below()
        answers = [NewAnswer(0, new, self.heals)]
        at, why = clip_instant(running, answers)
        if why is not None or at == FOREVER:
            return False
        self.change = planned_change(running, answers, at)
        self.is_over = self.change.both is self.change.then
        self.runner = self.runner.changed(self.change.both)
        if self.heals:
            self.heal(None)
        return True

    def replay(self) -> bool:
        """Change by replay at the stable point; whether that can be done now."""
        if self.stable == FOREVER:
            return False
        new = self.below()
        fresh = LocalRunner(self.compiled(new))
        out = [EventBatch.empty(new.schema)]
        for name in fresh.plan.sources:
            out += [fresh.step({name: batch}) for batch in self.arrived[name]]
        at = self.stable
        answers = [NewAnswer(0, new, self.heals)]
        self.change = planned_change(self.running(), answers, at, seeded=True, at_once=True)
        self.is_over = True
        self.runner = fresh.changed(self.change.both)
        moves = opening_moves(EventBatch.concat(out), new, at)
        closing = closing_moves(self.left, at)
        if closing is not None:
            moves = EventBatch.concat([closing, moves])
        self.moves = moves
        if self.heals:
            self.heal(ReplayedStates(fresh.plan, fresh.states, {0: moves}))
        return True

    def take_over(self) -> bool:
        """Change by the state of user operators; whether that can be done now."""
        if self.stable == FOREVER:
            return False
        revised = revised_plan(self.new, [self.old], where="test")
        running = self.running()
        operators, why = taken_over(running, revised.before)
        at, unclippable = state_instant(running, [NewAnswer(0, revised.node)], operators)
        if why is not None or unclippable is not None or at == FOREVER:
            return False
        self.change = planned_change(
            running,
            [NewAnswer(0, revised.node)],
            at,
            at_once=at <= self.stable,
            operators=operators,
        )
        assert self.change.reopened
        self.is_over = self.change.both is self.change.then
        closing = closing_moves(self.left, at)
        moves = EventBatch.empty(self.new.schema) if closing is None else closing
        handover = reopened_states(self.change, running, {0: moves})
        self.runner = self.runner.changed(self.change.both)
        states = self.runner.states
        for stage in self.change.both.stages:
            if stage.name in self.change.reopened:
                ((_, states[stage.name]),) = handover.shards(stage, self.change.both, 1)
        self.runner.exchange(states)
        self.moves = moves
        return True

    def become_old(self, new: Node) -> None:
        """The change is over: what it led to is the old plan of the next one."""
        assert self.change is not None
        assert self.is_over
        self.meant = meant_at_all_times(self.meant, self.new, self.change.at)
        (self.old,), self.new = self.change.then_nodes, new
        self.change, self.is_over = None, False

    def story(self) -> str:
        lines = ["old:", explain_tree(self.old), "new:", explain_tree(self.new)]
        lines += [
            f"{name}: {[list(elements_of(b)) for b in each]}" for name, each in self.arrived.items()
        ]
        lines += [f"left: {[(list(elements_of(b)), b.stable) for b in self.left]}"]
        if self.change is not None:
            lines += [f"change at {self.change.at}, kept {self.change.kept}"]
        return "\n".join(lines)


def changed_at_any_batch(
    old: Node,
    new: Node,
    steps: Sequence[Mapping[str, EventBatch]],
    at: int,
    emit: Emission,
    how: str = "clip",
    *,
    heals: bool = False,
) -> Changing:
    query = Changing(old, new, emit, heals=heals)
    waiting: dict[str, list[EventBatch]] = {}
    for number, step in enumerate(steps):
        if number >= at and query.change is None:
            {"clip": query.switch, "replay": query.replay, "state": query.take_over}[how]()
        for name, batch in step.items():
            waiting.setdefault(name, []).append(batch)
        # A source that only the new plan reads is read from its beginning, after the change.
        names = [name for name in waiting if name in query.runner.plan.sources]
        query.step({name: EventBatch.concat(waiting.pop(name)) for name in names})
    return query


@st.composite
def cases(draw: st.DrawFn, old: Node, new: Node) -> list[dict[str, EventBatch]]:
    longest = draw(st.sampled_from([3, 8, FOREVER]))
    sources: list[Source] = sources_of(Union(inputs=(old, new)))
    return draw(
        schedules(
            **{
                each.name: streams(
                    SCHEMA,
                    longest=longest,
                    insert_only=each.insert_only,
                    only_points=each.only_points,
                    odd_floats=False,
                )
                for each in sources
            }
        )
    )


def can_be_compiled(*nodes: Node) -> bool:
    try:
        for node in nodes:
            compile_plan(node)
    except PlanError:
        return False
    return True


def runs_alone(node: Node, steps: Sequence[Mapping[str, EventBatch]]) -> bool:
    """Whether no expression fails for the rows, as casts and divisions may."""
    runner = LocalRunner(node)
    try:
        for step in steps:
            runner.step({n: b for n, b in step.items() if n in runner.plan.sources})
        names = runner.plan.sources
        means = {n: LogicalStream.of_batches(s[n] for s in steps if n in s) for n in names}
        meaning(node, means)
    except StreamError:
        return False
    return True


@given(st.data(), plans(), EMISSIONS)
def test_another_plan_for_the_same_answer(data: st.DataObject, old: Node, emit: Emission) -> None:
    new = optimize(old).node
    if not can_be_compiled(old, new) or old.schema != new.schema:
        return
    steps = data.draw(cases(old, new))
    if not runs_alone(old, steps) or not runs_alone(new, steps):
        return
    changed_at_any_batch(old, new, steps, data.draw(st.integers(0, len(steps))), emit)


@given(st.data(), plans(steps=4), plans(steps=4), EMISSIONS)
def test_another_query(data: st.DataObject, old: Node, new: Node, emit: Emission) -> None:
    if not can_be_compiled(old, new) or old.schema != new.schema:
        return
    steps = data.draw(cases(old, new))
    if not runs_alone(old, steps) or not runs_alone(new, steps):
        return
    changed_at_any_batch(old, new, steps, data.draw(st.integers(0, len(steps))), emit)


@given(st.data(), plans(steps=4), plans(steps=4), EMISSIONS)
def test_another_query_by_replay(data: st.DataObject, old: Node, new: Node, emit: Emission) -> None:
    if not can_be_compiled(old, new) or old.schema != new.schema:
        return
    steps = data.draw(cases(old, new))
    if not runs_alone(old, steps) or not runs_alone(new, steps):
        return
    at = data.draw(st.integers(0, len(steps)))
    changed_at_any_batch(old, new, steps, at, emit, "replay")


@given(st.data(), plans(steps=3), plans(steps=3), plans(steps=3), EMISSIONS)
def test_a_query_changes_twice(
    data: st.DataObject, first: Node, second: Node, third: Node, emit: Emission
) -> None:
    every = (first, second, third)
    if not can_be_compiled(*every) or len({str(each.schema) for each in every}) > 1:
        return
    steps = data.draw(cases(Union(inputs=(first, second)), third))
    if not all(runs_alone(each, steps) for each in every):
        return
    ways = data.draw(st.lists(st.sampled_from(["clip", "replay"]), min_size=2, max_size=2))
    changed_twice(every, steps, ways, emit)


def changed_twice(
    every: tuple[Node, Node, Node],
    steps: Sequence[Mapping[str, EventBatch]],
    ways: Sequence[str],
    emit: Emission,
    *,
    heals: bool = False,
) -> Changing:
    """Change as soon as that can be done, and again as soon as that is over."""
    query = Changing(every[0], every[1], emit, heals=heals)
    query.arrived |= {each.name: [] for each in sources_of(every[2])}
    waiting: dict[str, list[EventBatch]] = {}
    left = list(ways)
    for step in steps:
        again = {each.name for each in sources_of(every[2])} - query.runner.plan.sources.keys()
        # What only a plan that is gone has read cannot be read by another one.
        is_known = not any(query.arrived[name] for name in again)
        if query.change is not None and query.is_over and left and is_known:
            query.become_old(every[2])
        if query.change is None and left:
            has_begun = query.switch() if left[0] == "clip" else query.replay()
            left = left[1:] if has_begun else left
        for name, batch in step.items():
            waiting.setdefault(name, []).append(batch)
        names = [name for name in waiting if name in query.runner.plan.sources]
        query.step({name: EventBatch.concat(waiting.pop(name)) for name in names})
    return query
