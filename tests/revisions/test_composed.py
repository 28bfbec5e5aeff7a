"""Plans of several operators over two sources: with revisions they mean what they say."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing.strategies import points, streams
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_apply_operator import POINTS, has_few_windows, nodes
from tests.revisions.composed import composed
from tests.revisions.histories import assert_revised, broken_promises

SHORT = streams(SCHEMA, longest=6, max_size=8)


@given(composed(), broken_promises(S=SHORT, T=SHORT))
def test_late_rows_are_revisions_of_composed_plans(
    node: Node, steps: list[dict[str, EventBatch]]
) -> None:
    assert_revised(node, steps)


def moves_a_settled_bound(steps: list[dict[str, EventBatch]]) -> bool:
    """Whether a bound of events that lies at the stable point is moved.

    `test_a_bound_at_the_stable_point_moves` has what happens then.
    """
    promised = BEGINNING
    for step in steps:
        for batch in step.values():
            moved = batch.where((batch.end != batch.start) & (batch.end != batch.new_end))
            if (np.minimum(moved.end, moved.new_end) == promised).any():
                return True
            promised = max(promised, batch.stable)
    return False


def assert_windows_revised(
    node: ApplyOperator, steps: list[dict[str, EventBatch]], *, ends: bool
) -> None:
    came = [batch for step in steps for batch in step.values()]
    assume(has_few_windows(node, came))
    assume(node.window.on_grid or not moves_a_settled_bound(steps))
    end = {"S": EventBatch.empty(SCHEMA, FOREVER)}
    assert_revised(node, [*steps, end, end] if ends else steps)


@given(nodes(SOURCE), broken_promises(S=SHORT), st.booleans())
def test_user_operators_are_told_of_late_events(
    node: ApplyOperator, steps: list[dict[str, EventBatch]], ends: bool
) -> None:
    assert_windows_revised(node, steps, ends=ends)


@given(nodes(POINTS), broken_promises(S=points(SCHEMA, insert_only=True)), st.booleans())
def test_user_operators_are_told_of_late_points(
    node: ApplyOperator, steps: list[dict[str, EventBatch]], ends: bool
) -> None:
    assert_windows_revised(node, steps, ends=ends)
