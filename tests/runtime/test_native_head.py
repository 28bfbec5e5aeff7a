"""What Spark does of a filter or projection that calls functions of users."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from sqlglot.errors import ParseError

import anabranch as ab
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.expressions.functions.every import FUNCTIONS
from anabranch.runtime.sources.spec import ArchiveSpec
from anabranch.runtime.spark.native_head import apart, push_down
from anabranch.runtime.spark.session_free import native_condition

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
    assert filtered("twice(price) > 3 AND 1 / item > 5 AND item > 1") == [
        "item > 1",
        "TWICE(price) > 3 AND 1 / item > 5",
    ]


def test_what_settings_of_a_session_may_change_stays_with_workers() -> None:
    assert filtered("item + 1 > 0 AND price > 3 AND 1 / item > 5 AND item = 1") == [
        "price > 3 AND item = 1",
        "item + 1 > 0 AND 1 / item > 5",
    ]
    columns = (("item", parse("item")), ("more", parse("item + 1")))
    node = Map(input=BIDS, columns=columns)
    assert apart(node) is node


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


def test_no_function_of_the_language_is_pushed_down() -> None:
    schema = pa.schema([("s", pa.string()), ("x", pa.float64()), ("b", pa.bool_())])
    for name in FUNCTIONS:
        for text in (f"{name}(s) = 's'", f"x > {name}(x)", f"{name}(b)", f"NOT b OR {name}(x, s)"):
            try:
                assert native_condition(text, schema) is None
            except ParseError:
                # Not how this one is called.
                continue


def test_a_comparison_of_different_types_is_not_pushed_down() -> None:
    names = ["i", "l", "x", "s", "d", "at", "clock", "f", "n"]
    types = [pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.date32()]
    types += [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.float32(), pa.decimal128(9, 2)]
    schema = pa.schema(list(zip(names, types)))
    for one in names:
        for other in names:
            native = native_condition(f"{one} < {other}", schema) is not None
            assert native == (one == other and one not in ("x", "f", "n"))
    for text in ("i = '1'", "s = 1", "at > '2026-01-01'", "d = 1", "f > 1.5", "n > 1.5", "1 = 1"):
        assert native_condition(text, schema) is None


def test_a_frame_with_an_archive_stays_whole() -> None:
    frame: Any = SimpleNamespace(archive=ArchiveSpec())
    plan = Map(
        input=Filter(input=BIDS, predicate=parse("price > 1")), columns=(("item", parse("item")),)
    )
    assert push_down([plan], {"bids": frame, "others": frame}) == ([plan], {"bids": frame})
