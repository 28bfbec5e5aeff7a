"""`@udf`: what can be declared, and that queries call it wherever a value stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from math import sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.engine import Engine, Stream
from anabranch.errors import OperatorError, PlanError, QueryError
from anabranch.expressions.scalar_function import ScalarFunction

BIDS = """{"insert": {"item": 1, "price": 80.0, "who": "ann"}, "start": 5, "end": 9}
{"insert": {"item": 2, "price": 50.0, "who": "bob"}, "start": 6, "end": 12}
{"insert": {"item": 3, "price": null, "who": "cy"}, "start": 6, "end": 12}
{"insert": {"item": 2, "price": 70.0, "who": "dee"}, "start": 8, "end": 12}
{"stable": 12}
"""


@ab.udf
def taxed(price: float) -> float:
    return round(price * 1.19, 2)


@ab.udf(frame="arrow", takes=["STRING"], returns="STRING")
def initial(name: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(name, 0, 1)


@ab.udf(frame="pandas", takes=[int], returns=bool)
def is_even(number: Any) -> Any:
    return number % 2 == 0


@ab.udf(nulls=True)
def known(price: float | None) -> bool:
    return price is not None


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    (tmp_path / "bids.jsonl").write_text(BIDS)
    engine = Engine()
    engine.stream(
        tmp_path / "bids.jsonl",
        name="Bid",
        schema=pa.schema([("item", pa.int64()), ("price", pa.float64()), ("who", pa.string())]),
    )
    for function in (taxed, initial, is_even, known):
        engine.register(function)
    return engine


def bids(engine: Engine) -> Stream:
    stream = engine.sql("SELECT * FROM Bid")
    assert isinstance(stream, Stream)
    return stream


def at_eight(query: Stream) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in query.run_local().snapshot(8).to_pylist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT item, taxed(price) AS t FROM Bid WHERE taxed(price) > 60", [(1, 95.2), (2, 83.3)]),
        ("SELECT Taxed(price) AS t FROM Bid WHERE is_even(item)", [(59.5,), (83.3,)]),
        ("SELECT item FROM Bid WHERE NOT known(price)", [(3,)]),
        (
            "SELECT item, MAX(taxed(price)) AS m FROM Bid GROUP BY item",
            [(1, 95.2), (2, 83.3), (3, None)],
        ),
        (
            "SELECT is_even(item) AS e, COUNT(*) AS n FROM Bid GROUP BY is_even(item)",
            [(True, 2), (False, 2)],
        ),
        ("SELECT taxed(SUM(price)) AS t FROM Bid", [(238.0,)]),
        ("SELECT item FROM Bid GROUP BY item HAVING taxed(MAX(price)) > 90", [(1,)]),
        ("SELECT COUNT(DISTINCT initial(who)) AS n FROM Bid", [(4,)]),
        ("SELECT STRING_AGG(initial(who), '') AS s FROM Bid", [("abcd",)]),
        ("SELECT who FROM Bid ORDER BY taxed(price) DESC LIMIT 1", [("ann",)]),
        ("SELECT a.who FROM Bid a JOIN Bid b ON taxed(a.price) < b.price", [("bob",)] * 2),
        (
            "SELECT a.who FROM Bid a JOIN Bid b ON taxed(a.price) = taxed(b.price) "
            "AND NOT is_even(b.item)",
            [("ann",)],
        ),
        (
            "SELECT who FROM Bid WHERE EXISTS (SELECT 1 FROM Bid b WHERE is_even(b.item))",
            [("ann",), ("bob",), ("cy",), ("dee",)],
        ),
    ],
)
def test_sql_calls_functions(engine: Engine, text: str, expected: list[Any]) -> None:
    assert at_eight(engine.sql(text)) == Counter(expected)


def test_streams_call_functions(engine: Engine) -> None:
    stream = bids(engine)
    assert at_eight(stream.where("is_even(item)").select("who")) == {("bob",): 1, ("dee",): 1}
    assert at_eight(stream.select("taxed(price) AS t", i="initial(who)")) == {
        (95.2, "a"): 1,
        (59.5, "b"): 1,
        (None, "c"): 1,
        (83.3, "d"): 1,
    }
    grouped = stream.group_by("is_even(item) AS even").agg(most="MAX(taxed(price))")
    assert at_eight(grouped) == {(False, 95.2): 1, (True, 83.3): 1}
    assert at_eight(stream.agg(most="MAX(taxed(price))")) == {(95.2,): 1}
    assert at_eight(stream.top(1, "taxed(price) DESC").select("who")) == {("ann",): 1}
    pairs = stream.join(stream, "taxed(price) < price_right").select("who")
    assert at_eight(pairs) == {("bob",): 2}


def test_streams_that_are_there_already_know_a_new_function(engine: Engine) -> None:
    stream = bids(engine)
    engine.register(ab.udf(name="ten_more")(_ten_more))
    assert at_eight(stream.where("ten_more(item) = 11").select("who")) == {("ann",): 1}


def _ten_more(item: int) -> int:
    return item + 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(-1e6, 1e6) | st.none(), min_size=1, max_size=20))
def test_queries_give_what_python_gives(tmp_path: Path, prices: list[float | None]) -> None:
    lines = [
        f'{{"insert": {{"n": {n}, "price": {"null" if price is None else price}}}, "start": 1}}'
        for n, price in enumerate(prices)
    ]
    (tmp_path / "prices.jsonl").write_text("\n".join(lines) + '\n{"stable": 9}\n')
    engine = Engine()
    schema = pa.schema([("n", pa.int64()), ("price", pa.float64())])
    engine.stream(tmp_path / "prices.jsonl", name="Price", schema=schema)
    engine.register(taxed)
    query = engine.sql("SELECT n, taxed(price) AS t FROM Price WHERE coalesce(taxed(price), 1) > 0")
    expected = {
        n: None if price is None else taxed(price)
        for n, price in enumerate(prices)
        if price is None or taxed(price) > 0
    }
    rows = query.run_local().snapshot(5).to_pylist()
    assert {row["n"]: row["t"] for row in rows} == expected


def test_a_function_is_called_by_python_as_before() -> None:
    assert taxed(100.0) == 119.0
    assert taxed.signature == "taxed(price DOUBLE) -> DOUBLE"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (bool, "BOOLEAN"),
        (int, "BIGINT"),
        (float, "DOUBLE"),
        (str, "STRING"),
        (bytes, "BINARY"),
        (date, "DATE"),
        (datetime, "TIMESTAMP"),
        (int | None, "BIGINT"),
        (list[float], "ARRAY<DOUBLE>"),
        ("decimal(10, 2)", "DECIMAL(10,2)"),
        ("MAP<STRING, INT>", "MAP<STRING,INT>"),
        (pa.int16(), "SMALLINT"),
        (pa.large_string(), "STRING"),
    ],
)
def test_types_are_those_of_python_sql_and_arrow(said: Any, expected: str) -> None:
    made = ab.udf(name="same", takes=[said], returns=said)(lambda x: x)
    assert made.signature == f"same(x {expected}) -> {expected}"


def test_functions_of_c_are_declared_by_their_types() -> None:
    root = ab.udf(name="root", takes=[float], returns=float)(sqrt)
    assert root.signature == "root(x DOUBLE) -> DOUBLE"


def _untyped(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return x


def _half_typed(x: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return x


def _defaults(x: int, more: int = 1) -> int:
    return x + more


def _many(*x: int) -> int:
    return sum(x)


def _none() -> int:
    return 1


def _money(x: Decimal) -> Decimal:
    return x


def _unknown(x: Nothing) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 1


async def _later(x: int) -> int:
    return x


@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        (_untyped, {}, "the argument 'x' has no type"),
        (_half_typed, {}, "what it returns has no type"),
        (_defaults, {}, "cannot pass the parameter 'more: int = 1' of '_defaults'"),
        (_many, {}, "cannot pass the parameter '*x: int' of '_many'"),
        (_none, {}, "'_none' has no parameters"),
        (_money, {}, "the argument 'x' has no SQL type: Decimal"),
        (_unknown, {}, "the types of '_unknown' cannot be determined: name 'Nothing' is not"),
        (_later, {}, "'_later' does not return a value when it is called"),
        (_ten_more, {"name": "round"}, "SQL has a function 'round' of its own"),
        (_ten_more, {"name": "Median"}, "SQL has a function 'median' of its own"),
        (_ten_more, {"name": "rand"}, "SQL has a function 'rand' of its own"),
        (_ten_more, {"name": "safe_divide"}, "SQL has a function 'safe_divide' of its own"),
        (_ten_more, {"name": "case"}, "SQL has a function 'case' of its own"),
        (_ten_more, {"name": "ten more"}, "'ten more' is not a valid name for a function"),
        (lambda x: x, {}, "'<lambda>' is not a valid name for a function"),
        (_ten_more, {"takes": [int, int]}, "'_ten_more' has 1 parameters but 2 types"),
        (_ten_more, {"returns": "INTT"}, "'INTT' is not a type"),
        (_ten_more, {"returns": dict}, "what it returns has no SQL type: dict"),
        (_ten_more, {"frame": "polars"}, "there is no frame 'polars'"),
        ("ten_more", {}, "'ten_more' cannot be called"),
    ],
)
def test_what_makes_no_function_is_refused_where_it_is_declared(
    code: Callable[..., Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as caught:
        ab.udf(**options)(code)
    assert said in caught.value.what
    assert caught.value.where.startswith("@udf")
    assert caught.value.hint


def test_a_name_has_one_function_unless_it_is_replaced(engine: Engine) -> None:
    engine.register(taxed)
    other = ab.udf(name="taxed")(_ten_more)
    with pytest.raises(PlanError, match="there is already a function 'taxed'"):
        engine.register(other)
    before = bids(engine).where("taxed(price) > 90").select("who")
    engine.register(other, replace=True)
    assert at_eight(bids(engine).where("taxed(item) = 11").select("who")) == {("ann",): 1}
    assert at_eight(before) == {("ann",): 1}


def test_functions_of_sql_and_of_python_share_their_names(engine: Engine) -> None:
    with pytest.raises(QueryError, match="there is already a function 'taxed'"):
        engine.sql("CREATE FUNCTION taxed(x DOUBLE) RETURNS DOUBLE AS x")
    engine.sql("CREATE FUNCTION doubled(x DOUBLE) RETURNS DOUBLE AS taxed(x) * 2")
    assert at_eight(engine.sql("SELECT doubled(price) AS d FROM Bid WHERE item = 1")) == {
        (190.4,): 1
    }
    with pytest.raises(PlanError, match="there is already a function 'doubled'"):
        engine.register(ab.udf(name="doubled")(_ten_more))
    engine.sql("DROP FUNCTION taxed")
    with pytest.raises(QueryError, match="there is no function 'taxed'"):
        engine.sql("SELECT taxed(price) AS t FROM Bid")


def test_functions_are_shown(engine: Engine) -> None:
    shown = [row for row in engine.sql("SHOW FUNCTIONS").to_pylist() if row["kind"] == "UDF"]
    assert [row["name"] for row in shown] == ["initial", "is_even", "known", "taxed"]
    assert shown[-1] == {
        "name": "taxed",
        "kind": "UDF",
        "signature": "taxed(price DOUBLE) -> DOUBLE",
        "parameters": "price DOUBLE",
        "returns": "DOUBLE",
    }


def test_what_is_not_decorated_is_not_registered(engine: Engine) -> None:
    with pytest.raises(PlanError, match="cannot be registered"):
        engine.register(_ten_more)


def test_a_wrong_call_is_shown_in_the_query(engine: Engine) -> None:
    with pytest.raises(QueryError) as caught:
        engine.sql("SELECT item FROM Bid WHERE taxed(who) > 1")
    assert str(caught.value).splitlines() == [
        "the function 'taxed' does not take string for 'price'",
        "  line 1, column 28:  SELECT item FROM Bid WHERE taxed(who) > 1",
        "                                                 ^^^^^^^^^^^^^^",
        "  hint: it is declared as taxed(price DOUBLE) -> DOUBLE",
    ]


def test_a_function_that_raises_stops_the_query_and_says_why(engine: Engine) -> None:
    @ab.udf
    def inverse(price: float) -> float:
        return 1 / (price - 50)

    engine.register(inverse)
    with pytest.raises(OperatorError) as caught:
        engine.sql("SELECT inverse(price) AS i FROM Bid").run_local()
    said = str(caught.value).splitlines()
    assert said[0] == "the function 'inverse' raised ZeroDivisionError: float division by zero"
    assert said[1] == "  inverse(price => 50.0)"
    assert said[2].startswith("  at test_scalars.py, line ")
    guarded = "SELECT CASE WHEN price <> 50 THEN inverse(price) END AS i FROM Bid"
    assert len(at_eight(engine.sql(guarded))) == 3


def test_a_plan_shows_calls(engine: Engine) -> None:
    text = engine.sql("SELECT item FROM Bid WHERE taxed(price) > 1").explain()
    assert "TAXED(price) > 1" in text
    assert isinstance(taxed, ScalarFunction)
