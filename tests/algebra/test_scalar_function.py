"""Functions of users inside expressions: values, NULLs, guards, failures."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.join_keys import JoinKeys
from anabranch.algebra.join import Join
from anabranch.algebra.source import Source
from anabranch.errors import OperatorError, QueryError
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts, rename, substitute
from anabranch.expressions.scalar_function import ScalarFrame, ScalarFunction
from anabranch.optimizer.failing import may_fail
from anabranch.optimizer.simplify import simplified

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("name", pa.string())])
_identities = count()
_rolls = count()


def function(
    name: str,
    code: Callable[..., Any],
    *,
    takes: tuple[pa.DataType, ...] = (pa.int64(),),
    returns: pa.DataType | None = None,
    frame: ScalarFrame = "python",
    nulls: bool = False,
) -> ScalarFunction:
    return ScalarFunction(
        name=name,
        takes=tuple((f"a{place}", kind) for place, kind in enumerate(takes)),
        returns=pa.int64() if returns is None else returns,
        frame=frame,
        nulls=nulls,
        identity=f"test{next(_identities)}",
        code=code,
    )


def rows(*values: tuple[int | None, int | None, str | None]) -> pa.RecordBatch:
    x, y, name = zip(*values) if values else ((), (), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(x, pa.int64()), pa.array(y, pa.int64()), pa.array(name, pa.string())],
        schema=SCHEMA,
    )


def values(text: str, batch: pa.RecordBatch, *functions: ScalarFunction) -> list[Any]:
    expression = Expression.parse(text, SCHEMA, functions=functions)
    found: list[Any] = expression.evaluate(batch, batch.num_rows).to_pylist()
    return found


TWICE = function("twice", lambda x: 2 * x)
FRAMES = {
    "python": TWICE,
    "arrow": function("twice", lambda x: pc.multiply(x, 2), frame="arrow"),
    "pandas": function("twice", lambda x: x * 2, frame="pandas"),
}
NUMBERS = rows((1, 10, "a"), (-2, None, None), (None, 30, "c"), (4, 40, "d"))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("twice(x)", [2, -4, None, 8]),
        ("TWICE(Twice(x))", [4, -8, None, 16]),
        ("twice(x) + twice(y)", [22, None, None, 88]),
        ("coalesce(twice(x), y)", [2, -4, 30, 8]),
        ("coalesce(y, twice(x))", [10, -4, 30, 40]),
        ("CASE WHEN x > 0 THEN twice(x) ELSE twice(-x) END", [2, 4, None, 8]),
        ("if(name IS NULL, twice(x), length(name))", [1, -4, 1, 1]),
        ("twice(21)", [42] * 4),
        ("twice(NULL)", [None] * 4),
        ("twice(x) > 3", [False, False, None, True]),
        ("twice(x) IN (2, 8)", [True, False, None, True]),
        ("x IN (twice(-1), y)", [False, True, None, False]),
        ("x BETWEEN twice(-2) AND twice(1)", [True, True, None, False]),
        ("transform(array(x, y), z -> twice(z))", [[2, 20], [-4, None], [None, 60], [8, 80]]),
        ("cast(twice(x) AS STRING)", ["2", "-4", None, "8"]),
    ],
)
def test_a_function_stands_wherever_a_value_can(frame: str, text: str, expected: Any) -> None:
    assert values(text, NUMBERS, FRAMES[frame]) == expected


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62) | st.none(), st.text() | st.none())))
def test_the_values_are_those_of_the_plain_function(pairs: list[tuple[Any, Any]]) -> None:
    def code(x: int, name: str) -> str:
        return f"{name}{x % 7}"

    own = function("tag", code, takes=(pa.int64(), pa.string()), returns=pa.string())
    batch = rows(*((x, None, name) for x, name in pairs))
    expected = [None if None in pair else code(*pair) for pair in pairs]
    assert values("tag(x, name)", batch, own) == expected


def test_more_rows_than_one_chunk_of_the_query_engine_are_no_matter() -> None:
    many = pa.RecordBatch.from_arrays(
        [pa.array(np.arange(10_000)), pa.array(np.arange(10_000)), pa.nulls(10_000, pa.string())],
        schema=SCHEMA,
    )
    for own in FRAMES.values():
        assert values("twice(x) + y", many, own) == [3 * n for n in range(10_000)]


def test_no_rows_are_no_calls() -> None:
    assert values("never(x)", rows(), function("never", lambda x: 1 // 0)) == []


def test_a_function_sees_null_only_if_it_wants_to() -> None:
    shy = function("seen", lambda x: -1 if x is None else x)
    assert values("seen(x)", NUMBERS, shy) == [1, -2, None, 4]
    assert values("seen(x)", NUMBERS, replace(shy, nulls=True, identity="bold")) == [1, -2, -1, 4]


def test_null_is_a_value_that_functions_may_give() -> None:
    odd = function("odd", lambda x: x if x % 2 else None)
    assert values("coalesce(odd(x), 0)", NUMBERS, odd) == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN x > 0 THEN seen(x) END",
        "if(x > 0, seen(x), 0)",
        "x > 0 AND seen(x) > 0",
        "NOT x > 0 OR seen(x) > 0",
        "coalesce(nullif(x > 0, true), seen(x) > 0)",
        "CASE WHEN x > 0 THEN seen(x) END + CASE WHEN x > 0 THEN seen(x) + 1 END",
        "CASE WHEN x > 0 THEN seen(x) ELSE coalesce(y, 1) END",
    ],
)
def test_a_guard_keeps_rows_from_a_function(text: str) -> None:
    seen: list[int] = []

    def code(x: int) -> int:
        seen.append(x)
        return x

    values(text, rows((1, 1, None), (-2, 2, None), (3, 3, None)), function("seen", code))
    assert set(seen) == {1, 3}


def test_a_constant_behind_a_guard_may_fail_for_nobody() -> None:
    fails = function("fails", lambda x: 1 // x)
    assert values("CASE WHEN x > 100 THEN fails(0) END", NUMBERS, fails) == [None] * 4


def fails_at_four(frame: ScalarFrame, problem: Callable[[], BaseException]) -> ScalarFunction:
    def by_row(x: int) -> int:
        if x == 4:
            raise problem()
        return x

    def by_column(x: Any) -> Any:
        if 4 in (x.to_pylist() if frame == "arrow" else list(x)):
            raise problem()
        return x

    return function("picky", by_row if frame == "python" else by_column, frame=frame)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("problem", [ValueError, SystemExit, StopIteration])
def test_what_a_function_raises_names_it_and_the_row(
    frame: ScalarFrame, problem: type[BaseException]
) -> None:
    with pytest.raises(OperatorError) as caught:
        values("picky(x) + 1", NUMBERS, fails_at_four(frame, lambda: problem("no\nfour")))
    said = str(caught.value)
    assert said.startswith(f"the function 'picky' raised {problem.__name__}: no four\n")
    assert "picky(a0 => 4)\n  at test_scalar_function.py, line " in said
    assert "hint: let it return None for such values" in said
    assert isinstance(caught.value.__cause__, problem)


def test_who_interrupts_a_function_is_heard() -> None:
    with pytest.raises(KeyboardInterrupt):
        values("picky(x)", NUMBERS, fails_at_four("python", KeyboardInterrupt))


def test_a_function_that_exits_does_not_end_the_process() -> None:
    with pytest.raises(OperatorError, match="raised SystemExit: 3"):
        values("leave(x)", NUMBERS, function("leave", lambda _: sys.exit(3)))
    assert values("twice(x)", NUMBERS, TWICE) == [2, -4, None, 8]


@pytest.mark.parametrize(
    ("code", "frame", "said"),
    [
        (lambda x: "one" if x < 0 else x, "python", "returned 'one' (str)\n  wrong(a0 => -2)"),
        (lambda x: x + 0.5, "python", "returned 1.5 (float)\n  wrong(a0 => 1)"),
        (lambda x: 2**70, "python", "returned 1180591620717411303424 (int)"),
        (
            lambda x: x.to_pylist(),
            "arrow",
            "returned a list, not a column\n  wrong(...), called for 3",
        ),
        (lambda x: x.slice(1), "arrow", "returned 2 values for 3 rows"),
        (lambda x: x.cast(pa.string()), "arrow", "returned a column of string"),
        (lambda x: x.cast(pa.float64()), "arrow", "returned a column of double"),
        (lambda x: x.head(1), "pandas", "returned 1 values for 3 rows"),
        (lambda x: x + 0.5, "pandas", "returned a Series of float64"),
    ],
)
def test_what_a_function_gives_must_be_what_it_declares(
    code: Callable[..., Any], frame: ScalarFrame, said: str
) -> None:
    with pytest.raises(OperatorError) as caught:
        values("wrong(x)", NUMBERS, function("wrong", code, frame=frame))
    assert f"the function 'wrong' {said}" in str(caught.value)
    assert caught.value.hint == "it is declared as wrong(a0 BIGINT) -> BIGINT"


def test_columns_of_a_narrower_type_are_widened() -> None:
    narrow = function("narrow", lambda x: x.cast(pa.int16()), frame="arrow")
    assert values("narrow(x)", NUMBERS, narrow) == [1, -2, None, 4]


@pytest.mark.parametrize(
    "own",
    [
        function("dice", lambda x: x + next(_rolls)),
        function("dice", lambda x: pc.subtract(x, pc.min(x)), frame="arrow"),
    ],
    ids=["remembers", "looks at other rows"],
)
def test_a_function_that_gives_something_else_the_second_time_is_found(own: ScalarFunction) -> None:
    with pytest.raises(
        OperatorError,
        match=r"'dice' is not deterministic: it returned \d, then "
        r"\d",
    ):
        values("dice(x)", NUMBERS, own)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("twice()", "the function 'twice' does not take 0 arguments"),
        ("1 + twice(x, y)", "the function 'twice' does not take 2 arguments"),
        ("twice(name)", "the function 'twice' does not take string for 'a0'"),
        ("twice(1.5)", r"the function 'twice' does not take decimal\(2,1\) for 'a0'"),
    ],
)
def test_a_wrong_call_is_refused_when_it_is_written(text: str, what: str) -> None:
    with pytest.raises(QueryError, match=what) as caught:
        Expression.parse(text, SCHEMA, functions=[TWICE])
    assert caught.value.hint == "it is declared as twice(a0 BIGINT) -> BIGINT"
    assert "^^^^^" in caught.value.where


def test_a_constant_that_fails_is_refused_when_it_is_written() -> None:
    with pytest.raises(QueryError, match="raised ZeroDivisionError"):
        Expression.parse("fails(0)", SCHEMA, functions=[function("fails", lambda x: 1 // x)])


def test_what_spark_alone_evaluates_cannot_be_beside_a_function() -> None:
    def types(text: str, schema: pa.Schema) -> pa.DataType:
        raise AssertionError

    with pytest.raises(QueryError, match="soundex is evaluated by Spark only, and 'twice' in"):
        Expression.parse("twice(x) > length(soundex(name))", SCHEMA, types, [TWICE])


def test_arguments_are_widened_as_those_of_other_functions() -> None:
    half = function("half", lambda x: x / 2, takes=(pa.float64(),), returns=pa.float64())
    assert values("half(x)", NUMBERS, half) == [0.5, -1.0, None, 2.0]
    assert values("half(1.5)", rows((1, 1, "")), half) == [0.75]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("timestamp", "TIMESTAMP '2026-11-15 10:00:00'", "2026-11-15T10:00:00+00:00"),
        ("timestamp_ntz", "TIMESTAMP_NTZ '2026-11-15 10:00:00'", "2026-11-15T10:00:00"),
        ("date", "DATE '2026-11-15'", "2026-11-15"),
    ],
)
def test_times_are_those_of_python(kind: str, given: str, expected: str) -> None:
    types = {
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "date": pa.date32(),
    }
    spell = function("spell", lambda t: t.isoformat(), takes=(types[kind],), returns=pa.string())
    same = function("same", lambda t: t, takes=(types[kind],), returns=types[kind])
    text = given if kind != "timestamp_ntz" else f"cast('{given[15:-1]}' AS TIMESTAMP_NTZ)"
    assert values(f"spell(same({text}))", rows((1, 1, "")), spell, same) == [expected]


def test_lists_and_structs_go_in_and_come_out() -> None:
    kind = pa.list_(pa.int64())
    flip = function("flip", lambda a: a[::-1], takes=(kind,), returns=kind)
    assert values("flip(array(x, y))", rows((1, 2, "")), flip) == [[2, 1]]
    made = pa.struct([("n", pa.int64()), ("text", pa.string())])
    pair = function("pair", lambda x: {"n": x, "text": str(x)}, returns=made)
    assert values("pair(x).text", rows((5, 2, "")), pair) == ["5"]


def test_expressions_are_equal_if_they_call_the_same_declaration() -> None:
    def parse(own: ScalarFunction) -> Expression:
        return Expression.parse("twice(x)", SCHEMA, functions=[own])

    other = function("twice", lambda x: 3 * x)
    assert parse(TWICE) == parse(TWICE)
    assert parse(TWICE) != parse(other)
    assert repr(parse(TWICE)) == repr(parse(other))
    assert parse(other).evaluate(NUMBERS, 4).to_pylist() == [3, -6, None, 12]


def test_an_expression_keeps_the_functions_that_it_calls() -> None:
    other = function("other", lambda x: x)
    found = Expression.parse("twice(x) > 1", SCHEMA, functions=[other, TWICE])
    assert found.functions == (TWICE,)
    assert Expression.parse("x > 1", SCHEMA, functions=[other, TWICE]).functions == ()
    assert may_fail(found)


def test_expressions_travel_with_their_functions() -> None:
    expression = Expression.parse("abs(x)", SCHEMA, functions=[TWICE])
    assert expression.functions == ()
    sent = function("absolute", abs)
    found = pickle.loads(pickle.dumps(Expression.parse("absolute(x)", SCHEMA, functions=[sent])))
    assert found.evaluate(NUMBERS, 4).to_pylist() == [1, 2, None, 4]


def test_expressions_that_are_taken_apart_and_moved_keep_their_functions() -> None:
    more = function("more", lambda x: x + 1)
    both = Expression.parse(
        "twice(x) > 1 AND more(y) > 11 AND x > 0", SCHEMA, functions=[TWICE, more]
    )
    parts = conjuncts(both)
    assert [part.functions for part in parts] == [(TWICE,), (more,), ()]
    assert conjoin(parts) == both == simplified(both)
    shape = pa.schema([("b", pa.int64()), ("a", pa.int64())])
    moved = rename(both, {"x": "a", "y": "b"}, shape)
    batch = pa.record_batch({"b": [20, 1], "a": [1, 1]}, schema=shape)
    assert moved.evaluate(batch, 2).to_pylist() == [True, False]
    outer = Expression.parse("more(z)", pa.schema([("z", pa.int64())]), functions=[more])
    inner = Expression.parse("twice(x)", SCHEMA, functions=[TWICE])
    put = substitute(outer, {"z": inner}, SCHEMA)
    assert put.functions == (more, TWICE)
    assert put.evaluate(NUMBERS, 4).to_pylist() == [3, -3, None, 9]


def test_two_functions_of_one_name_are_never_mixed_up() -> None:
    other = function("twice", lambda x: 3 * x)
    outer = Expression.parse("twice(z)", pa.schema([("z", pa.int64())]), functions=[other])
    inner = Expression.parse("twice(x)", SCHEMA, functions=[TWICE])
    with pytest.raises(QueryError, match="two different functions have the same name: twice"):
        substitute(outer, {"z": inner}, SCHEMA)


def test_a_join_is_keyed_by_values_of_functions() -> None:
    left = Source(name="l", schema=pa.schema([("a", pa.int64())]))
    right = Source(name="r", schema=pa.schema([("b", pa.int32())]))
    both = pa.schema([*left.schema, *right.schema])
    predicate = Expression.parse("twice(a) = b AND twice(b) > a", both, functions=[TWICE])
    keys = JoinKeys.of(Join(kind="inner", left=left, right=right, predicate=predicate))
    assert [key.sql for key in (*keys.left, *keys.right)] == [
        "CAST(TWICE(a) AS BIGINT)",
        "CAST(b AS BIGINT)",
    ]
    assert keys.rest is not None
    assert keys.rest.functions == (TWICE,)
