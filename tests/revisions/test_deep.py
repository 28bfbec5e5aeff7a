"""Long fuzzing: a hundred thousand histories with late rows, over operators and composed plans."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anabranch.kernels.plan.compile import Emission
from anabranch.testing.physical import PhysicalStream
from anabranch.testing.strategies import points, streams
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_apply_operator import POINTS, nodes
from tests.revisions.composed import composed
from tests.revisions.histories import WAYS, assert_revised, broken_promises
from tests.revisions.test_composed import assert_windows_revised
from tests.revisions.test_in_process import POINTS_ONLY

CASES = int(os.environ.get("ANABRANCH_CASES", "102000"))
PIECES = 20
"""Of the cases, half are for single operators and half for composed plans; a tenth of that more for
operators of users.
"""

DEEP = settings(
    max_examples=max(CASES // (2 * len(OPERATORS)), 1),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


def drawn(name: str, *, insert_only: bool) -> st.SearchStrategy[PhysicalStream]:
    if name in POINTS_ONLY:
        return points(SCHEMA, insert_only=insert_only)
    longest = 6 if name in SHORT else 40
    return streams(SCHEMA, insert_only=insert_only, longest=longest, max_size=10)


@pytest.mark.deep
@pytest.mark.parametrize("name", OPERATORS)
@DEEP
@given(data=st.data())
def test_late_rows_are_revisions_of_an_operator(name: str, data: st.DataObject) -> None:
    stream = drawn(name, insert_only=data.draw(st.booleans()))
    steps = data.draw(broken_promises(S=stream, T=stream))
    emit: Emission = data.draw(st.sampled_from(["speculative", "speculative", "final"]))
    assert_revised(
        data.draw(OPERATORS[name]),
        steps,
        emit=emit,
        **data.draw(WAYS),
    )


@pytest.mark.deep
@pytest.mark.parametrize("piece", range(PIECES))
@settings(DEEP, max_examples=max(CASES // (2 * PIECES), 1))
@given(data=st.data())
def test_late_rows_are_revisions_of_composed_plans(piece: int, data: st.DataObject) -> None:
    del piece  # each draws its own
    stream = streams(SCHEMA, longest=6, max_size=8)
    steps = data.draw(broken_promises(S=stream, T=stream))
    emit: Emission = data.draw(st.sampled_from(["speculative", "speculative", "final"]))
    assert_revised(
        data.draw(composed()),
        steps,
        emit=emit,
        **data.draw(WAYS),
    )


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["events", "points"])
@settings(DEEP, max_examples=max(CASES // 20, 1))
@given(data=st.data())
def test_late_rows_are_revisions_of_user_operators(kind: str, data: st.DataObject) -> None:
    stream = points(SCHEMA) if kind == "points" else streams(SCHEMA, longest=6, max_size=8)
    node = data.draw(nodes(POINTS if kind == "points" else SOURCE))
    steps = data.draw(broken_promises(S=stream))
    assert_windows_revised(
        node,
        steps,
        ends=data.draw(st.booleans()),
        **data.draw(WAYS),
    )
