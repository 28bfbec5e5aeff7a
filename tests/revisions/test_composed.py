"""Plans of several operators over two sources: with revisions they mean what they say."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER
from anabranch.testing.strategies import points, streams
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_apply_operator import POINTS, has_few_windows, nodes
from tests.revisions.composed import composed
from tests.revisions.histories import WAYS, assert_revised, broken_promises

SHORT = streams(SCHEMA, longest=6, max_size=8)


@given(composed(), broken_promises(S=SHORT, T=SHORT), WAYS)
def test_late_rows_are_revisions_of_composed_plans(
    node: Node, steps: list[dict[str, EventBatch]], way: dict[str, Any]
) -> None:
    assert_revised(node, steps, **way)


def assert_windows_revised(
    node: ApplyOperator,
    steps: list[dict[str, EventBatch]],
    *,
    ends: bool,
    **way: Any,
) -> None:
    came = [batch for step in steps for batch in step.values()]
    assume(has_few_windows(node, came))
    end = {"S": EventBatch.empty(SCHEMA, FOREVER)}
    assert_revised(node, [*steps, end, end] if ends else steps, **way)


@given(nodes(SOURCE), broken_promises(S=SHORT), st.booleans(), WAYS)
def test_user_operators_are_told_of_late_events(
    node: ApplyOperator,
    steps: list[dict[str, EventBatch]],
    ends: bool,
    way: dict[str, Any],
) -> None:
    assert_windows_revised(node, steps, ends=ends, **way)


@given(
    nodes(POINTS),
    broken_promises(S=points(SCHEMA, insert_only=True)),
    st.booleans(),
    WAYS,
)
def test_user_operators_are_told_of_late_points(
    node: ApplyOperator,
    steps: list[dict[str, EventBatch]],
    ends: bool,
    way: dict[str, Any],
) -> None:
    assert_windows_revised(node, steps, ends=ends, **way)
