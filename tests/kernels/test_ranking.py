"""Numbers of rows and their neighbours in every snapshot, whatever comes and goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.node import Node
from anabranch.algebra.ranking import FUNCTIONS, NEIGHBOURS, RankCall, RankFunction, Ranking
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration
from anabranch.testing import (
    Element,
    PhysicalStream,
    assert_agrees,
    batchings,
    insert,
    stable,
    streams,
)
from tests.kernels.busy import busy_streams
from tests.kernels.plans import SCHEMA, SOURCE, groups


@pytest.fixture(autouse=True, params=[0, runs.MERGE_ALL_UP_TO_ROWS])
def eagerness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From how many rows on runs stay apart."""
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", request.param)


def of(text: str) -> Expression:
    return Expression.parse(text, SCHEMA)


@st.composite
def calls(draw: st.DrawFn) -> RankCall:
    function: RankFunction = draw(st.sampled_from(FUNCTIONS))
    if function not in NEIGHBOURS:
        return RankCall(function=function)
    default = draw(st.sampled_from([None, of("k")]))
    argument = of("k") if default is not None else of(draw(st.sampled_from(["v", "x", "k"])))
    offset = draw(st.integers(0, 3))
    return RankCall(function=function, argument=argument, offset=offset, default=default)


@st.composite
def rankings(draw: st.DrawFn, over: Node = SOURCE) -> Ranking:
    made = draw(st.lists(calls(), min_size=1, max_size=3))
    names = draw(st.sampled_from([(), ("k",), ("k", "v")]))
    orders = draw(
        st.lists(
            st.tuples(st.sampled_from(["k", "v", "x", "v % 2"]), st.booleans(), st.booleans()),
            min_size=1,
            max_size=2,
        )
    )
    return Ranking(
        input=over,
        columns=tuple((f"c{number}", call) for number, call in enumerate(made)),
        order_by=tuple((of(text), down, nulls) for text, down, nulls in orders),
        partition_by=groups(over, *names),
    )


@given(rankings(), streams(SCHEMA).flatmap(batchings))
def test_positions_are_those_of_every_snapshot(node: Ranking, batches: list[EventBatch]) -> None:
    assert_agrees(node, batches)


@given(rankings(), busy_streams())
def test_many_rows_at_once(node: Ranking, batches: list[EventBatch]) -> None:
    assert_agrees(node, batches)


@given(st.data(), streams(SCHEMA, only_points=True).flatmap(batchings))
def test_behind_windows(data: st.DataObject, batches: list[EventBatch]) -> None:
    size = data.draw(st.sampled_from([Duration(3), UNBOUNDED]))
    node = data.draw(rankings(TimeWindow(input=SOURCE, size=size)))
    assert_agrees(node, batches)


def test_rows_that_are_equal_in_the_order_share_a_rank() -> None:
    names: list[RankFunction] = ["row_number", "rank", "dense_rank"]
    node = Ranking(
        input=SOURCE,
        columns=tuple((name, RankCall(function=name)) for name in names),
        order_by=((of("v"), False, True),),
    )
    elements: tuple[Element, ...] = (
        *(insert(key, value, None, start=1, end=9) for key, value in zip("abc", (5, 5, 7))),
        stable(20),
    )
    stream = PhysicalStream(SCHEMA, elements)
    assert_agrees(node, stream, batch_size=1)
    found = node.denote(stream.meaning()).snapshot(4)
    assert sorted(payload[0:1] + payload[3:] for payload in found) == [
        ("a", 1, 1, 1),
        ("b", 2, 1, 1),
        ("c", 3, 3, 2),
    ]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: RankCall(function="lag"), "needs an argument"),
        (lambda: RankCall(function="rank", argument=of("k")), "takes no argument"),
        (lambda: RankCall(function="lead", argument=of("k"), offset=-1), "cannot look -1 rows"),
        (lambda: RankCall(function="lag", argument=of("k"), default=of("v")), "cast one"),
        (
            lambda: Ranking(input=SOURCE, columns=(("n", RankCall(function="rank")),), order_by=()),
            "need an order",
        ),
    ],
)
def test_what_is_wrong_is_said(make: Callable[[], object], what: str) -> None:
    with pytest.raises(PlanError, match=what):
        make()
