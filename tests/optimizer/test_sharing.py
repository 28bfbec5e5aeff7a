"""Regions, common sub-plans, windows that are shared, and what is unique."""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.interning import Interner
from anabranch.optimizer.regions import is_snapshot_reducible, regions
from anabranch.optimizer.sharing import common_subplans
from anabranch.optimizer.uniqueness import is_key, keys, lasting_keys
from tests.optimizer.auctions import OPENED, closing_price, current_price, selling_price
from tests.optimizer.plans import (
    KEYED,
    ONCE,
    POINTS,
    SCHEMA,
    S,
    T,
    aggregate,
    join,
    rows,
    second,
    select,
    top,
    where,
    window,
)


def test_the_largest_common_plan_comes_first() -> None:
    counted = aggregate(window(POINTS, 5), ("k",), "n")
    one = where(counted, "n > 1")
    other = join("inner", counted, second(S), "k = k2")
    assert common_subplans([one, other]) == [counted]
    assert common_subplans([one, one]) == [one]
    assert common_subplans([one]) == []


def test_what_also_occurs_alone_is_listed_too() -> None:
    counted = aggregate(window(POINTS, 5), ("k",), "n")
    one, other = where(counted, "n > 1"), where(counted, "n > 2")
    third = Distinct(input=select(window(POINTS, 5), "k"))
    assert common_subplans([one, other, third]) == [counted, window(POINTS, 5)]


def test_what_costs_nothing_is_not_worth_sharing() -> None:
    filtered = where(S, "v > 1")
    assert common_subplans([aggregate(filtered, ("k",), "n"), Distinct(input=filtered)]) == []


def test_closing_prices_are_common_to_q5_and_q7() -> None:
    assert common_subplans([closing_price(), selling_price()]) == [closing_price()]
    assert common_subplans([current_price(), selling_price()]) == [current_price()]


def test_plans_built_twice_are_one_object() -> None:
    interner = Interner()
    one, other = (
        aggregate(window(Source(name="S", schema=SCHEMA), 3), ("k",), "n") for _ in range(2)
    )
    assert one is not other
    assert interner.intern(one) is interner.intern(other)
    assert interner.intern(one) is not interner.intern(aggregate(window(S, 4), ("k",), "n"))
    assert [node.label for node in interner.reachable(interner.intern(one))] == [
        "Source S",
        "TimeWindow 3",
        "Aggregate count(*) AS n by k",
    ]


def test_a_region_ends_at_every_window() -> None:
    below = where(S, "v > 1")
    middle = aggregate(window(below, 3), ("k",), "n")
    plan = Distinct(input=window(middle, 2))
    assert [region.nodes for region in regions(plan)] == [(below,), (middle,), (plan,)]
    assert regions(window(S, 3)) == []


def test_two_regions_become_one_at_a_join() -> None:
    left, right = where(S, "v > 1"), second(T)
    plan = join("inner", left, right, "k = k2")
    (region,) = regions(plan)
    assert set(region.nodes) == {left, right, plan}
    assert set(region.inputs) == {S, T}


def test_what_works_snapshot_by_snapshot() -> None:
    assert is_snapshot_reducible(top(S, 2))
    assert is_snapshot_reducible(Coalesce(input=S))
    assert is_snapshot_reducible(window(S, 1))
    assert is_snapshot_reducible(ToStream(input=S, kind="snapshots"))
    for plan in (
        window(S, 2),
        window(S, 1, 2),
        rows(S, 2),
        ToStream(input=S, kind="insertions"),
        S,
    ):
        assert not is_snapshot_reducible(plan)


def test_a_window_moves_into_a_union_to_be_shared() -> None:
    """A window over one branch exists already, so that only the other one is needed."""
    single = aggregate(window(POINTS, 5), ("k",), "n", "hi")
    both = Union(inputs=(POINTS, where(S, "v > 1")))
    united = aggregate(select(window(both, 5), "k", "v", "x"), ("k",), "n", "hi")
    plan = join("inner", single, second(united), "k = k2")
    found = optimize(plan)
    assert "push_windows_to_share" in {step.rule for step in found.steps}
    windows = [node for node in found.node.walk() if isinstance(node, TimeWindow)]
    assert len(windows) == 3
    assert len(set(windows)) == 2


def test_keys_follow_from_what_operators_do() -> None:
    counted = aggregate(S, ("k",), "n")
    assert keys(counted) >= {frozenset({"k"})}
    assert keys(select(counted, ("z", "k"), "n")) == {frozenset({"z"})} | {frozenset({"z", "n"})}
    assert is_key(["k"], where(counted, "n > 1"))
    assert not is_key(["n"], counted)
    assert is_key([], aggregate(S, (), "n"))
    assert is_key(["k"], top(S, 1, "k"))
    assert not is_key(["k"], top(S, 2, "k"))
    assert is_key(["k"], rows(S, 1, "k"))
    assert is_key(["k", "v", "x"], ONCE)
    assert not is_key(["k", "v", "x"], window(ONCE, 2))


def test_what_occurs_once_in_all_of_time_is_held_once() -> None:
    assert is_key(["v"], window(KEYED, 7))
    assert is_key(["w"], select(window(where(KEYED, "v > 1"), 7), ("w", "v")))
    assert is_key(["itemID"], OPENED)
    longer = replace(KEYED, only_points=False)
    assert is_key(["v"], longer)
    assert not is_key(["v"], window(longer, 7))
    assert lasting_keys(window(KEYED, 2)) == frozenset()


def test_partners_that_are_unique_keep_keys_of_the_other_side() -> None:
    right = second(aggregate(T, ("v",), "n"))
    assert is_key(["k", "v", "x"], join("inner", ONCE, right, "v = v2"))
    assert is_key(["k", "v", "x"], join("left", ONCE, right, "v = v2"))
    assert not is_key(["k", "v", "x"], join("inner", ONCE, right, "v < v2"))
    assert is_key(["k", "v", "x", "v2"], join("inner", ONCE, right, "v < v2"))
    nodes: list[Node] = [join("full", ONCE, right, "v = v2"), Union(inputs=(ONCE, ONCE))]
    assert not any(keys(node) - {frozenset(node.schema.names)} for node in nodes)
