"""The first rows of snapshots: order, ties, copies, groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.source import Source
from anabranch.algebra.top_k import TopK
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.testing import PhysicalStream, streams

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64())])
S = Source(name="S", schema=SCHEMA)
NAN = math.nan


def of(text: str) -> Expression:
    return Expression.parse(text, SCHEMA)


def top(k: int, *, descending: bool = True, nulls_first: bool = False, by: str = "") -> TopK:
    keys = ((by, of(by)),) if by else ()
    order = ((of("x"), descending, nulls_first),)
    return TopK(input=S, k=k, order_by=order, partition_by=keys)


def first(node: TopK, *rows: tuple[str | None, float | None]) -> Counter[tuple[object, ...]]:
    return node.denote(LogicalStream.of([(row, 0, 1) for row in rows])).snapshot(0)


ROWS = [("a", 2.0), ("b", NAN), ("c", None), ("d", -1.0)]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [
        (True, False, "badc"),
        (True, True, "cbad"),
        (False, True, "cdab"),
        (False, False, "dabc"),
    ],
)
def test_nan_is_the_largest_number_and_nulls_stand_where_they_are_put(
    descending: bool, nulls_first: bool, expected: str
) -> None:
    for k in range(1, 6):
        node = top(k, descending=descending, nulls_first=nulls_first)
        assert "".join(sorted(str(key) for key, _ in first(node, *ROWS))) == "".join(
            sorted(expected[:k])
        )


def test_copies_count_and_may_be_cut() -> None:
    rows = [("a", 2.0)] * 3 + [("b", 1.0)]
    assert first(top(2), *rows) == {("a", 2.0): 2}
    assert first(top(4), *rows) == {("a", 2.0): 3, ("b", 1.0): 1}


def test_ties_go_by_the_columns_whatever_the_direction() -> None:
    rows = [("b", 1.0), ("a", 1.0), (None, 1.0)]
    assert first(top(1), *rows) == {(None, 1.0): 1}
    assert first(top(2, descending=False), *rows) == {(None, 1.0): 1, ("a", 1.0): 1}


def test_every_group_has_its_own_first_rows() -> None:
    rows = [("a", 1.0), ("a", 2.0), ("b", 0.0), (None, 5.0), (None, 4.0)]
    assert first(top(1, by="k"), *rows) == {("a", 2.0): 1, ("b", 0.0): 1, (None, 5.0): 1}


def test_values_without_an_order_decide_by_their_hash() -> None:
    schema = pa.schema([("x", pa.int64()), ("tags", pa.list_(pa.int64()))])
    node = TopK(
        input=Source(name="S", schema=schema),
        k=1,
        order_by=((Expression.parse("x", schema), False, True),),
    )
    rows = [((1, (2,)), 0, 1), ((1, (3, 4)), 0, 1)]
    one, other = (node.denote(LogicalStream.of(part)) for part in (rows, rows[::-1]))
    assert one == other
    assert len(one.events()) == 1


@given(streams(SCHEMA), st.integers(1, 4))
def test_the_first_rows_are_rows_and_no_other_is_better(stream: PhysicalStream, k: int) -> None:
    rows = stream.meaning()
    found = top(k).denote(rows)
    for instant in rows.change_points():
        there, best = rows.snapshot(instant), found.snapshot(instant)
        rest = there - best
        assert best <= there
        assert sum(best.values()) == min(k, sum(there.values()))

        def place(row: tuple[object, ...]) -> tuple[bool, bool, float]:
            value = row[1]
            if not isinstance(value, float):
                return True, False, 0.0
            return False, not math.isnan(value), 0.0 if math.isnan(value) else -value

        assert not rest or max(map(place, best)) <= min(map(place, rest))


def test_one_row_has_no_copies() -> None:
    known = [top(k, by=by).properties for k, by in ((2, ""), (1, "k"), (1, ""))]
    assert [each.no_duplicates for each in known] == [False, True, True]
    assert [each.single for each in known] == [False, False, True]


def test_a_plan_is_shown_in_one_line() -> None:
    assert top(3, by="k").label == "TopK 3 by x DESC per k"
    assert top(3, nulls_first=True).label == "TopK 3 by x DESC NULLS FIRST"
    assert top(1, descending=False).label == "TopK 1 by x NULLS LAST"
    node = TopK(
        input=S,
        k=2,
        order_by=((of("x"), False, True), (of("k"), True, False)),
        partition_by=(("even", of("x % 2 = 0")),),
    )
    assert node.label == "TopK 2 by x, k DESC per x % 2 = 0 AS even"


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: top(0), "the number of first rows cannot be 0"),
        (lambda: TopK(input=S, k=1, order_by=()), "need an order"),
        (
            lambda: TopK(input=S, k=1, order_by=((of("array(x)"), False, True),)),
            "values of type list<item: double> have no order",
        ),
        (
            lambda: TopK(
                input=S,
                k=1,
                order_by=((of("x"), False, True),),
                partition_by=(("a", of("k")), ("a", of("x"))),
            ),
            "there are 2 columns 'a'",
        ),
        (
            lambda: TopK(
                input=Source(name="T", schema=pa.schema([("x", pa.int64())])),
                k=1,
                order_by=((of("x"), False, True),),
            ),
            "'x' was bound to columns other",
        ),
    ],
)
def test_bad_arguments_are_refused(build: Callable[[], object], what: str) -> None:
    with pytest.raises(PlanError) as caught:
        build()
    assert what in str(caught.value)
    assert caught.value.hint
