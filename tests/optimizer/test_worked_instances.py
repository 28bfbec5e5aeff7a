"""The worked instances of the rules: both sides give the stream that is listed."""

from __future__ import annotations

import pytest

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.union import Union
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.rules.drop_now_window import drop_now_window
from anabranch.optimizer.rules.merge_windows_over_union import merge_windows_over_union
from anabranch.optimizer.rules.push_distinct_below_join import push_distinct_below_join
from anabranch.optimizer.rules.push_filter_below_union import push_filter_below_union
from anabranch.optimizer.rules.push_filter_below_window import push_filter_below_window
from anabranch.optimizer.rules.push_map_below_count_window import push_map_below_count_window
from anabranch.optimizer.rules.push_map_below_window import push_map_below_window
from anabranch.testing import meaning
from tests.golden.test_book_tables import L1, L2, S, T, held, of, read

L3 = "1 c · 2 a · 3 b · 4 b · 5 a · 6 c"
STREAMS = {"S": read(L1), "T": read(L2)}
LAST = {"S": read(L3)}
IS_A = of("e = 'a'")


def renamed(over: Node, name: str) -> Map:
    return Map(input=over, columns=((name, of("e", over)),))


def product(left: Node, right: Node) -> Join:
    return Join(kind="inner", left=left, right=right)


def constant(over: Node) -> Map:
    return Map(input=over, columns=(("e", of("'k'", over)),))


def last(over: Node, rows: int, *by: str) -> CountWindow:
    groups = tuple((f"g{at}", of(text, over)) for at, text in enumerate(by))
    return CountWindow(input=over, rows=rows, partition_by=groups, order_by=(of("e", over),))


A, B = product(S, renamed(T, "f")), product(renamed(T, "f"), renamed(S, "g"))


def test_products_are_associative() -> None:
    left = meaning(product(A, renamed(S, "g")), STREAMS)
    assert left == meaning(product(S, B), STREAMS)
    assert left.snapshot(2) == {("a", "b", "a"): 18}
    assert left.snapshot(3)[("b", "b", "a")] == left.snapshot(3)[("a", "b", "b")] == 6
    assert left.snapshot(3)[("b", "b", "b")] == 2
    assert left.snapshot(4)[("a", "a", "a")] == 9


@pytest.mark.parametrize(
    ("before", "rule", "expected"),
    [
        pytest.param(
            Filter(input=Union(inputs=(S, T)), predicate=IS_A),
            push_filter_below_union,
            "2 a×3 · 3 a×3 · 4 a×4 · 5 a×2 · 6 a",
            id="R-10.5",
        ),
        pytest.param(
            Distinct(input=A),
            push_distinct_below_join,
            "2 (a,b) · 3 (a,b),(b,b) · 4 (a,a),(a,b),(a,c),(b,a),(b,b),(b,c),(c,a),(c,b),(c,c) "
            "· 5 (b,a),(b,b) · 6 (b,a),(b,c)",
            id="R-10.6",
        ),
        pytest.param(held(1), drop_now_window, L1, id="W1"),
        pytest.param(
            Filter(input=held(2), predicate=IS_A),
            push_filter_below_window,
            "2 a×3 · 3 a×6 · 4 a×6 · 5 a×3",
            id="W2",
        ),
        pytest.param(
            constant(held(2)),
            push_map_below_window,
            "1 k · 2 k×4 · 3 k×7 · 4 k×9 · 5 k×7 · 6 k×4 · 7 k×2",
            id="W3",
        ),
        pytest.param(
            Union(inputs=(held(2), held(2, over=T))),
            merge_windows_over_union,
            "1 c · 2 a×3,b×2,c · 3 a×6,b×5 · 4 a×7,b×5,c×2 · 5 a×6,b×5,c×2 · 6 a×3,b×5,c×2 "
            "· 7 a,b×2,c×2",
            id="W4",
        ),
    ],
)
def test_both_sides_give_the_listed_stream(before: Node, rule: object, expected: str) -> None:
    after = rule(before)  # type: ignore[operator]
    assert after is not None
    assert meaning(before, STREAMS) == meaning(after, STREAMS) == read(expected)
    assert meaning(optimize(before).node, STREAMS) == read(expected)


def test_a_count_window_commutes_with_a_map() -> None:
    """W5. That L3 has no ties is no property of the plan, so that the map must keep the order."""
    expected = read("1 k · 2 k×2 · 3… k×3")
    before = constant(last(S, 3))
    after = last(constant(S), 3)
    assert meaning(before, LAST) == meaning(after, LAST) == expected
    assert push_map_below_count_window(before) is None
    pair = Map(input=last(S, 3), columns=(("f", of("e")), ("e", of("'k'"))))
    pushed = push_map_below_count_window(pair)
    assert pushed is not None
    assert meaning(pushed, LAST) == meaning(pair, LAST)


def test_a_partitioned_window_commutes_with_a_map_that_keeps_the_groups() -> None:
    """W6."""
    letters = "CASE WHEN e = 'b' THEN 'z' ELSE 'y' END"
    before = Map(input=last(S, 1, letters), columns=(("e", of(letters)),))
    image = Map(input=S, columns=(("e", of(letters)),))
    assert meaning(before, LAST) == meaning(last(image, 1, "e"), LAST)
    assert meaning(before, LAST) == read("1 y · 2 y · 3… y,z")
    by_letter = Map(input=last(S, 1, "e"), columns=(("f", of("e")), ("g", of("upper(e)"))))
    pushed = push_map_below_count_window(by_letter)
    assert isinstance(pushed, CountWindow)
    assert meaning(pushed, LAST) == meaning(by_letter, LAST)
    assert [key.sql for _, key in pushed.partition_by] == ["f"]
