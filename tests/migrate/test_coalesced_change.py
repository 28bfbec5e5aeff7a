"""Queries that end in a coalesce change below it: their lifetimes are the longest at all times."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.kernels.plan.combining_plans import same_stages
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate.change import NewAnswer, RunningPlan, planned_change
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.time import Duration, Time
from anabranch.optimizer.driver import optimize
from tests.migrate.test_change import (
    EMISSIONS,
    can_be_compiled,
    cases,
    changed_at_any_batch,
    changed_twice,
    runs_alone,
)
from tests.optimizer.plans import plans, where

WAYS = st.sampled_from(["clip", "replay"])


def coalesced(node: Node) -> Coalesce:
    return node if isinstance(node, Coalesce) else Coalesce(input=node)


@given(st.data(), plans(), EMISSIONS, WAYS)
def test_another_plan_for_the_same_answer(
    data: st.DataObject, below: Node, emit: Emission, how: str
) -> None:
    old = coalesced(below)
    new = optimize(old).node
    if not can_be_compiled(old, new) or old.schema != new.schema:
        return
    steps = data.draw(cases(old, new))
    heals = emit == "speculative"
    if not runs_alone(old, steps) or not runs_alone(new, steps):
        return
    changed_at_any_batch(
        old, new, steps, data.draw(st.integers(0, len(steps))), emit, how, heals=heals
    )


@given(st.data(), plans(steps=3), plans(steps=3), EMISSIONS, WAYS, st.integers(1, 3))
def test_another_query(
    data: st.DataObject, old: Node, new: Node, emit: Emission, how: str, which: int
) -> None:
    """Of the two queries the first, the second or both end in a coalesce."""
    old = coalesced(old) if which & 1 else old
    new = coalesced(new) if which & 2 else new
    if not can_be_compiled(old, new) or old.schema != new.schema:
        return
    heals = which == 3 and emit == "speculative"
    steps = data.draw(cases(old, new))
    if not runs_alone(old, steps) or not runs_alone(new, steps):
        return
    changed_at_any_batch(
        old, new, steps, data.draw(st.integers(0, len(steps))), emit, how, heals=heals
    )


@given(st.data(), plans(steps=2), plans(steps=2), plans(steps=2), EMISSIONS)
def test_a_query_changes_twice(
    data: st.DataObject, first: Node, second: Node, third: Node, emit: Emission
) -> None:
    every = (coalesced(first), coalesced(second), coalesced(third))
    if not can_be_compiled(*every) or len({str(each.schema) for each in every}) > 1:
        return
    steps = data.draw(cases(Union(inputs=every[:2]), every[2]))
    if not all(runs_alone(each, steps) for each in every):
        return
    ways = data.draw(st.lists(WAYS, min_size=2, max_size=2))
    changed_twice(every, steps, ways, emit, heals=emit == "speculative")


DENSE = Source(name="S", schema=pa.schema([("k", pa.bool_())]))
SHORTEST, LONGEST = 1, 5


def dense_stream(dice: Random) -> list[dict[str, EventBatch]]:
    """Batches of few payloads whose lifetimes touch, overlap and move all the time."""
    promised, found = 0, []
    there: list[Insert] = []
    for _ in range(dice.randrange(4, 12)):
        elements: list[Element] = []
        for _ in range(dice.randrange(4)):
            start = promised + dice.randrange(4)
            length = dice.randrange(SHORTEST, LONGEST)
            there.append(Insert({"k": dice.random() < 0.6}, start, start + length))
            elements.append(there[-1])
        for _ in range(dice.randrange(3)):
            movable = [n for n, each in enumerate(there) if each.end >= promised]
            if movable:
                at = dice.choice(movable)
                old = there.pop(at)
                ends = range(max(promised, old.start), old.start + LONGEST)
                end = dice.choice(ends) if len(ends) else old.end
                if end != old.end:
                    elements.append(Adjust(old.payload, old.start, old.end, end))
                if end > old.start:
                    there.append(Insert(old.payload, old.start, end))
        promised += dice.randrange(4)
        batch = batch_of([*elements, Stable(promised)], DENSE.schema)
        found.append({"S": batch})
    return found


def dense_plans() -> list[Node]:
    halves = [where(DENSE, "k"), where(DENSE, "NOT k")]
    held = TimeWindow(input=DENSE, size=Duration(3))
    return [
        DENSE,
        Split(input=DENSE, length=Duration(2)),
        Union(inputs=tuple(halves)),
        Distinct(input=DENSE),
        held,
        Distinct(input=Union(inputs=(held, halves[0]))),
    ]


@given(st.integers(0, 1 << 40))
def test_lifetimes_that_touch_are_joined_whenever_it_changes(seed: int) -> None:
    dice = Random(seed)
    first, second, third = (coalesced(dice.choice(dense_plans())) for _ in range(3))
    steps = dense_stream(dice)
    if dice.random() < 0.3:
        ways = [dice.choice(["clip", "replay"]) for _ in range(2)]
        changed_twice((first, second, third), steps, ways, "speculative", heals=True)
    else:
        how, at = dice.choice(["clip", "replay"]), dice.randrange(len(steps))
        changed_at_any_batch(first, second, steps, at, "speculative", how, heals=True)


def test_two_outputs_that_become_one_query_have_states_of_their_own() -> None:
    plans_ = [coalesced(each) for each in dense_plans()]

    def running(nodes: tuple[Node, ...], plan: PhysicalPlan) -> RunningPlan:
        at = (Time(0),) * 2
        return RunningPlan(
            plan=plan, nodes=nodes, ends={"S": Time(9)}, stables=at, tables=(), compile=compile_plan
        )

    nodes: tuple[Node, ...] = (plans_[0], plans_[3])
    plan, new = compile_plan(*nodes), dense_plans()[4]
    names: list[str] = []
    for output in range(2):
        answers = [NewAnswer(output, new, heals=True)]
        change = planned_change(running(nodes, plan), answers, Time(20))
        before = same_stages(plan, change.both)
        healing = change.both.stages[change.both.outputs[output]]
        assert healing.is_healing
        assert healing.name not in before
        # It is the same one when the old plan is gone, and the other one stays, too.
        then = same_stages(change.both, change.then)
        names.append(healing.name)
        assert [then[each] for each in names] == names
        plan, nodes = change.then, change.then_nodes
