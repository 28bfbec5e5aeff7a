"""Queries that once were understood wrongly, found by drawing queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.errors import QueryError
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER
from anabranch.optimizer.driver import optimize
from anabranch.testing import PhysicalStream, assert_agrees, insert, meaning, stable
from anabranch.testing.oracle import sources_of
from anabranch.testing.sql.cases import SOURCES, plan_of

Rows = Sequence[tuple[Any, ...]]


def answer(query: str, **streams: Rows) -> LogicalStream:
    """What a query gives on rows that end with their start and their end, in all three ways."""
    node = plan_of(query)
    given = {
        name: PhysicalStream(
            SOURCES[name].schema,
            (*(insert(*row[:-2], start=row[-2], end=row[-1]) for row in rows), stable(FOREVER)),
        )
        for name, rows in {**dict.fromkeys(SOURCES, ()), **streams}.items()
    }
    meant = meaning(node, {name: stream.meaning() for name, stream in given.items()})
    best = optimize(node).node
    assert_agrees(best, *(given[source.name] for source in sources_of(best)))
    changed = meaning(best, {name: stream.meaning() for name, stream in given.items()})
    assert not meant.difference(changed)
    return meant


def snapshot(query: str, **streams: Rows) -> list[tuple[Any, ...]]:
    """The answer at instant 0, where all rows hold."""
    rows = {name: [(*row, 0, 1) for row in rows] for name, rows in streams.items()}
    return sorted(answer(query, **rows).snapshot(0).elements(), key=repr)


def test_percentile_cont_and_percentile_disc_are_two_aggregates() -> None:
    query = (
        "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) AS c, "
        "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY a) AS d FROM s"
    )
    assert snapshot(query, s=[("a", 1, None), ("a", 2, None)]) == [(1.5, 1)]


def test_a_percentile_with_frequencies_is_refused() -> None:
    with pytest.raises(QueryError, match="frequencies"):
        plan_of("SELECT PERCENTILE(a, 0.5, a) FROM s")


def test_a_stream_around_goes_before_the_own_name_of_a_stream_with_an_alias() -> None:
    query = "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM s AS t WHERE t.k = s.k AND t.a > s.a)"
    assert snapshot(query, s=[("a", 1, None), ("a", 2, None), ("b", 3, None)]) == [("a",)]


def test_a_nested_aggregate_may_be_connected_twice_by_one_column() -> None:
    query = "SELECT k FROM r WHERE b = (SELECT COUNT(*) FROM s WHERE s.a = r.a AND s.a = r.b)"
    rows = [("x", 1, 1), ("y", 1, 2), ("z", 2, 2)]
    assert snapshot(query, r=rows, s=[("a", 1, None), ("b", 2, None)]) == [("x",)]


@pytest.mark.parametrize(
    "nested",
    [
        "SELECT t.x FROM s t WHERE t.k = s.k ORDER BY t.a LIMIT 1",
        "SELECT t.x AS y FROM s t WHERE t.k = s.k ORDER BY y LIMIT 1",
        "SELECT t.x FROM s t WHERE t.k = s.k QUALIFY ROW_NUMBER() OVER (ORDER BY t.a) <= 1",
    ],
)
def test_the_first_rows_of_a_connected_query_are_refused(nested: str) -> None:
    with pytest.raises(QueryError, match="not supported in a correlated nested query"):
        plan_of(f"SELECT a FROM s WHERE x IN ({nested})")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a IN (SELECT b FROM r) AS c FROM s",
        "SELECT a FROM s WHERE COALESCE(a IN (SELECT b FROM r), TRUE)",
        "SELECT a FROM s WHERE (a IN (SELECT b FROM r)) IS NULL",
    ],
)
def test_in_with_a_query_is_no_value(query: str) -> None:
    with pytest.raises(QueryError, match="IN with a query cannot be used as a value"):
        plan_of(query)


def test_not_like_is_the_opposite_of_like() -> None:
    rows = [("a", 1, None), ("b", 2, None), (None, 3, None)]
    assert snapshot("SELECT a FROM s WHERE k NOT LIKE 'a%'", s=rows) == [(2,)]
    assert snapshot("SELECT a FROM s WHERE k NOT ILIKE 'A%'", s=rows) == [(2,)]
    assert snapshot("SELECT a FROM s WHERE NOT (k NOT LIKE 'a%')", s=rows) == [(1,)]


def test_the_order_names_columns_of_the_result_before_those_of_the_input() -> None:
    rows = [("x", 1, 2), ("y", 2, 1)]
    query = "SELECT a AS b, b AS a FROM r ORDER BY a, r.k LIMIT 1"
    assert snapshot(query, r=rows) == [(2, 1)]
    query = "SELECT k, MAX(b) AS a FROM r GROUP BY k ORDER BY a, MAX(a) LIMIT 1"
    assert snapshot(query, r=rows) == [("y", 1)]


def test_positions_in_the_order_stand_beside_columns_of_the_input() -> None:
    rows = [("x", 1, 2), ("y", 2, 2), ("z", 0, 3)]
    assert snapshot("SELECT k, a FROM r ORDER BY r.b, 2 DESC LIMIT 1", r=rows) == [("y", 2)]


def test_conditions_are_not_derived_for_what_lets_nothing_through() -> None:
    query = "SELECT k FROM (SELECT * FROM s WHERE FALSE) t JOIN p ON Name = k WHERE Name > 'a'"
    assert snapshot(query, s=[("b", 1, None)], p=[(1, "b")]) == []


def test_a_nested_query_among_the_columns_may_number_its_rows() -> None:
    query = (
        "SELECT k, (SELECT MAX(a) FROM (SELECT * FROM r QUALIFY ROW_NUMBER() OVER (ORDER BY a) <= 1"
        ") AS t) AS m FROM s"
    )
    assert snapshot(query, s=[("a", 1, None)], r=[("x", 3, 0), ("y", 2, 0)]) == [("a", 2)]


def test_on_does_not_see_the_query_around() -> None:
    query = "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM r JOIN p ON r.a = p.a AND r.b = s.a)"
    with pytest.raises(QueryError, match="ON cannot refer to a column of the outer query"):
        plan_of(query)
