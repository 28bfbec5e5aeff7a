"""Windows of the time axis and modules in queries."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
    tumbling,
)
from anabranch.algebra.node import Node
from anabranch.algebra.top_k import TopK
from anabranch.errors import AnabranchError
from anabranch.expressions.expression import Expression
from anabranch.language.bind.select import bind_query
from anabranch.language.names.context import Context
from anabranch.language.text.statements import CreateFunction, Select, Show
from anabranch.model.time import Duration
from anabranch.reading import read_statements
from tests.language.modules import FOLLOWED_BY, MEDIAN, QUANTILE
from tests.language.streams import SOURCES, plan, registry

BID, SENSOR = SOURCES[0], SOURCES[3]
MINUTE = 60_000_000


def node_of(text: str) -> ApplyOperator:
    """The only node of windows in a query."""
    (found,) = [each for each in plan(text).walk() if isinstance(each, ApplyOperator)]
    return found


def column(name: str, over: Node = BID) -> Expression:
    return Expression.column(name, over.schema)


def said(text: str) -> str:
    with pytest.raises(AnabranchError) as caught:
        plan(text)
    return str(caught.value)


def test_a_window_in_group_by_lets_modules_answer() -> None:
    found = plan(
        "SELECT itemID, median(bid_price) FROM Bid GROUP BY itemID, HOPPING(10 MINUTES, 1 MINUTE)"
    )
    assert isinstance(found, Map)
    assert found.schema.names == ["itemID", "median(bid_price)"]
    module = MEDIAN.bind([column("bid_price").type], [], {})
    assert found.input == ApplyOperator(
        input=BID,
        window=Hopping(Duration(10 * MINUTE), Duration(MINUTE)),
        calls=(Call(module, (column("bid_price"),), ("median",)),),
        group_by=(("itemID", column("itemID")),),
    )


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("TUMBLING(5 MICROSECONDS)", tumbling(Duration(5))),
        ("tumbling(5 MINUTES, OFFSET 1 MINUTE)", tumbling(Duration(5 * MINUTE), MINUTE)),
        ("TUMBLING('5 us', offset => -2 MICROSECONDS)", tumbling(Duration(5), -2)),
        ("HOPPING(INTERVAL '10' MINUTE, '1 minute', OFFSET 0)", None),
        ("HOPPING('10 us', '2 us', OFFSET '1 us')", Hopping(Duration(10), Duration(2), 1)),
        ("SNAPSHOT()", Snapshot()),
        ("COUNTING(3)", CountByStart(3)),
        ("COUNTING(3, BY START)", CountByStart(3)),
        ("COUNTING(3, BY END)", CountByEnd(3)),
        ("SESSION(5 SECONDS)", Session(Duration(5_000_000))),
    ],
)
def test_all_windows_can_be_written(text: str, window: AxisWindow | None) -> None:
    wanted = window or Hopping(Duration(10 * MINUTE), Duration(MINUTE))
    assert node_of(f"SELECT held(bid_price) FROM Bid GROUP BY {text}").window == wanted


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(-(10**9), 10**9))
def test_any_sizes_are_read_as_they_are_written(size: int, hop: int, offset: int) -> None:
    sizes = f"{size} MICROSECONDS, {hop} MICROSECONDS, OFFSET {offset} MICROSECONDS"
    text = f"SELECT COUNT(*) FROM Bid GROUP BY HOPPING({sizes})"
    assert node_of(text).window == Hopping(Duration(size), Duration(hop), offset)


def test_options_stand_in_the_window() -> None:
    node = node_of(
        "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('5d', clip => 'full', empty => true, "
        "open_windows => TRUE, errors => skip)"
    )
    assert (node.clip, node.empty, node.open_windows, node.errors) == ("full", True, True, "skip")
    node = node_of(
        "SELECT * FROM followed_by(sensor, place, TUMBLING('5d', timestamps => clip, clip => left))"
    )
    assert (node.timestamps, node.clip) == ("clip", "left")


def test_all_aggregates_of_a_query_are_calls_of_one_node() -> None:
    text = """
        SELECT 1 + median(bid_price) AS middle, MEDIAN(bid_price) AS same,
               quantile(bid_price, 0.9) AS high, COUNT(*) AS bids,
               MAX(bid_price) FILTER (WHERE bidderID > 3) AS top
        FROM Bid GROUP BY itemID, TUMBLING('5d')
        HAVING quantile(bid_price, q => 0.1) > 3 AND bids > 1
    """
    node = node_of(text)
    assert [call.names for call in node.calls] == [
        ("median",),
        ("quantile",),
        ("count",),
        ("max",),
        ("quantile_2",),
    ]
    assert [each.sql for call in node.calls for each in call.arguments] == [
        "bid_price",
        "bid_price",
        "CASE WHEN bidderID > 3 THEN bid_price END",
        "bid_price",
    ]
    assert plan(text).schema.names == ["middle", "same", "high", "bids", "top"]


def test_parameters_may_be_named_or_not() -> None:
    texts = (
        "quantile(bid_price, 0.9)",
        "QUANTILE(bid_price, q => 0.9)",
        "quantile(bid_price, Q => 0.9)",
    )
    found = {
        node_of(f"SELECT {text} AS x FROM Bid GROUP BY TUMBLING('5d')").calls for text in texts
    }
    bound = QUANTILE.bind([column("bid_price").type], [0.9], {})
    assert found == {(Call(bound, (column("bid_price"),), ("quantile",)),)}


def test_a_parameter_may_be_called_like_a_clause() -> None:
    message = said("SELECT quantile(bid_price, limit => 3) FROM Bid GROUP BY TUMBLING('5d')")
    assert "quantile has no parameter 'limit'" in message


def test_arguments_are_any_expressions_also_of_functions() -> None:
    node = node_of(
        "CREATE FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN x * 2;"
        "SELECT median(twice(b.bid_price) + 1) FROM Bid b GROUP BY TUMBLING('5d')"
    )
    assert node.calls[0].arguments[0].columns == {"bid_price"}


def test_the_bounds_of_windows_are_columns_where_they_are_used() -> None:
    text = "SELECT {} median(bid_price) AS m FROM Bid GROUP BY TUMBLING('5d') {}"
    assert node_of(text.format("", "")).columns is None
    for changed in (
        text.format("window_start,", ""),
        text.format("", "HAVING window_end > TIMESTAMP '2026-01-01'"),
        text.format("", "ORDER BY window_start DESC LIMIT 3"),
    ):
        assert node_of(changed).columns == ("window_start", "window_end"), changed
    found = plan(text.format("window_start, window_end AS till,", ""))
    assert found.schema.names == ["window_start", "till", "m"]


def test_bounds_need_not_be_grouped_by_and_may_be() -> None:
    wanted = "SELECT itemID, window_start, median(bid_price) AS m FROM Bid GROUP BY {}"
    found = [
        plan(wanted.format(keys))
        for keys in (
            "itemID, TUMBLING('5d')",
            "itemID, window_start, window_end, TUMBLING('5d')",
            "1, 2, TUMBLING('5d')",
            "ALL, TUMBLING('5d')",
        )
    ]
    assert all(each == found[0] for each in found)


def test_columns_of_the_stream_go_before_bounds() -> None:
    node = node_of(
        "SELECT window_start, median(bid_price) FROM TUMBLE(Bid, '5d') "
        "GROUP BY window_start, TUMBLING('5d')"
    )
    assert node.columns is None


def test_without_aggregates_it_is_asked_which_groups_there_are() -> None:
    node = node_of("SELECT itemID FROM Bid GROUP BY itemID, SESSION('5d')")
    assert [call.operator.name for call in node.calls] == ["count"]


def test_windows_say_what_their_definition_says() -> None:
    node = node_of(
        "SELECT median(bid_price) AS m, COUNT(*) AS n, window_start "
        "FROM Bid GROUP BY itemID, TUMBLING('10 us')"
    )
    events = [((1, 5.0, 0), 3, 4), ((1, 7.0, 0), 5, 6), ((2, 1.0, 0), 12, 13)]
    answers = [(payload[0], payload[-2:], start) for payload, start, _ in node.apply(events)]
    assert answers == [(1, (6.0, 2), 0), (2, (1.0, 1), 10)]


def test_rows_of_windows_can_be_ordered_and_bounded() -> None:
    found = plan(
        "SELECT itemID, median(bid_price) AS m FROM Bid GROUP BY itemID, TUMBLING('5d') "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY itemID ORDER BY median(bid_price) DESC) <= 3"
    )
    assert isinstance(found, Map)
    assert isinstance(found.input, TopK)
    assert isinstance(found.input.input, ApplyOperator)


def test_a_rank_in_a_nested_query_is_over_windows() -> None:
    found = plan(
        "SELECT * FROM (SELECT itemID, median(bid_price) AS m, ROW_NUMBER() OVER (PARTITION BY "
        "itemID ORDER BY median(bid_price), window_start) AS n FROM Bid "
        "GROUP BY itemID, TUMBLING('5d')) WHERE n <= 2"
    )
    (top,) = [each for each in found.walk() if isinstance(each, TopK)]
    assert isinstance(top.input, ApplyOperator)
    assert top.input.columns is not None


def test_nested_queries_have_windows_of_their_own() -> None:
    node = node_of(
        "SELECT itemID FROM Bid WHERE bid_price > (SELECT median(start_price) FROM OpenAuction o "
        "WHERE o.itemID = Bid.itemID GROUP BY TUMBLING('5d'))"
    )
    assert [name for name, _ in node.group_by] == ["key_1"]


def test_a_query_can_be_bound_again() -> None:
    text = "SELECT median(bid_price) AS m, window_end FROM Bid GROUP BY itemID, TUMBLING('5d')"
    (statement,) = read_statements(text)
    assert isinstance(statement, Select)
    context = Context(script=statement.script, catalog=registry().catalog)
    once = bind_query(statement.query, context)
    assert bind_query(statement.query, context) == once


def test_without_a_window_a_built_in_keeps_its_name() -> None:
    shown = plan("SELECT MEDIAN(bid_price) AS m FROM Bid WINDOW(RANGE '5d')")
    assert not any(isinstance(each, ApplyOperator) for each in shown.walk())


def test_a_module_in_from_is_a_stream() -> None:
    found = plan(
        "SELECT f.*, b.bid_price FROM followed_by(sensor PARTITION BY id, place, "
        "HOPPING(10 MINUTES, 1 MINUTE, bounds => true), first => 'x', then => 'y') AS f "
        "JOIN Bid b ON b.itemID = f.id WHERE f.first_at > 3"
    )
    assert found.schema.names == [
        "id",
        "window_start",
        "window_end",
        "first_at",
        "then_at",
        "bid_price",
    ]
    (node,) = [each for each in found.walk() if isinstance(each, ApplyOperator)]
    bound = FOLLOWED_BY.bind([column("place", SENSOR).type], ["x", "y"], {})
    assert node.calls == (Call(bound, (column("place", SENSOR),), ("first_at", "then_at")),)
    assert node.group_by == (("id", column("id", SENSOR)),)
    assert node.input == SENSOR


def test_a_module_in_from_takes_queries_and_other_modules() -> None:
    found = plan(
        "SELECT * FROM median((SELECT place, temperature FROM sensor WHERE id > 3) "
        "PARTITION BY (place, temperature > 5), temperature, SNAPSHOT()) AS m(place, hot, middle)"
    )
    assert found.schema.names == ["place", "hot", "middle"]
    wrapped = plan("SELECT * FROM TABLE(median(Bid, bid_price, TUMBLING('5d'))) AS m")
    assert wrapped == plan("SELECT * FROM median(TABLE Bid, bid_price, TUMBLING('5d')) AS m")
    nested = plan(
        "SELECT * FROM quantile(median(Bid, bid_price, TUMBLING('5d')), median, "
        "TUMBLING('9d'), 0.5)"
    )
    assert sum(isinstance(each, ApplyOperator) for each in nested.walk()) == 2


def test_conditions_on_windows_stand_above_them() -> None:
    found = plan("SELECT * FROM median(Bid, bid_price, TUMBLING('5d')) WHERE median > 3")
    assert isinstance(found, Map)
    assert isinstance(found.input, Filter)


WRONG: dict[str, Any] = {
    "SELECT held(bid_price) FROM Bid": "held reads times, and there is no window",
    "SELECT followed_by(bid_price) FROM Bid": "write FROM followed_by(",
    "SELECT held(bid_price) FROM Bid GROUP BY itemID": "group by a window",
    "SELECT medain(bid_price) FROM Bid GROUP BY TUMBLING('4d')": "did you mean 'median'?",
    "SELECT COUNT(*) FROM Bid GROUP BY TUMBLING('4d'), SNAPSHOT()": "GROUP BY has two windows",
    "SELECT TUMBLING('4d') FROM Bid": "a window of the time axis belongs in GROUP BY",
    "SELECT held(DISTINCT bid_price) FROM Bid GROUP BY TUMBLING('4d')": "DISTINCT cannot be used",
    "SELECT held(bid_price) FILTER (WHERE itemID = 3) FROM Bid GROUP BY TUMBLING('4d')": "FILTER",
    "SELECT held(*) FROM Bid GROUP BY TUMBLING('4d')": "held takes columns, not *",
    "SELECT followed_by(bid_price) FROM Bid GROUP BY TUMBLING('4d')": "returns rows",
    "SELECT held(held(bid_price)) FROM Bid GROUP BY TUMBLING('4d')": "cannot contain another "
    "aggregate",
    "SELECT held(bid_price) FROM Bid WHERE held(bid_price) > 3 GROUP BY TUMBLING('4d')": "HAVING",
    "SELECT quantile(bid_price, itemID) FROM Bid GROUP BY TUMBLING('4d')": "must be a constant",
    "SELECT quantile(bid_price, p => 3) FROM Bid GROUP BY TUMBLING('4d')": "it is quantile(value",
    "SELECT held(bid_price, 3) FROM Bid GROUP BY TUMBLING('4d')": "does not take 2 arguments",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('4d', clip => 'both')": "none, left, right",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('4d', clop => 'full')": "did you mean clip?",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('4d', clip => left, clip => left)": "twice",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('4d', empty => 3)": "true or false",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('4d', timestamps => 'clip')": "no lifetimes",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('4d', clip => 'ful')": "you mean 'full'?",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('4d', errors => 'skipp')": "mean 'skip'?",
    "SELECT held(bid_price) FROM Bid GROUP BY HOPPING(4)": "takes 2 sizes, not 1",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING()": "takes 1 size, not 0",
    "SELECT COUNT(*) FROM Bid GROUP BY TUMBLE(4)": "'4' has no unit of time",
    "SELECT COUNT(*) FROM Bid GROUP BY HOP(4, 2)": "write HOPPING(size, hop",
    "SELECT held(bid_price) FROM Bid GROUP BY HOPING(4, 2)": "write HOPPING(size, hop",
    "SELECT quantile() FROM Bid GROUP BY TUMBLING('4d')": "does not take 0 arguments",
    "SELECT held(bid_price) FROM Bid GROUP BY SESSION('4d', OFFSET '3d')": "has no OFFSET",
    "SELECT held(bid_price) FROM Bid GROUP BY SNAPSHOT(empty => true)": "can be empty",
    "SELECT held(bid_price) FROM Bid GROUP BY COUNTING(3 MINUTES)": "a number of instants",
    "SELECT held(bid_price) FROM Bid GROUP BY COUNTING(0)": "cannot count 0",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING('3d', BY END)": "belong in COUNTING",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING(0)": "must be positive",
    "SELECT held(bid_price) FROM Bid GROUP BY TUMBLING(4": "write TUMBLING(size",
    "SELECT itemID, held(bid_price) FROM Bid GROUP BY TUMBLING('4d')": "neither in GROUP BY nor",
    "SELECT * FROM followd_by(sensor, place, TUMBLING('3d'))": "did you mean 'followed_by'?",
    "SELECT * FROM followed_by(sensor, place)": "followed_by has no window",
    "SELECT * FROM followed_by(sensor, place, SNAPSHOT(), SNAPSHOT())": "two windows",
    "SELECT * FROM followed_by(sensor, plaice, SNAPSHOT())": "did you mean 'place'?",
    "CREATE FUNCTION Held(x INT) RETURNS INT RETURN x": "'Held' is a module: held(value)",
    "CREATE FUNCTION hopping(x INT) RETURNS INT RETURN x": "is a window of the time axis",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_place_and_hint(text: str) -> None:
    message = said(text)
    assert WRONG[text] in message
    assert "line 1" in message
    assert "hint: " in message


def test_functions_are_shown_with_kind_and_signature() -> None:
    names = registry()
    for statement in read_statements(
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN x; SHOW FUNCTIONS"
    ):
        if isinstance(statement, CreateFunction):
            names.define(statement)
        elif isinstance(statement, Show):
            shown = names.show(statement)
    rows = shown.select(["name", "kind", "signature"]).to_pylist()
    assert rows[0] == {"name": "f", "kind": "SQL", "signature": "f(x INT) -> INT"}
    assert {"name": "quantile", "kind": "UDA", "signature": QUANTILE.signature} in rows
    assert {row["kind"] for row in rows} == {"SQL", "UDA", "UDO"}
