"""Tempting rewrites that are wrong: what shows it, and that they are not made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pytest

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration
from anabranch.optimizer.driver import optimize
from anabranch.testing import meaning
from tests.golden.test_book_tables import read as read_finite
from tests.optimizer.plans import compare, join, of, select, where, window

LETTERS: Final = pa.schema([("e", pa.string())])
A, B, C = (Source(name=name, schema=LETTERS) for name in "ABC")
PAIRS: Final = pa.schema([("k", pa.string()), ("p", pa.string())])
P, R = (Source(name=name, schema=PAIRS) for name in "PR")
FOREVER: Final = "9223372036854775807"


def read(text: str) -> LogicalStream:
    return read_finite(text.replace("∞", FOREVER))


def rows(over: Node, many: int, *by: str) -> CountWindow:
    groups = tuple((name, of(name, over)) for name in by)
    order = tuple(of(name, over) for name in over.schema.names)
    return CountWindow(input=over, rows=many, partition_by=groups, order_by=order)


def product(left: Node, right: Node) -> Join:
    return join("inner", left, select(right, ("f", "e")), None)


def distinct(over: Node) -> Distinct:
    return Distinct(input=over)


def union(*inputs: Node) -> Union:
    return Union(inputs=inputs)


def aggregated(over: Node, call: AggregateCall, *by: str) -> Aggregation:
    groups = tuple((name, of(name, over)) for name in by)
    return Aggregation(input=over, group_by=groups, aggregates=(("e", call),))


def count(over: Node) -> Aggregation:
    return aggregated(over, AggregateCall(function="count"))


def highest(over: Node, *by: str) -> Aggregation:
    return aggregated(over, AggregateCall(function="max", argument=of("e", over)), *by)


def minus(left: Node, right: Node) -> SetOperation:
    return compare("difference", left, right)


def common(left: Node, right: Node) -> SetOperation:
    return compare("intersection", left, right)


def constant(over: Node) -> Map:
    return select(over, ("e", "'x'"))


def zeroed(over: Node) -> Map:
    return select(over, ("k", "'0'"), "p")


SLIDING = TimeWindow(input=A, size=Duration(1), slide=Duration(2))


def by_key(over: Node, *names: str) -> Aggregation:
    groups = tuple((name, of(name, over)) for name in names)
    return Aggregation(
        input=over, group_by=groups, aggregates=(("n", AggregateCall(function="count")),)
    )


RIGHT = select(R, ("k2", "k"), ("x", "p"))
K23 = select(by_key(join("inner", P, RIGHT, "k = k2"), "k"), "k", "n")
K23_WRONG = select(join("inner", by_key(P, "k"), RIGHT, "k = k2"), "k", "n")

CASES: Final[Mapping[str, tuple[Node, Node, Mapping[str, str], str, str]]] = {
    "distinct above a window": (
        distinct(window(A, 2)),
        window(distinct(A), 2),
        {"A": "1 a · 2 a"},
        "a[1,4)",
        "a[1,4) a[2,3)",
    ),
    "a product above windows": (
        product(window(A, 2), window(B, 2)),
        window(product(A, B), 2),
        {"A": "1 a", "B": "2 b"},
        "(a,b)[2,3)",
        "",
    ),
    "a difference above windows": (
        minus(window(A, 2), window(B, 2)),
        window(minus(A, B), 2),
        {"A": "2 a", "B": "1 a"},
        "a[3,4)",
        "a[2,4)",
    ),
    "a count above a window": (
        count(window(A, 2)),
        window(count(A), 2),
        {"A": "1 a · 2 b"},
        "1[1,2) 2[2,3) 1[3,4)",
        "1[1,4) 1[2,3)",
    ),
    "a window above a window": (
        window(window(A, 2), 2),
        window(A, 3),
        {"A": "1 a"},
        "a[1,4) a[2,3)",
        "a[1,4)",
    ),
    "windows of two sizes": (
        union(window(A, 2), window(B, 3)),
        window(union(A, B), 3),
        {"A": "1 a", "B": "1 b"},
        "a[1,3) b[1,4)",
        "a[1,4) b[1,4)",
    ),
    "a filter above a count window": (
        where(rows(A, 1), "e = 'a'"),
        rows(where(A, "e = 'a'"), 1),
        {"A": "1 a · 2 b"},
        "a[1,2)",
        "a[1,∞)",
    ),
    "a union above count windows": (
        union(rows(A, 1), rows(B, 1)),
        rows(union(A, B), 1),
        {"A": "1 a", "B": "2 b"},
        "a[1,∞) b[2,∞)",
        "a[1,2) b[2,∞)",
    ),
    "a map that destroys the groups": (
        zeroed(rows(P, 1, "k")),
        rows(zeroed(P), 1, "k"),
        {"P": "(1,p)[1,2) (2,q)[2,3)"},
        "(0,p)[1,∞) (0,q)[2,∞)",
        "(0,p)[1,2) (0,q)[2,∞)",
    ),
    "a window of one instant that slides": (SLIDING, A, {"A": "2 a"}, "", "2 a"),
    "distinct above a difference": (
        distinct(minus(A, B)),
        minus(distinct(A), distinct(B)),
        {"A": "1 a×2", "B": "1 a"},
        "1 a",
        "",
    ),
    "a difference above a union": (
        minus(union(A, B), C),
        union(minus(A, C), minus(B, C)),
        {"A": "1 a", "B": "1 a", "C": "1 a"},
        "1 a",
        "",
    ),
    "a map above a difference": (
        constant(minus(A, B)),
        minus(constant(A), constant(B)),
        {"A": "1 a", "B": "1 b"},
        "1 x",
        "",
    ),
    "a map above distinct": (
        constant(distinct(A)),
        distinct(constant(A)),
        {"A": "1 a,b"},
        "1 x×2",
        "1 x",
    ),
    "distinct above a union": (
        distinct(union(A, B)),
        union(distinct(A), distinct(B)),
        {"A": "1 a", "B": "1 a"},
        "1 a",
        "1 a×2",
    ),
    "an intersection above a union": (
        common(union(A, B), C),
        union(common(A, C), common(B, C)),
        {"A": "1 a", "B": "1 a", "C": "1 a"},
        "1 a",
        "1 a×2",
    ),
    "OR as a union": (
        where(A, "e = 'a' OR e < 'b'"),
        union(where(A, "e = 'a'"), where(A, "e < 'b'")),
        {"A": "1 a"},
        "1 a",
        "1 a×2",
    ),
    "a filter above a scalar aggregate": (
        where(highest(A), "e = 'a'"),
        highest(where(A, "e = 'a'")),
        {"A": "1 a,b"},
        "",
        "1 a",
    ),
    "COUNT of distinct rows": (count(A), count(distinct(A)), {"A": "1 a×2"}, "1 2", "1 1"),
    "K23 without the key": (
        K23,
        K23_WRONG,
        {"P": "(1,p)[1,2)", "R": "(1,r)[1,2) (1,s)[1,2)"},
        "(1,2)[1,2)",
        "(1,1)[1,2) (1,1)[1,2)",
    ),
}


def streams(given: Mapping[str, str], plan: Node) -> dict[str, LogicalStream]:
    """Numbers in the columns of letters are letters."""
    sources = {node.name for node in plan.walk() if isinstance(node, Source)}
    return {name: _texts(read(given.get(name, ""))) for name in sources}


def _texts(stream: LogicalStream) -> LogicalStream:
    return stream.map(lambda payload: tuple(map(str, payload)))


def shown(stream: LogicalStream) -> LogicalStream:
    return stream.map(lambda payload: tuple(map(str, payload)))


@pytest.mark.parametrize("name", sorted(CASES))
def test_both_sides_differ(name: str) -> None:
    left, right, given, first, other = CASES[name]
    assert shown(meaning(left, streams(given, left))) == shown(read(first))
    assert shown(meaning(right, streams(given, right))) == shown(read(other))
    assert first != other


@pytest.mark.parametrize("name", sorted(CASES))
def test_neither_side_becomes_the_other(name: str) -> None:
    left, right, given, _, _ = CASES[name]
    for plan, wrong in ((left, right), (right, left)):
        found = optimize(plan).node
        assert found != wrong
        assert found != optimize(wrong).node
        assert meaning(found, streams(given, plan)) == meaning(plan, streams(given, plan))


def test_filters_over_one_another_are_no_union() -> None:
    both = Filter(input=A, predicate=Expression.parse("e = 'a' AND e < 'b'", LETTERS))
    assert optimize(where(where(A, "e = 'a'"), "e < 'b'")).node == both
