"""What Spark does of a filter or projection that calls functions of users."""

from __future__ import annotations

import pyarrow as pa

import anabranch as ab
from anabranch.algebra.expression import Expression
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.source import Source
from anabranch.runtime.native_head import apart

BIDS = Source(name="bids", schema=pa.schema([("item", pa.int64()), ("price", pa.float64())]))


@ab.udf
def twice(x: float) -> float:
    return 2 * x


def parse(text: str) -> Expression:
    if "soundex" in text:
        return Expression.parse(text, BIDS.schema, lambda *_: pa.string(), [twice])
    return Expression.parse(text, BIDS.schema, functions=[twice])


def filtered(text: str) -> list[str]:
    node = apart(Filter(input=BIDS, predicate=parse(text)))
    below = [node.input.predicate.sql] if isinstance(node.input, Filter) else []
    assert isinstance(node, Filter)
    return [*below, node.predicate.sql]


def test_conditions_without_functions_are_applied_first() -> None:
    assert filtered("price > 1 AND twice(price) > 3 AND item < 5") == [
        "price > 1 AND item < 5",
        "TWICE(price) > 3",
    ]


def test_a_condition_that_a_function_may_guard_stays_behind_it() -> None:
    assert filtered("item + 1 > 0 AND twice(price) > 3 AND 1 / item > 5") == [
        "item + 1 > 0",
        "TWICE(price) > 3 AND 1 / item > 5",
    ]


def test_a_condition_that_is_a_call_stays_whole() -> None:
    assert filtered("twice(price) > 3 OR item = 1") == ["TWICE(price) > 3 OR item = 1"]


def test_columns_without_functions_are_computed_below() -> None:
    columns = {
        "item": "item",
        "code": "soundex(string(item))",
        "price": "twice(price)",
        "both": "item + 1",
    }
    node = apart(Map(input=BIDS, columns=tuple((n, parse(text)) for n, text in columns.items())))
    assert isinstance(node, Map)
    assert isinstance(node.input, Map)
    assert node.schema.names == list(columns)
    below = [(name, part.sql) for name, part in node.input.columns]
    assert below == [
        ("item", "item"),
        ("price", "price"),
        ("code_by_spark", "SOUNDEX(STRING(item))"),
        ("both_by_spark", "item + 1"),
    ]
    assert [part.sql for _, part in node.columns] == [
        "item",
        "code_by_spark",
        "TWICE(price)",
        "both_by_spark",
    ]
