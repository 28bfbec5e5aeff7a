"""User operators whose code changes while their query runs: the state goes on by `migrate`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.algebra.modules.user_operator import Code, Result, Row, UserOperator, Window
from anabranch.algebra.node import Node
from anabranch.errors import OperatorError, PlanError
from anabranch.expressions.expression import Expression
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.kernels.plan.compile import Emission
from anabranch.migrate.operators import code_hash, is_same_code, revised_plan, without_migrate
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration
from anabranch.testing import batchings, streams
from tests.kernels.modules import ADDING, EACH, PLAIN, Adding, Listing, module
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_apply_operator import call, has_few_windows, nodes
from tests.kernels.test_module_failures import stream
from tests.migrate.test_change import EMISSIONS, Changing, changed_at_any_batch

SAID = Expression.parse("said0", pa.schema([("said0", pa.string())]))


class Second(Code):
    """The next version: its states have another form, and its results are marked."""

    def __init__(self, first: Code) -> None:
        self.first = first

    can_migrate = True

    def migrate(self, state: Any, version: int) -> Any:
        assert version == 1
        return {"second": state}

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        return self.marked(self.first.compute(columns, times, window))

    def compute_frame(self, events: pa.Table) -> pa.Table:
        found = self.first.compute_frame(events)
        said = pa.array([f"second {text}" for text in found["said"].to_pylist()], pa.string())
        return found.set_column(found.schema.get_field_index("said"), "said", said)

    def initial(self) -> Any:
        return {"second": self.first.initial()}

    def add(self, state: Any, values: Row, start: int, end: int) -> Any:
        return {"second": self.first.add(state["second"], values, start, end)}

    def remove(self, state: Any, values: Row, start: int, end: int) -> Any:
        return {"second": self.first.remove(state["second"], values, start, end)}

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        return self.marked(self.first.finish(state["second"], window))

    def marked(self, found: Iterable[Result]) -> Iterable[Result]:
        return [((f"second {row[0]}",), start, end) for row, start, end in found]


def second(operator: UserOperator) -> UserOperator:
    return replace(operator, code=Second(operator.code), version=2)


def with_second(node: ApplyOperator) -> ApplyOperator:
    calls = tuple(replace(each, operator=second(each.operator)) for each in node.calls)
    return replace(node, calls=calls)


def above(node: Node, kind: int) -> Node:
    """Something that reads the results."""
    said = node.schema.names[-1]
    if kind == 1:
        return Filter(input=node, predicate=Expression.parse(f"length({said}) < 20", node.schema))
    if kind == 2:
        columns = ((said, Expression.parse(f"upper({said})", node.schema)),)
        return Map(input=node, columns=columns)
    return node


def is_marked(node: ApplyOperator) -> bool:
    return all(each.operator.gives.names == ["said"] for each in node.calls)


@given(st.data(), nodes(SOURCE), streams(SCHEMA).flatmap(batchings), EMISSIONS, st.integers(0, 2))
def test_another_version_goes_on_with_the_state(
    data: st.DataObject, node: ApplyOperator, came: list[EventBatch], emit: Emission, kind: int
) -> None:
    if not is_marked(node) or not has_few_windows(node, came):
        return
    old, new = above(node, kind), above(with_second(node), kind)
    steps = [{"S": batch} for batch in came]
    changed_at_any_batch(old, new, steps, data.draw(st.integers(0, len(steps))), emit, "state")


def over(operator: UserOperator) -> ApplyOperator:
    return ApplyOperator(
        input=SOURCE, window=Hopping(Duration(4), Duration(4)), calls=(call(operator),)
    )


def test_an_operator_with_the_same_code_stays_and_another_one_has_a_revision() -> None:
    running = over(ADDING)
    again = over(replace(ADDING, code=Adding()))
    same = revised_plan(again, [running], where="q")
    assert (same.node, same.before) == (running, {})
    assert same.node.calls[0].operator.code is ADDING.code  # type: ignore[attr-defined]
    changed = revised_plan(over(second(ADDING)), [running], where="q")
    assert isinstance(changed.node, ApplyOperator)
    assert changed.node.calls[0].operator.revision == 1
    assert changed.before == {changed.node: running}
    # Changed once more, and back: it is never taken for the first one.
    third = revised_plan(over(ADDING), [changed.node], where="q").node
    assert isinstance(third, ApplyOperator)
    assert third.calls[0].operator.revision == 2


def test_what_is_above_a_changed_operator_has_no_state_to_take_over() -> None:
    pair = ApplyOperator(
        input=over(ADDING),
        window=Hopping(Duration(8), Duration(8)),
        calls=(Call(module("texts", Listing(), takes=(("v", pa.string()),)), (SAID,), ("said1",)),),
    )
    lower = replace(pair, input=over(second(ADDING)))
    both = replace(lower, calls=tuple(replace(c, operator=second(c.operator)) for c in lower.calls))
    found = revised_plan(both, [pair], where="q")
    assert list(found.before.values()) == [over(ADDING)]


def test_a_version_that_cannot_read_earlier_states_is_known_before_anything_changes() -> None:
    later = replace(ADDING, version=2)
    found = revised_plan(over(later), [over(ADDING)], where="q")
    assert without_migrate(found.before) == (
        "'adding' of version 2 has no method migrate(self, state, version) for states of version 1"
    )
    able = revised_plan(over(second(ADDING)), [over(ADDING)], where="q")
    assert without_migrate(able.before) is None
    # Without a state there is nothing to be read.
    plain = revised_plan(over(second(PLAIN)), [over(PLAIN)], where="q")
    assert without_migrate(plain.before) is None


class Broken(Second):
    def migrate(self, state: Any, version: int) -> Any:
        raise ValueError("no such state")


def test_a_failing_migrate_changes_nothing() -> None:
    old = over(ADDING)
    new = over(replace(ADDING, code=Broken(ADDING.code), version=2))
    query = Changing(old, new, "speculative")
    query.step({"S": stream((1, 1, 1, 2)).batches()[0]})
    with pytest.raises(OperatorError, match=r"adding.migrate failed: .*no such state"):
        query.take_over()


def test_a_function_with_other_code_under_the_same_name_is_refused() -> None:
    one, other = (
        ScalarFunction(
            name="twice", takes=(("v", pa.int64()),), returns=pa.int64(), identity=name, code=code
        )
        for name, code in (("a", lambda v: v * 2), ("b", lambda v: v + v))
    )
    old, new = (
        Filter(input=SOURCE, predicate=Expression.parse("twice(v) > 3", SCHEMA, functions=[each]))
        for each in (one, other)
    )
    with pytest.raises(PlanError, match="'twice' has other code") as raised:
        revised_plan(new, [old], where="q")
    assert "another name" in str(raised.value.hint)
    same = replace(one, identity="c", code=lambda v: v * 2)
    again = Filter(
        input=SOURCE, predicate=Expression.parse("twice(v) > 3", SCHEMA, functions=[same])
    )
    revised_plan(again, [old], where="q")


def test_code_is_compared_by_what_it_does() -> None:
    def added(n: int) -> Any:
        return lambda v: v + n

    assert code_hash(added(1)) == code_hash(added(1))
    assert code_hash(added(1)) != code_hash(added(2))
    assert is_same_code(EACH, EACH)
    assert code_hash(Adding) != code_hash(Second)
