"""Plans of several operators over two sources: with revisions they mean what they say."""

from __future__ import annotations

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
from tests.revisions.histories import TASKS, assert_revised, broken_promises

SHORT = streams(SCHEMA, longest=6, max_size=8)


@given(composed(), broken_promises(S=SHORT, T=SHORT), TASKS)
def test_late_rows_are_revisions_of_composed_plans(
    node: Node, steps: list[dict[str, EventBatch]], tasks: int
) -> None:
    assert_revised(node, steps, tasks=tasks)


def assert_windows_revised(
    node: ApplyOperator, steps: list[dict[str, EventBatch]], *, ends: bool, tasks: int
) -> None:
    came = [batch for step in steps for batch in step.values()]
    assume(has_few_windows(node, came))
    end = {"S": EventBatch.empty(SCHEMA, FOREVER)}
    assert_revised(node, [*steps, end, end] if ends else steps, tasks=tasks)


@given(nodes(SOURCE), broken_promises(S=SHORT), st.booleans(), TASKS)
def test_user_operators_are_told_of_late_events(
    node: ApplyOperator, steps: list[dict[str, EventBatch]], ends: bool, tasks: int
) -> None:
    assert_windows_revised(node, steps, ends=ends, tasks=tasks)


@given(nodes(POINTS), broken_promises(S=points(SCHEMA, insert_only=True)), st.booleans(), TASKS)
def test_user_operators_are_told_of_late_points(
    node: ApplyOperator, steps: list[dict[str, EventBatch]], ends: bool, tasks: int
) -> None:
    assert_windows_revised(node, steps, ends=ends, tasks=tasks)
