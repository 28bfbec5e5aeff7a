"""Worked tables: percentiles, texts, first rows, and a sum that never shows a false alarm."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.top_k import TopK
from anabranch.expressions.expression import Expression
from anabranch.language.text.aggregate_text import parse_aggregate
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER
from anabranch.testing import (
    PhysicalStream,
    adjust,
    assert_agrees,
    elements_of,
    insert,
    meaning,
    stable,
)

SCHEMA = pa.schema([("name", pa.string()), ("value", pa.int64())])
S = Source(name="S", schema=SCHEMA)

# name, value, start, end
ROWS = [("a", 10, 0, 10), ("b", 20, 4, 12), ("c", 40, 4, 6), ("d", 5, 15, 18), ("b", 20, 5, 9)]


def aggregate(*texts: str) -> Aggregation:
    calls = tuple((f"r{i}", parse_aggregate(text, SCHEMA)) for i, text in enumerate(texts))
    return Aggregation(input=S, aggregates=calls)


def top(k: int, by: tuple[str, ...] = ()) -> TopK:
    order = ((Expression.parse("value", SCHEMA), True, False),)
    keys = tuple((name, Expression.parse(name, SCHEMA)) for name in by)
    return TopK(input=S, k=k, order_by=order, partition_by=keys)


Table = list[tuple[tuple[Any, ...], int, int]]
TABLES: dict[str, tuple[Node, Table]] = {
    "median": (
        aggregate("MEDIAN(value)"),
        [
            ((10.0,), 0, 4),
            ((20.0,), 4, 9),
            ((15.0,), 9, 10),
            ((20.0,), 10, 12),
            ((5.0,), 15, 18),
        ],
    ),
    "percentiles": (
        aggregate("PERCENTILE(value, 0.25)", "PERCENTILE_DISC(value, 0.25)", "COUNT(*)"),
        [
            ((10.0, 10, 1), 0, 4),
            ((15.0, 10, 3), 4, 5),
            ((17.5, 10, 4), 5, 6),
            ((15.0, 10, 3), 6, 9),
            ((12.5, 10, 2), 9, 10),
            ((20.0, 20, 1), 10, 12),
            ((5.0, 5, 1), 15, 18),
        ],
    ),
    "texts": (
        aggregate("STRING_AGG(name, '+')", "STRING_AGG(DISTINCT name, '')", "MAX(value)"),
        [
            (("a", "a", 10), 0, 4),
            (("a+b+c", "abc", 40), 4, 5),
            (("a+b+b+c", "abc", 40), 5, 6),
            (("a+b+b", "ab", 20), 6, 9),
            (("a+b", "ab", 20), 9, 10),
            (("b", "b", 20), 10, 12),
            (("d", "d", 5), 15, 18),
        ],
    ),
    "sums of distinct values": (
        aggregate("SUM(DISTINCT value)", "AVG(DISTINCT value)", "SUM(value)"),
        [
            ((10, 10.0, 10), 0, 4),
            ((70, 70 / 3, 70), 4, 5),
            ((70, 70 / 3, 90), 5, 6),
            ((30, 15.0, 50), 6, 9),
            ((30, 15.0, 30), 9, 10),
            ((20, 20.0, 20), 10, 12),
            ((5, 5.0, 5), 15, 18),
        ],
    ),
    "the first two": (
        top(2),
        [
            (("a", 10), 0, 4),
            (("b", 20), 4, 12),
            (("c", 40), 4, 6),
            (("b", 20), 6, 9),
            (("a", 10), 9, 10),
            (("d", 5), 15, 18),
        ],
    ),
    "the first of every name": (
        top(1, by=("name",)),
        [
            (("a", 10), 0, 10),
            (("b", 20), 4, 12),
            (("c", 40), 4, 6),
            (("d", 5), 15, 18),
        ],
    ),
}


def stream(*, backwards: bool = False) -> PhysicalStream:
    rows = [insert(name, value, start=start, end=end) for name, value, start, end in ROWS]
    return PhysicalStream(SCHEMA, (*(rows[::-1] if backwards else rows), stable(FOREVER)))


@pytest.mark.parametrize("table", TABLES)
def test_nodes_mean_what_the_tables_say(table: str) -> None:
    node, expected = TABLES[table]
    found = meaning(node, {"S": stream().meaning()})
    assert found.difference(LogicalStream.of(expected)) == ""


@pytest.mark.parametrize("emit", ["speculative", "final"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("table", TABLES)
def test_kernels_do_what_the_tables_say(table: str, size: int, backwards: bool, emit: Any) -> None:
    node, expected = TABLES[table]
    left = assert_agrees(node, stream(backwards=backwards), batch_size=size, emit=emit)
    assert LogicalStream.of_batches(left).difference(LogicalStream.of(expected)) == ""


ALARM = [insert("x", 2, start=0, end=4), insert("x", 7, start=4, end=8)]


@pytest.mark.parametrize("elements", [ALARM, ALARM[::-1]], ids=["in order", "late"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_sum_never_shows_what_holds_at_no_instant(elements: list[Any], size: int) -> None:
    """What ends at an instant and what begins there are never added up (Kraemer 2007, 14.1)."""
    node = aggregate("SUM(value)", "MEDIAN(value)", "STRING_AGG(name, '')")
    came = PhysicalStream(SCHEMA, (*elements, stable(FOREVER)))
    left = assert_agrees(node, came, batch_size=size)
    shown = {move.payload for batch in left for move in elements_of(batch)}
    assert shown == {(2, 2.0, "x"), (7, 7.0, "x")}
    assert LogicalStream.of_batches(left) == LogicalStream.of(
        [((2, 2.0, "x"), 0, 4), ((7, 7.0, "x"), 4, 8)]
    )
    alarm = Filter(input=node, predicate=Expression.parse("r0 > 8", node.schema))
    assert all(len(batch) == 0 for batch in assert_agrees(alarm, came, batch_size=size))


def test_an_end_that_is_told_in_time_raises_no_alarm_either() -> None:
    """Open ends that are closed later show the sum of both only while both are thought to hold."""
    node = aggregate("SUM(value)")
    came = PhysicalStream(
        SCHEMA,
        (
            insert("x", 2, start=0),
            stable(0),
            adjust("x", 2, start=0, end=FOREVER, new_end=4),
            insert("x", 7, start=4),
            stable(4),
            adjust("x", 7, start=4, end=FOREVER, new_end=8),
            stable(FOREVER),
        ),
    )
    left = assert_agrees(node, came.batches(2, 5))
    assert {move.payload for batch in left for move in elements_of(batch)} == {(2,), (7,)}
