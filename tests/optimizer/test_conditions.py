"""Where the condition of a rule does not hold, it does not apply."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.split import Split
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration
from anabranch.optimizer import rules
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.rules import Rule
from anabranch.testing import meaning
from tests.optimizer.plans import (
    KEYED,
    ONCE,
    POINTS,
    S,
    T,
    aggregate,
    assert_same,
    compare,
    inputs,
    join,
    of,
    rows,
    second,
    select,
    top,
    where,
    window,
)

BOUNDS = TimeWindow(
    input=POINTS, size=Duration(2), slide=Duration(2), columns=("window_start", "window_end")
)
SESSIONS = SessionWindow(input=POINTS, gap=Duration(2), partition_by=(("k", of("k", POINTS)),))


@pytest.mark.parametrize(
    ("rule", "plan"),
    [
        pytest.param("drop_now_window", window(S, 1, 2), id="a now-window that slides"),
        pytest.param(
            "drop_now_window",
            replace(BOUNDS, size=Duration(1), slide=Duration(1)),
            id="a now-window with bounds",
        ),
        pytest.param(
            "merge_windows_over_union",
            Union(inputs=(window(S, 2), window(T, 3))),
            id="windows of two sizes",
        ),
        pytest.param(
            "merge_windows_over_union",
            Union(inputs=(window(S, 2), window(T, 2, 2))),
            id="windows of two slides",
        ),
        pytest.param(
            "merge_windows_below_distinct",
            Distinct(input=window(window(S, 2, 2), 2)),
            id="windows that slide",
        ),
        pytest.param(
            "push_filter_below_window", where(BOUNDS, "window_start > 1"), id="a filter on bounds"
        ),
        pytest.param(
            "push_filter_below_window", where(window(S, 1, 2), "10 / v > 1"), id="may fail, slide"
        ),
        pytest.param(
            "push_filter_below_count_window", where(rows(S, 2, "k"), "v > 1"), id="not the group"
        ),
        pytest.param(
            "push_filter_below_count_window", where(SESSIONS, "v > 1"), id="not the session's group"
        ),
        pytest.param(
            "push_filter_below_top_k", where(top(S, 2, "k"), "v > 1"), id="not the top's group"
        ),
        pytest.param(
            "push_filter_below_aggregate", where(aggregate(S, (), "n"), "n > 1"), id="scalar"
        ),
        pytest.param(
            "push_filter_below_aggregate",
            where(aggregate(S, ("k",), "n"), "n > 1 OR k = 'a'"),
            id="an aggregate",
        ),
        pytest.param(
            "push_filter_below_join",
            where(join("left", S, second(T), "v = v2"), "v2 IS NULL"),
            id="the side that is padded",
        ),
        pytest.param(
            "push_filter_below_join",
            where(join("full", S, second(T), "v = v2"), "v > 1 AND v2 > 1"),
            id="both are padded",
        ),
        pytest.param(
            "push_filter_below_join",
            where(join("inner", S, second(T), "v = v2"), "10 / v > 1"),
            id="may fail for rows without a partner",
        ),
        pytest.param(
            "push_filter_into_join",
            where(join("left", S, second(T), "v = v2"), "x < x2"),
            id="an outer join's predicate pads",
        ),
        pytest.param(
            "push_join_predicate",
            join("left", S, second(T), "v = v2 AND v > 1"),
            id="rows of the left side stay",
        ),
        pytest.param(
            "push_join_predicate", join("anti", S, second(T), "v > 1"), id="an anti-join's left"
        ),
        pytest.param(
            "push_join_predicate", join("full", S, second(T), "v > 1 AND v2 > 1"), id="full join"
        ),
        pytest.param("merge_filters", where(where(S, "v <> 0"), "10 / v > 1"), id="a guard"),
        pytest.param(
            "narrow_outer_join",
            where(join("left", S, second(T), "v = v2"), "v2 IS NULL"),
            id="true for NULL",
        ),
        pytest.param(
            "narrow_outer_join",
            where(join("left", S, second(T), "v = v2"), "coalesce(v2, 5) > 1"),
            id="NULL becomes something",
        ),
        pytest.param(
            "derive_join_filter",
            join("left", S, second(where(T, "v = 1")), "v = v2"),
            id="what is known of the right side of a left join",
        ),
        pytest.param(
            "derive_join_filter",
            join("inner", where(S, "x = 1.0"), second(T), "x = x2"),
            id="floats that are equal and differ",
        ),
        pytest.param(
            "derive_join_filter",
            join("inner", where(S, "10 / v > 1"), second(T), "v = v2"),
            id="may fail on the other side",
        ),
        pytest.param(
            "merge_maps",
            select(select(S, "k", ("w", "upper(k)")), ("a", "w"), ("b", "w")),
            id="computed twice",
        ),
        pytest.param("push_map_below_window", select(BOUNDS, "k", "window_end"), id="bounds"),
        pytest.param(
            "push_map_below_window", select(window(S, 1, 2), ("w", "10 / v")), id="map may fail"
        ),
        pytest.param(
            "push_map_below_count_window",
            select(rows(S, 2, "k"), ("v", "v"), ("k", "k")),
            id="another order of ties",
        ),
        pytest.param(
            "push_map_below_count_window",
            select(rows(S, 2, "k", order="x"), "k", "v"),
            id="what is ordered by is gone",
        ),
        pytest.param(
            "push_map_below_top_k", select(top(S, 2), "v", "x"), id="another order of equals"
        ),
        pytest.param(
            "push_map_below_distinct", select(Distinct(input=S), "k", "v"), id="not injective"
        ),
        pytest.param(
            "push_map_below_set_operation",
            select(compare("difference", S, T), "k", "v"),
            id="a column is dropped",
        ),
        pytest.param("drop_needless_distinct", Distinct(input=window(ONCE, 2)), id="held twice"),
        pytest.param(
            "drop_needless_distinct",
            Distinct(input=window(ToStream(input=KEYED, kind="insertions"), 2)),
            id="not known to be points of one time",
        ),
        pytest.param(
            "drop_needless_distinct",
            Distinct(input=select(aggregate(S, ("k",), "n"), "n")),
            id="without the group",
        ),
        pytest.param("drop_hidden_distinct", aggregate(Distinct(input=S), ("k",), "n"), id="COUNT"),
        pytest.param(
            "drop_hidden_distinct", aggregate(Distinct(input=S), ("k",), "hi", "a"), id="AVG"
        ),
        pytest.param(
            "drop_hidden_distinct",
            Distinct(input=compare("difference", Distinct(input=S), T)),
            id="a difference counts",
        ),
        pytest.param(
            "drop_hidden_distinct",
            Distinct(input=top(Distinct(input=S), 2)),
            id="the first rows are counted",
        ),
        pytest.param(
            "drop_hidden_distinct",
            compare("intersection", S, Distinct(input=T)),
            id="an intersection counts",
        ),
        pytest.param("make_difference_strict", compare("difference", S, T), id="duplicates"),
        pytest.param(
            "fold_intersection",
            compare("strict difference", S, compare("strict difference", S, T)),
            id="strict differences of duplicates",
        ),
        pytest.param("fold_max_union", compare("max-union", S, ONCE), id="one has duplicates"),
        pytest.param(
            "make_anti_join_a_difference",
            join("anti", S, second(T), "k = k2 AND v = v2 AND x = x2"),
            id="NULL equals nothing",
        ),
        pytest.param(
            "make_anti_join_a_difference",
            join("anti", S, second(T), "k <=> k2 AND v <=> v2"),
            id="not all columns",
        ),
        pytest.param(
            "merge_semi_and_anti",
            Union(
                inputs=(join("semi", S, second(T), "v = v2"), join("anti", S, second(T), "k = k2"))
            ),
            id="two predicates",
        ),
        pytest.param(
            "factor_join_out_of_union",
            Union(
                inputs=(
                    join("anti", S, second(T), "v = v2"),
                    join("anti", S, second(ONCE), "v = v2"),
                )
            ),
            id="anti-joins with two streams",
        ),
        pytest.param("prune_columns", Distinct(input=S), id="distinct sees all columns"),
        pytest.param("prune_columns", select(Distinct(input=S), "k"), id="below distinct"),
        pytest.param("prune_columns", select(rows(S, 2, "k"), "k"), id="below a count window"),
        pytest.param(
            "drop_needless_cuts",
            window(Split(input=S, length=Duration(1)), 2),
            id="a split below a window",
        ),
        pytest.param(
            "push_grouping_below_join",
            aggregate(join("inner", S, second(T), "v = v2"), ("v",), "n"),
            id="no key",
        ),
        pytest.param(
            "push_grouping_below_join",
            aggregate(join("inner", S, second(aggregate(T, ("v",), "n")), "v = v2"), ("k",), "hi"),
            id="not grouped by the key",
        ),
        pytest.param(
            "push_grouping_below_join",
            aggregate(
                join("inner", S, second(aggregate(T, ("v",), "n")), "v = v2 AND x < n2"),
                ("v",),
                "hi",
            ),
            id="not only equations",
        ),
    ],
)
def test_a_rule_does_not_apply(rule: str, plan: Node) -> None:
    assert _rule(rule)(plan) is None


def _rule(name: str) -> Rule:
    return {each.__name__: each for each in (*rules.RULES, *rules.ALTERNATIVES)}[name]


@given(st.data())
def test_a_guard_is_not_taken_away(data: st.DataObject) -> None:
    """What may fail sees no row that it did not see before, whatever stands in between."""
    guarded = where(join("inner", where(S, "v <> 0"), second(T), "k = k2"), "10 / v > 1")
    plan = where(window(Union(inputs=(guarded, guarded)), 2), "v2 <> 0 AND 10 / v2 > 1")
    found = optimize(plan).node
    assert assert_same(plan, found, data.draw(inputs(plan))) is not None


def test_a_second_conjunct_that_may_fail_waits_for_the_first() -> None:
    plan = where(window(S, 2), "x > 1 AND 10 / v > 1")
    assert optimize(plan).node == window(where(S, "x > 1 AND 10 / v > 1"), 2)
    bounds = where(BOUNDS, "window_start > 1 AND 10 / v > 1")
    assert optimize(bounds).node == bounds


def test_points_stay_known_to_be_points() -> None:
    """A window with bounds refuses anything else, so a rule must not lose the property."""
    points = join("inner", Distinct(input=S), second(replace(POINTS, no_duplicates=True)), "k = k2")
    assert points.properties.only_points
    plan = TimeWindow(
        input=points, size=Duration(2), slide=Duration(2), columns=("window_start", "window_end")
    )
    found = optimize(Distinct(input=plan))
    assert found.node.schema.names == plan.schema.names
    pulled = _rule("pull_distinct_above_join")
    assert pulled(points) is not None
    assert optimize(plan, rules=(pulled,)).node == plan


def test_ties_are_broken_by_all_columns() -> None:
    """The map that is refused above would indeed change which rows are the last."""
    stream = LogicalStream.of([(("a", 1, 0.0), 1, 2), (("b", 0, 0.0), 1, 2)])
    before = select(rows(S, 1, order="x"), "v", "k")
    after = rows(select(S, "v", "k", "x"), 1, order="x")
    wrong = select(after, "v", "k")
    assert meaning(before, {"S": stream}) != meaning(wrong, {"S": stream})


def test_an_expression_that_would_become_too_long_is_left_alone() -> None:
    node: Node = S
    for _ in range(12):
        node = select(node, ("k", "concat(k, k)"), "v", "x")
    found = optimize(where(node, "k = 'a'")).node
    texts = [each.sql for at in found.walk() if isinstance(at, Map) for _, each in at.columns]
    assert max(map(len, texts)) <= 2_000
