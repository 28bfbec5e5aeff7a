"""With their revisions, answers are those over the corrected input, whatever came too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.runtime.revisions.choice import StrategyChoice
from anabranch.testing.physical import PhysicalStream
from anabranch.testing.strategies import points, streams
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA
from tests.revisions.histories import assert_revised, broken_promises

POINTS_ONLY = {"time window with bounds", "session window", "count window"}


def drawn(name: str, *, insert_only: bool) -> st.SearchStrategy[PhysicalStream]:
    if name in POINTS_ONLY:
        return points(SCHEMA, insert_only=insert_only)
    return streams(SCHEMA, insert_only=insert_only, longest=6 if name in SHORT else 40)


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_late_rows_are_revisions(name: str, data: st.DataObject) -> None:
    stream = drawn(name, insert_only=True)
    steps = data.draw(broken_promises(S=stream, T=stream))
    assert_revised(data.draw(OPERATORS[name]), steps)


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_late_adjusts_and_withdrawals_are_revisions(name: str, data: st.DataObject) -> None:
    stream = drawn(name, insert_only=False)
    steps = data.draw(broken_promises(S=stream, T=stream))
    assert_revised(data.draw(OPERATORS[name]), steps)


@pytest.mark.parametrize("name", ["aggregate", "distinct", "inner join", "count window"])
@given(data=st.data())
def test_final_answers_are_revised_too(name: str, data: st.DataObject) -> None:
    stream = drawn(name, insert_only=False)
    steps = data.draw(broken_promises(S=stream, T=stream))
    assert_revised(data.draw(OPERATORS[name]), steps, emit="final")


@pytest.mark.parametrize("strategy", ["auto", "RA", "RM"])
@given(data=st.data())
def test_every_strategy_gives_the_same(strategy: StrategyChoice, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(OPERATORS)))
    stream = drawn(name, insert_only=False)
    steps = data.draw(broken_promises(S=stream, T=stream))
    assert_revised(data.draw(OPERATORS[name]), steps, strategy=strategy)
