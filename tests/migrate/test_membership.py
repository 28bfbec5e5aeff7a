"""A query joins others at any batch: clip(new, [T, ..)) by clip, all of it by replay.

The others mean what they always did, and a query that leaves does not disturb those that stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.clip import Clip
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.node import Node
from anabranch.kernels.plan.combining_plans import remembers, same_stages
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate.change import (
    NewAnswer,
    RunningPlan,
    clip_instant,
    plan_without,
    planned_change,
)
from anabranch.migrate.handover import opening_moves
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing import meaning, sources_of
from anabranch.testing.oracle import history_of
from anabranch.testing.physical import KitStable, PhysicalState, elements_of, violations
from anabranch.testing.strategies import schedules, streams
from tests.migrate.test_change import EMISSIONS, can_be_compiled, runs_alone
from tests.optimizer.plans import SCHEMA, plans


class Member:
    """One query of a group: what it has put out, and what it has to mean."""

    def __init__(self, node: Node, at: Time = BEGINNING) -> None:
        self.node, self.at = node, at
        self.state = PhysicalState.empty()
        self.stable: Time = BEGINNING
        self.moves: EventBatch | None = None

    def take(self, out: EventBatch, story: str) -> None:
        if self.moves is not None:
            out = EventBatch.concat([self.moves, out]).with_stable(out.stable)
            self.moves = None
        illegal = next(violations(elements_of(out), self.state), None)
        assert illegal is None, f"{illegal}\n{story}"
        assert out.stable >= self.stable
        self.stable = out.stable
        self.state.take(KitStable(out.stable))


class Group:
    """Queries in one plan, run in this process; some join, some leave."""

    def __init__(self, nodes: Sequence[Node], every: Sequence[Node], emit: Emission) -> None:
        self.emit = emit
        self.members = [Member(node) for node in nodes]
        self.nodes = tuple(nodes)
        self.runner = LocalRunner(compile_plan(*nodes, emit=emit))
        self.arrived: dict[str, list[EventBatch]] = {
            source.name: [] for node in every for source in sources_of(node)
        }

    def compiled(self, *nodes: Node) -> PhysicalPlan:
        return compile_plan(*nodes, emit=self.emit)

    def step(self, came: Mapping[str, EventBatch]) -> None:
        for name, batch in came.items():
            self.arrived[name].append(batch)
        outs = self.runner.step_all(came)
        for member, out in zip(self.members, outs, strict=True):
            member.take(out, self.story())
            self.compare(member)

    def compare(self, member: Member) -> None:
        means = {name: LogicalStream.of_batches(each) for name, each in self.arrived.items()}
        histories = {name: history_of(each) for name, each in self.arrived.items()}
        events = member.state.events.items()
        got = LogicalStream.of(event for event, count in events for _ in range(count))
        wanted = meaning(member.node, means, histories)
        if member.at > BEGINNING:
            wanted = Clip(input=member.node, start=member.at).denote(wanted)
        late = any(each.holds_back for each in member.node.walk())
        before = FOREVER if self.emit == "speculative" and not late else member.stable
        difference = got.difference(wanted, before)
        assert not difference, f"{difference}\n{self.story()}"

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
            stables=tuple(member.stable for member in self.members),
            tables=(),
            compile=self.compiled,
        )

    def join(self, new: Node) -> bool:
        """By clip; whether that can be done now."""
        running = self.running()
        at, why = clip_instant(running, [NewAnswer(None, new)])
        if why is not None or at == FOREVER:
            return False
        change = planned_change(running, [NewAnswer(None, new)], at)
        assert change.both is change.then
        self.exchange(change.then)
        self.nodes = change.then_nodes
        self.members.append(Member(new, at))
        return True

    def join_by_replay(self, new: Node) -> bool:
        """From the beginning, by reading again."""
        fresh = LocalRunner(self.compiled(new))
        out = [EventBatch.empty(new.schema)]
        for name in fresh.plan.sources:
            out += [fresh.step({name: batch}) for batch in self.arrived[name]]
        answers = [NewAnswer(None, new)]
        change = planned_change(self.running(), answers, BEGINNING, seeded=True)
        before = self.runner
        self.exchange(change.then)
        # What is not among the stages that ran has the state that was read again.
        seeds = fresh.changed(change.then).states
        ran = same_stages(before.plan, change.then)
        read = same_stages(fresh.plan, change.then)
        own = {name: seeds[name] for name in read if name not in ran}
        self.runner.exchange({**self.runner.states, **own})
        member = Member(new)
        member.moves = opening_moves(EventBatch.concat(out), new, BEGINNING)
        self.nodes = change.then_nodes
        self.members.append(member)
        return True

    def leave(self, output: int) -> None:
        self.exchange(plan_without(self.running(), output))
        del self.members[output]
        self.nodes = tuple(node for n, node in enumerate(self.nodes) if n != output)

    def exchange(self, plan: PhysicalPlan) -> None:
        # No two stages with memory may go on with the state of one.
        same = same_stages(self.runner.plan, plan)
        heirs = [
            same[stage.name] for stage in plan.stages if stage.name in same if remembers(stage)
        ]
        assert len(heirs) == len(set(heirs)), self.story()
        self.runner = self.runner.changed(plan)

    def story(self) -> str:
        lines = []
        for member in self.members:
            lines += [f"member from {member.at}:", explain_tree(member.node)]
        lines += [
            f"{name}: {[list(elements_of(b)) for b in each]}" for name, each in self.arrived.items()
        ]
        return "\n".join(lines)


@st.composite
def steps_for(draw: st.DrawFn, nodes: Sequence[Node]) -> list[dict[str, EventBatch]]:
    longest = draw(st.sampled_from([3, 8, FOREVER]))
    sources = {source.name: source for node in nodes for source in sources_of(node)}
    rows = {
        name: streams(
            SCHEMA,
            longest=longest,
            insert_only=each.insert_only,
            only_points=each.only_points,
            odd_floats=False,
        )
        for name, each in sources.items()
    }
    return draw(schedules(**rows))


def play(
    data: st.DataObject, first: Node, second: Node, new: Node, emit: Emission, how: str
) -> None:
    every = (first, second, new)
    if not can_be_compiled(*every):
        return
    steps = data.draw(steps_for(every))
    if not all(runs_alone(node, steps) for node in every):
        return
    joins, leaves = (data.draw(st.integers(0, len(steps))) for _ in range(2))
    group = Group([first, second], every, emit)
    has_joined = has_left = False
    waiting: dict[str, list[EventBatch]] = {}
    for number, step in enumerate(steps):
        read = {source.name for source in sources_of(new)} - group.runner.plan.sources.keys()
        # What was read for a query that has left cannot be read by another one.
        can_join = not any(group.arrived[name] for name in read)
        if number >= joins and not has_joined and can_join:
            has_joined = group.join(new) if how == "clip" else group.join_by_replay(new)
        if number >= leaves and not has_left:
            group.leave(data.draw(st.integers(0, len(group.members) - 1)))
            has_left = True
        for name, batch in step.items():
            waiting.setdefault(name, []).append(batch)
        # A source that only the new query reads is read from its beginning, once it has joined.
        names = [name for name in waiting if name in group.runner.plan.sources]
        group.step({name: EventBatch.concat(waiting.pop(name)) for name in names})


@given(st.data(), plans(steps=3), plans(steps=3), plans(steps=3), EMISSIONS)
def test_a_query_joins_by_clip_and_another_leaves(
    data: st.DataObject, first: Node, second: Node, new: Node, emit: Emission
) -> None:
    play(data, first, second, new, emit, "clip")


@given(st.data(), plans(steps=4), EMISSIONS)
def test_a_query_joins_that_has_much_in_common(
    data: st.DataObject, node: Node, emit: Emission
) -> None:
    play(data, node, Clip(input=node, start=Time(3)), Clip(input=node, end=Time(9)), emit, "clip")


@given(st.data(), plans(steps=3), plans(steps=3), plans(steps=3), EMISSIONS)
def test_a_query_joins_by_replay_and_another_leaves(
    data: st.DataObject, first: Node, second: Node, new: Node, emit: Emission
) -> None:
    play(data, first, second, new, emit, "replay")
