"""Several queries of a group change at one T: each means the old before T, the new from T on.

What they have in common is computed once, before the change, during it and behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.kernels.plan.combining_plans import remembers
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan, StageState
from anabranch.migrate.change import (
    NewAnswer,
    PlannedChange,
    RunningPlan,
    clip_instant,
    meant_at_all_times,
    planned_change,
)
from anabranch.migrate.handover import closing_moves, healed_state, opening_moves
from anabranch.migrate.healing import below_coalesce
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import freeze
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import meaning, sources_of
from anabranch.testing.oracle import history_of
from anabranch.testing.physical import KitStable, PhysicalState, elements_of, violations
from tests.migrate.test_change import EMISSIONS, can_be_compiled, runs_alone
from tests.migrate.test_membership import steps_for
from tests.optimizer.plans import plans, where


class Answer:
    """One output of the group: what it means, and what it has put out."""

    def __init__(self, old: Node, new: Node | None, *, heals: bool) -> None:
        self.meant, self.new, self.heals = old, new, heals
        self.state = PhysicalState.empty()
        self.left: list[EventBatch] = []
        self.stable: Time = BEGINNING
        self.moves: EventBatch | None = None

    @property
    def below(self) -> Node:
        """What of the new plan is computed in place of what of the old one."""
        assert self.new is not None
        return below_coalesce(self.new) if self.heals else self.new

    def take(self, out: EventBatch, story: str) -> None:
        if self.moves is not None:
            out = EventBatch.concat([self.moves, out]).with_stable(out.stable)
            self.moves = None
        illegal = next(violations(elements_of(out), self.state), None)
        assert illegal is None, f"{illegal}\n{story}"
        assert out.stable >= self.stable
        self.stable = out.stable
        self.state.take(KitStable(out.stable))
        self.left.append(out)


class SharedChange:
    """Queries in one plan, some of which become others at one instant, batch by batch."""

    def __init__(self, old: Sequence[Node], new: Mapping[int, Node], emit: Emission) -> None:
        self.emit, self.nodes = emit, tuple(old)
        self.answers = [
            Answer(node, new.get(n), heals=emit == "speculative" and is_healed(node, new.get(n)))
            for n, node in enumerate(old)
        ]
        self.runner = LocalRunner(self.compiled(*old))
        self.arrived: dict[str, list[EventBatch]] = {
            each.name: [] for node in (*old, *new.values()) for each in sources_of(node)
        }
        self.change: PlannedChange | None = None
        self.is_over = False

    @property
    def changing(self) -> list[tuple[int, Answer]]:
        return [(n, each) for n, each in enumerate(self.answers) if each.new is not None]

    def compiled(self, *nodes: Node) -> PhysicalPlan:
        return compile_plan(*nodes, emit=self.emit)

    def new_answers(self) -> list[NewAnswer]:
        return [NewAnswer(n, each.below, each.heals) for n, each in self.changing]

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
            nodes=self.nodes,
            ends=ends,
            stables=tuple(each.stable for each in self.answers),
            tables=(),
            compile=self.compiled,
        )

    def clip(self) -> bool:
        """Change by clip; whether that can be done now."""
        running, new = self.running(), self.new_answers()
        at, why = clip_instant(running, new)
        if why is not None or at == FOREVER:
            return False
        self.change = planned_change(running, new, at)
        self.is_over = self.change.both is self.change.then
        self.runner = self.runner.changed(self.change.both)
        self.heal({})
        return True

    def replay(self) -> bool:
        """Change by replay; outputs that are not settled as far as others go on until T."""
        at = max(each.stable for _, each in self.changing)
        if at == FOREVER:
            return False
        new = self.new_answers()
        fresh = LocalRunner(self.compiled(*(each.node for each in new)))
        outs = [[EventBatch.empty(each.node.schema)] for each in new]
        for name in fresh.plan.sources:
            for batch in self.arrived[name]:
                for came, out in zip(outs, fresh.step_all({name: batch}), strict=True):
                    came.append(out)
        at_once = all(at <= each.stable for _, each in self.changing)
        change = planned_change(self.running(), new, at, seeded=True, at_once=at_once)
        self.change, self.is_over = change, change.both is change.then
        ran, read = self.runner.changed(change.both), fresh.changed(change.both)
        own = {name: read.states[name] for name in change.added}
        self.runner = ran
        self.runner.exchange({**ran.states, **own})
        moves: dict[int, EventBatch] = {}
        for (number, each), came in zip(self.changing, outs, strict=True):
            opening = opening_moves(EventBatch.concat(came), each.below, at)
            closing = closing_moves(each.left, at)
            found = opening if closing is None else EventBatch.concat([closing, opening])
            moves[number] = each.moves = found
        self.heal(moves)
        return True

    def heal(self, moves: Mapping[int, EventBatch]) -> None:
        """Let the coalesces of both answers begin with what has left."""
        assert self.change is not None
        plan, states = self.change.both, dict[str, StageState]()
        for number, each in self.changing:
            if each.heals:
                stage = plan.stages[plan.outputs[number]]
                assert stage.is_healing
                assert stage.name not in states
                state, out = healed_state(stage, each.left, each.stable, moves.get(number))
                states[stage.name] = state
                each.moves = out if number in moves else None
        self.runner.exchange({**self.runner.states, **states})

    def step(self, came: Mapping[str, EventBatch]) -> None:
        for name, batch in came.items():
            self.arrived[name].append(batch)
        outs = self.runner.step_all(came)
        for each, out in zip(self.answers, outs, strict=True):
            each.take(out, self.story())
            self.compare(each)
        if self.change is None or self.is_over:
            return
        if all(each.stable >= self.change.at for _, each in self.changing):
            self.runner = self.runner.changed(self.change.then)
            self.is_over = True

    def compare(self, answer: Answer) -> None:
        means = {name: LogicalStream.of_batches(each) for name, each in self.arrived.items()}
        histories = {name: history_of(each) for name, each in self.arrived.items()}
        events = answer.state.events.items()
        got = LogicalStream.of(event for event, count in events for _ in range(count))
        node = answer.meant
        if self.change is not None and answer.new is not None:
            node = meant_at_all_times(node, answer.new, self.change.at)
        promised = [
            max([int(BEGINNING), *(b.stable for b in each if b.stable < FOREVER)])
            for each in self.arrived.values()
        ]
        wanted = meaning(node, means, histories, min(promised, default=int(BEGINNING)))
        late = any(each.holds_back for each in node.walk())
        before = FOREVER if self.emit == "speculative" and not late else answer.stable
        difference = got.difference(wanted, before)
        assert not difference, f"{difference}\n{self.story()}"
        if answer.heals:
            longest = Counter((freeze(row), start, end) for row, start, end in got.events())
            there = Counter({(freeze(e[0]), *e[1:]): n for e, n in events})
            assert there == longest, f"not the longest lifetimes: {there}\n{self.story()}"

    def story(self) -> str:
        lines = []
        for each in self.answers:
            lines += ["old:", explain_tree(each.meant)]
            lines += [] if each.new is None else ["new:", explain_tree(each.new)]
        lines += [
            f"{name}: {[(list(elements_of(b)), b.stable) for b in each]}"
            for name, each in self.arrived.items()
        ]
        return "\n".join([*lines, f"change at {self.change and self.change.at}"])


def is_healed(old: Node, new: Node | None) -> bool:
    return isinstance(old, Coalesce) and isinstance(new, Coalesce)


def readers(node: Node, *, coalesced: bool) -> list[Node]:
    """Three queries over one stream."""
    held = TimeWindow(input=node, size=Duration(2))
    found = [node, Distinct(input=node), Distinct(input=held)]
    return [Coalesce(input=each) if coalesced else each for each in found]


def play(
    data: st.DataObject,
    old: Sequence[Node],
    new: Mapping[int, Node],
    emit: Emission,
    how: str,
) -> None:
    every = (*old, *new.values())
    if not can_be_compiled(*every) or any(old[n].schema != node.schema for n, node in new.items()):
        return
    steps = data.draw(steps_for(every))
    if not all(runs_alone(node, steps) for node in every):
        return
    at = data.draw(st.integers(0, len(steps)))
    group = SharedChange(old, new, emit)
    waiting: dict[str, list[EventBatch]] = {}
    for number, step in enumerate(steps):
        if number >= at and group.change is None:
            group.clip() if how == "clip" else group.replay()
        for name, batch in step.items():
            waiting.setdefault(name, []).append(batch)
        # A source that only new queries read is read from its beginning, after the change.
        names = [name for name in waiting if name in group.runner.plan.sources]
        group.step({name: EventBatch.concat(waiting.pop(name)) for name in names})


WAYS = st.sampled_from(["clip", "replay"])


@given(st.data(), plans(steps=3), plans(steps=3), EMISSIONS, WAYS, st.booleans())
def test_a_shared_stream_becomes_another_one_under_all_its_readers(
    data: st.DataObject, old: Node, new: Node, emit: Emission, how: str, coalesced: bool
) -> None:
    changing = data.draw(st.sets(st.integers(0, 2), min_size=2), label="changing")
    others = readers(new, coalesced=coalesced)
    play(data, readers(old, coalesced=coalesced), {n: others[n] for n in changing}, emit, how)


@given(st.data(), st.lists(plans(steps=2), min_size=4, max_size=4), EMISSIONS, WAYS, WAYS)
def test_queries_become_others_together(
    data: st.DataObject, nodes: list[Node], emit: Emission, how: str, coalesced: str
) -> None:
    """Drawn independently: they may have anything in common, or nothing."""
    old, new = [nodes[0], nodes[1], nodes[0]], [nodes[2], nodes[3], nodes[2]]
    if coalesced == "clip":
        # Of those that change, one is coalesced.
        old[1], new[1] = (
            each if isinstance(each, Coalesce) else Coalesce(input=each)
            for each in (old[1], new[1])
        )
    play(data, old, dict(enumerate(new)), emit, how)


BIDS = Source(
    name="Bid",
    schema=pa.schema([("k", pa.bool_()), ("v", pa.int64())]),
    insert_only=True,
    only_points=True,
)


@pytest.mark.parametrize("heals", [False, True])
def test_what_new_queries_have_in_common_runs_once(heals: bool) -> None:
    def both(size: int) -> list[Node]:
        shared = Distinct(input=TimeWindow(input=BIDS, size=Duration(size)))
        return [where(shared, "k"), Distinct(input=TimeWindow(input=shared, size=Duration(5)))]

    group = SharedChange(both(9), dict(enumerate(both(4))), "speculative")
    for each in group.answers:
        each.heals = heals
    running = group.running()
    before = [stage for stage in running.plan.stages if remembers(stage)]
    change = planned_change(running, group.new_answers(), Time(50))

    def remembering(plan: PhysicalPlan) -> int:
        return sum(remembers(stage) and not stage.is_healing for stage in plan.stages)

    assert len(before) == remembering(change.then) == 2
    assert remembering(change.both) == 4
    healing = [stage.name for stage in change.both.stages if stage.is_healing]
    assert len(healing) == (2 if heals else 0)
    assert [stage.name for stage in change.then.stages if stage.is_healing] == healing


def test_queries_that_become_one_and_the_same_are_cut_at_t_each_for_itself() -> None:
    old = [Distinct(input=TimeWindow(input=BIDS, size=Duration(size))) for size in (7, 9)]
    new = Distinct(input=TimeWindow(input=BIDS, size=Duration(4)))
    group = SharedChange(old, {0: new, 1: new}, "speculative")
    change = planned_change(group.running(), group.new_answers(), Time(20))
    assert len(set(change.then.outputs)) == 2
    (shared,) = [stage for stage in change.then.stages if remembers(stage)]
    # The clip is behind it: otherwise it would be made twice.
    assert [kernel.label for kernel in shared.kernels] == ["Distinct"]
