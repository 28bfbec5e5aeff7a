"""With their revisions, answers are those over the corrected input, whatever came too late."""

from __future__ import annotations

from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.source import Source
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Element, Insert, Stable, batch_of
from anabranch.runtime.revisions.choice import StrategyChoice
from anabranch.testing.physical import PhysicalStream
from anabranch.testing.strategies import points, streams
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA
from tests.revisions.histories import WAYS, assert_revised, broken_promises

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
    assert_revised(data.draw(OPERATORS[name]), steps, **data.draw(WAYS))


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


LEFT = Source(name="S", schema=pa.schema([("a", pa.int64())]))
RIGHT = Source(name="T", schema=pa.schema([("b", pa.int64())]))


def left(*elements: Element) -> dict[str, EventBatch]:
    return {"S": batch_of(list(elements), LEFT.schema)}


def right(*elements: Element) -> dict[str, EventBatch]:
    return {"T": batch_of(list(elements), RIGHT.schema)}


@pytest.mark.parametrize("kind", get_args(JoinKind))
@pytest.mark.parametrize("order", ["together", "left first", "right first"])
def test_late_rows_of_two_sources_meet(kind: JoinKind, order: str) -> None:
    """One is replayed up to 28, the other one only up to 10: in between it has entered."""
    one, other = left(Insert((1,), 14, 50)), right(Insert((2,), 5, 28))
    late = {
        "together": [{**one, **other}],
        "left first": [one, other],
        "right first": [other, one],
    }
    steps = [
        {**left(Stable(28)), **right(Stable(10))},
        *late[order],
        {**left(Stable(60)), **right(Stable(60))},
        right(Stable(60)),
    ]
    assert_revised(Join(kind=kind, left=LEFT, right=RIGHT, predicate=None), steps)
