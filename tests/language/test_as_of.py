"""ASOF JOIN and FOR SYSTEM_TIME AS OF find the version that DuckDB finds."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.algebra.explain import explain_tree
from anabranch.algebra.join import JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import PlanError, QueryError
from anabranch.expressions.expression import Expression
from anabranch.language.bind.select import bind_query
from anabranch.language.fragments.join import plan_asof_join
from anabranch.language.names.context import Context
from anabranch.language.text.script import Script
from anabranch.language.text.words import parse_query, tokenize
from anabranch.registry import Registry
from anabranch.testing import PhysicalStream, assert_agrees, insert, meaning, stable
from tests.language.streams import plan as plan_of_streams

TRADES = pa.schema([("sym", pa.string()), ("size", pa.int64()), ("at", pa.int64())])
QUOTES = pa.schema([("sym", pa.string()), ("price", pa.int64()), ("at", pa.int64())])

DUCKDB = duckdb.connect()
Rows = list[tuple[str | None, int, int]]
SYMBOLS = st.sampled_from(["a", "b", None])
TIMES = st.integers(0, 12)
ROWS = st.lists(st.tuples(SYMBOLS, st.integers(0, 5), TIMES), max_size=8)
# DuckDB takes any of several quotes of one instant.
SINGLE = st.lists(
    st.tuples(SYMBOLS, st.integers(0, 5), TIMES), max_size=8, unique_by=lambda row: (row[0], row[2])
)

CASES = {
    "ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at": "",
    "ASOF JOIN Quote q ON q.sym = t.sym AND q.at < t.at": "",
    "ASOF LEFT JOIN Quote q ON t.sym = q.sym AND t.at >= q.at": "",
    "ASOF LEFT JOIN Quote q ON t.sym = q.sym AND t.at > q.at": "",
    "ASOF JOIN Quote q USING (sym, at)": "ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at",
    "LEFT ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at": (
        "ASOF LEFT JOIN Quote q ON t.sym = q.sym AND t.at >= q.at"
    ),
    "JOIN Quote FOR SYSTEM_TIME AS OF t.at q ON t.sym = q.sym": (
        "ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at"
    ),
    "LEFT JOIN Quote q FOR SYSTEM_TIME AS OF t.at ON t.sym = q.sym": (
        "ASOF LEFT JOIN Quote q ON t.sym = q.sym AND t.at >= q.at"
    ),
    "JOIN Quote FOR SYSTEM_TIME AS OF t.at q ON t.sym = q.sym AND q.price > 2": (
        "ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at WHERE q.price > 2"
    ),
}
SELECT = "SELECT t.sym AS sym, t.size AS size, t.at AS at, q.price AS price FROM Trade t "


def plan(sql: str) -> Node:
    """A query over both streams."""
    names = Registry({})
    for name, schema in (("Trade", TRADES), ("Quote", QUOTES)):
        leaf = Source(name=name, schema=schema, insert_only=True, only_points=True)
        names.add_leaf(leaf, None, time="at")
    script = Script(sql)
    context = Context(script=script, catalog=names.catalog)
    return bind_query(parse_query(script, tokenize(script)[0]), context)


def stream(schema: pa.Schema, rows: Rows) -> PhysicalStream:
    """Points that come in any order."""
    moves = [insert(*row, start=row[2], end=row[2] + 1) for row in rows]
    return PhysicalStream(schema, (*moves, stable(20)))


def in_duckdb(sql: str, trades: Rows, quotes: Rows) -> Counter[tuple[object, ...]]:
    for name, schema, rows in (("Trade", TRADES, trades), ("Quote", QUOTES, quotes)):
        values = [dict(zip(schema.names, row)) for row in rows]
        DUCKDB.register(name, pa.Table.from_pylist(values, schema=schema))
    return Counter(DUCKDB.execute(sql).fetchall())


def rows_of(node: Node, trades: Rows, quotes: Rows) -> Counter[tuple[object, ...]]:
    given = {"Trade": stream(TRADES, trades).meaning(), "Quote": stream(QUOTES, quotes).meaning()}
    found: Counter[tuple[object, ...]] = Counter()
    for payload, start, end in meaning(node, given).events():
        assert end == start + 1
        assert payload[2] == start
        found[payload] += 1
    return found


@pytest.mark.parametrize("join", CASES)
@settings(max_examples=15)
@given(trades=ROWS, quotes=SINGLE, size=st.integers(1, 7))
def test_a_row_meets_the_latest_version_of_its_key(
    join: str, trades: Rows, quotes: Rows, size: int
) -> None:
    node = plan(SELECT + join)
    expected = in_duckdb(SELECT + (CASES[join] or join), trades, quotes)
    assert rows_of(node, trades, quotes) == expected
    assert_agrees(
        node, stream(TRADES, trades), stream(QUOTES, quotes), batch_size=size, emit="speculative"
    )


@given(trades=ROWS, quotes=ROWS)
def test_of_several_versions_at_one_instant_the_largest_counts(trades: Rows, quotes: Rows) -> None:
    join = "ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at"
    ordered = sorted(quotes, key=lambda row: (row[0] or "", row[2], row[1]))
    last = [
        row
        for row, after in pairwise([*ordered, (None, 0, -1)])
        if (row[0], row[2]) != (after[0], after[2])
    ]
    assert rows_of(plan(SELECT + join), trades, quotes) == in_duckdb(SELECT + join, trades, last)


def test_rows_of_a_join_can_be_joined_again() -> None:
    node = plan(
        "SELECT t.sym, t.size, t.at, q.price, r.price AS other FROM Trade t "
        "LEFT ASOF JOIN Quote q ON t.sym = q.sym AND t.at >= q.at "
        "ASOF JOIN Quote r ON t.at > r.at"
    )
    found = rows_of(node, [("a", 1, 5), ("b", 2, 3)], [("a", 7, 5), ("b", 8, 4)])
    assert found == Counter({("a", 1, 5, 7, 8): 1})


def test_a_nested_query_hands_its_time_on() -> None:
    node = plan(
        "SELECT x.sym, x.size, x.t, q.price "
        "FROM (SELECT sym, size, at AS t FROM Trade WHERE size > 1) x "
        "ASOF JOIN (SELECT at, sym, price FROM Quote WHERE price > 5) q "
        "ON x.sym = q.sym AND x.t >= q.at"
    )
    found = rows_of(
        node, [("a", 1, 5), ("a", 2, 6), ("a", 3, 9)], [("a", 7, 5), ("a", 2, 6), ("a", 9, 8)]
    )
    assert found == Counter({("a", 2, 6, 7): 1, ("a", 3, 9, 9): 1})


@settings(max_examples=15)
@given(trades=ROWS, quotes=ROWS, strict=st.booleans(), left=st.booleans())
def test_python_says_the_same(trades: Rows, quotes: Rows, strict: bool, left: bool) -> None:
    trade = Source(name="Trade", schema=TRADES, insert_only=True, only_points=True)
    quote = Source(name="Quote", schema=QUOTES, insert_only=True, only_points=True)
    kind: JoinKind = "left" if left else "inner"
    joined = plan_asof_join(trade, quote, "sym", kind, strict=strict, suffix="_quote")
    names = ["sym", "size", "at", "price"]
    kept = tuple((name, Expression.column(name, joined.schema)) for name in names)
    node = Map(input=joined, columns=kept)
    join = f"ASOF {'LEFT ' if left else ''}JOIN Quote q ON t.sym = q.sym AND t.at "
    sql = plan(f"{SELECT}{join} {'>' if strict else '>='} q.at")
    assert rows_of(node, trades, quotes) == rows_of(sql, trades, quotes)


def test_python_refuses_what_has_no_meaning() -> None:
    trade = Source(name="Trade", schema=TRADES, only_points=True)
    quote = Source(name="Quote", schema=QUOTES)
    with pytest.raises(PlanError, match="right side of asof_join hold for longer"):
        plan_asof_join(trade, quote, "sym", "inner", strict=False, suffix="_")
    with pytest.raises(PlanError, match="no asof_join of kind 'full'"):
        plan_asof_join(trade, trade, "sym", "full", strict=False, suffix="_")
    with pytest.raises(PlanError, match="no column 'price'"):
        plan_asof_join(trade, quote, ["price"], "inner", strict=False, suffix="_")


def test_a_relation_is_looked_up_as_it_is() -> None:
    node = plan_of_streams(
        "SELECT t.sym, p.city FROM Trade t "
        "JOIN Person FOR SYSTEM_TIME AS OF t.at p ON t.size = p.id"
    )
    assert "CountWindow" not in explain_tree(node)


@pytest.mark.parametrize(
    ("join", "what", "hint"),
    [
        ("ASOF JOIN Quote q ON t.sym = q.sym", "does not compare times", "t.at >= q.at"),
        ("ASOF JOIN Quote q ON t.sym = q.sym AND t.at <= q.at", "not ahead", "t.at >= q.at"),
        ("ASOF JOIN Quote q ON t.at >= q.at AND t.at > q.at", "times twice", "t.at >= q.at"),
        ("ASOF JOIN Quote q ON t.at >= q.at AND q.price > 5", "takes equations", "WHERE"),
        ("ASOF JOIN Quote q ON t.at >= q.at OR t.sym = q.sym", "does not compare", "t.at >= q.at"),
        ("ASOF RIGHT JOIN Quote q ON t.at >= q.at", "LEFT JOIN", "left side"),
        ("ASOF JOIN Quote q USING (sym)", "the last column of USING", "t.at >= q.at"),
        ("ASOF JOIN Quote q WINDOW(RANGE 5) ON t.at >= q.at", "one instant", "window out"),
        ("WINDOW(RANGE 5) ASOF JOIN Quote q ON t.at >= q.at", "hold for one instant", "result"),
        ("JOIN Quote FOR SYSTEM_TIME AS OF 5 q ON t.sym = q.sym", "time of the rows", "t.at"),
        ("JOIN Quote FOR SYSTEM_TIME AS OF t.size q ON t.sym = q.sym", "time of the", "t.at"),
        ("JOIN Quote FOR SYSTEM_TIME AS OF t.at q ON q.price > 5", "an equation", "o.key"),
        ("JOIN Quote VERSION AS OF 5 q ON t.sym = q.sym", "no version numbers", "SYSTEM_TIME"),
        (", Quote FOR SYSTEM_TIME AS OF t.at q", "is allowed only in a JOIN", "left side"),
    ],
)
def test_what_has_no_meaning_is_refused_with_the_rewrite(join: str, what: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        plan(f"SELECT t.sym FROM Trade t {join}")
    assert what in caught.value.what
    assert hint in caught.value.hint
    assert "line 1, column" in caught.value.where
