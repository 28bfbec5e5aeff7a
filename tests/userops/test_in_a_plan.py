"""Declared modules answer for the windows of a plan."""

from __future__ import annotations

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import tumbling
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration
from anabranch.userops.library import default_library

BIDS = Source(name="Bid", schema=pa.schema([("item", pa.string()), ("price", pa.int32())]))
EVENTS = [(("a", 3), 0, 12), (("b", 5), 2, 4), (("a", 9), 11, 13), (("a", None), 25, 26)]
LIBRARY = default_library()


def call(name: str, *columns: str, **parameters: object) -> Call:
    arguments = tuple(Expression.parse(column, BIDS.schema) for column in columns)
    module = LIBRARY[name].bind([each.type for each in arguments], (), parameters)
    return Call(module, arguments, tuple(module.gives.names))


def test_aggregates_of_all_shapes_answer_side_by_side() -> None:
    node = ApplyOperator.over(
        BIDS,
        window=tumbling(Duration(10)),
        calls=(
            call("mean", "price"),
            call("quantile", "price", q=1.0),
            call("mean_arrow", "price"),
            call("time_weighted_mean", "price"),
        ),
        group_by=(("item", Expression.parse("item", BIDS.schema)),),
    )
    assert sorted(node.apply(EVENTS), key=repr) == [
        (("a", 3.0, 3.0, 3.0, 3.0), 0, 10),
        (("a", 6.0, 9.0, 6.0, 2.4), 10, 20),
        (("a", None, None, None, 0.0), 20, 30),
        (("b", 5.0, 5.0, 5.0, 1.0), 0, 10),
    ]


def test_operators_give_rows_and_lifetimes() -> None:
    best = ApplyOperator.over(
        BIDS, window=tumbling(Duration(10)), calls=(call("best", "item", "price", k=1),)
    )
    assert best.apply(EVENTS) == [((1, "b", 5.0), 0, 10), ((1, "a", 9.0), 10, 20)]
    pattern = ApplyOperator.over(
        BIDS,
        window=tumbling(Duration(10)),
        calls=(call("followed_by", "item", first="a", then="b"),),
        timestamps="unchanged",
    )
    assert pattern.apply(EVENTS) == [((2,), 2, 4)]


def test_a_module_that_fails_is_named_with_its_window() -> None:
    @ab.uda
    def picky(prices: list[float]) -> float:
        raise ValueError("no thanks")

    price = Expression.parse("price", BIDS.schema)
    node = ApplyOperator.over(
        BIDS,
        window=tumbling(Duration(10)),
        calls=(Call(picky.bind([price.type]), (price,), ("picky",)),),
    )
    with pytest.raises(ab.OperatorError, match=r"picky raised ValueError: no thanks\n.*\[0, 10\)"):
        node.apply(EVENTS)
