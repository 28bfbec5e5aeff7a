"""Rows that a filter drops need not be read again."""

from __future__ import annotations

import pyarrow as pa

from anabranch.algebra.analysis.filtered import passing_texts
from anabranch.algebra.filter import Filter
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration

SCHEMA = pa.schema([("symbol", pa.string()), ("n", pa.int64())])
QUOTES = Source(name="Quote", schema=SCHEMA)


def where(text: str) -> Filter:
    return Filter(input=QUOTES, predicate=Expression.parse(text, SCHEMA))


def test_equations_with_texts_restrict_a_source() -> None:
    assert passing_texts([where("symbol = 'IBM' AND n > 3")]) == {"Quote": {"symbol": {"IBM"}}}
    assert passing_texts([where("'IBM' = symbol")]) == {"Quote": {"symbol": {"IBM"}}}
    assert passing_texts([where("symbol IN ('IBM', 'SAP')")]) == {
        "Quote": {"symbol": {"IBM", "SAP"}}
    }
    over = Filter(
        input=where("symbol IN ('IBM', 'SAP')"), predicate=where("symbol = 'SAP'").predicate
    )
    assert passing_texts([over]) == {"Quote": {"symbol": {"SAP"}}}


def test_other_conditions_restrict_nothing() -> None:
    for text in (
        "symbol <> 'IBM'",
        "symbol = 'IBM' OR n = 1",
        "n = 3",
        "symbol > 'A'",
        "symbol = symbol",
    ):
        assert passing_texts([where(text)]) == {"Quote": {}}


def test_a_filter_above_something_else_restricts_nothing() -> None:
    window = TimeWindow(input=QUOTES, size=Duration(5))
    above = Filter(input=window, predicate=where("symbol = 'IBM'").predicate)
    assert passing_texts([above]) == {"Quote": {}}


def test_a_source_that_is_read_twice_has_the_texts_of_both() -> None:
    both = Union(inputs=(where("symbol = 'IBM'"), where("symbol = 'SAP'")))
    assert passing_texts([both]) == {"Quote": {"symbol": {"IBM", "SAP"}}}
    assert passing_texts([Union(inputs=(where("symbol = 'IBM'"), QUOTES))]) == {"Quote": {}}
    assert passing_texts([where("symbol = 'IBM'"), where("n = 3")]) == {"Quote": {}}
