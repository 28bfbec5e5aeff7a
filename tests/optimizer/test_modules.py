"""Plans with modules: they see the same events after every rewrite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.canonical import canonical
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import CountByStart, Hopping, Session, Snapshot, tumbling
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.union import Union
from anabranch.errors import StreamError
from anabranch.kernels.plan.pruning import needed_columns
from anabranch.language.bind.nulls import is_never_null
from anabranch.model.clock import INTEGERS
from anabranch.model.time import FOREVER, Duration
from anabranch.optimizer.common_parts import optimize_all
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.facts import facts, holds
from anabranch.optimizer.interning import Interner
from anabranch.optimizer.rules import RULES
from anabranch.optimizer.rules.push_filter_below_apply_module import (
    push_filter_below_apply_module,
)
from anabranch.optimizer.sharing import common_subplans
from anabranch.optimizer.statistics import SourceStatistics
from anabranch.optimizer.uniqueness import is_key, keys
from anabranch.testing import sources_of
from tests.optimizer.modules import WINDOWS, Histories, builtin, histories, history, told
from tests.optimizer.plans import (
    COMPUTED,
    ONCE,
    POINTS,
    SAFE,
    S,
    T,
    of,
    plans,
    select,
    where,
    window,
)

TEN: Final = tumbling(Duration(10))
BOUNDS: Final = ("w1", "w2")
CLIPS: Final = ("none", "left", "right", "full")


@st.composite
def chains(draw: st.DrawFn, steps: int = 5) -> Node:
    """What treats events one by one, over sources and over plans that put them together."""
    node: Node = draw(st.sampled_from([S, S, ONCE, POINTS]) | plans(steps=2))
    for _ in range(draw(st.integers(0, steps))):
        match draw(st.sampled_from(["filter", "map", "shift", "union", "distinct", "coalesce"])):
            case "filter":
                node = where(node, draw(st.sampled_from(SAFE)))
            case "map":
                node = select(node, *draw(st.sampled_from(COMPUTED)))
            case "shift":
                node = Shift(input=node, by=draw(st.integers(-1, 2)))
            case "union":
                other = select(draw(st.sampled_from([S, T, ONCE])), *node.schema.names)
                node = Union(inputs=(node, other))
            case "distinct":
                node = Distinct(input=node)
            case "coalesce":
                node = Coalesce(input=node)
    return node


@st.composite
def module_plans(draw: st.DrawFn) -> Node:
    """Modules over chains, below whatever reads their results."""
    by = draw(st.sampled_from([(), ("k",), ("k", "v")]))
    node: Node = told(
        draw(chains() | plans(steps=4)),
        draw(st.sampled_from(WINDOWS)),
        *by,
        clip=draw(st.sampled_from(CLIPS)),
        columns=draw(st.sampled_from([None, BOUNDS])),
    )
    if draw(st.booleans()):
        asked = ["n > 1", "hi > 0", *(["k = 'a'", "k IS NULL AND n < 3"] if by else [])]
        node = where(node, draw(st.sampled_from(asked)))
    match draw(st.sampled_from(["all", "some", "again"])):
        case "some":
            node = select(node, draw(st.sampled_from(["told", "n"])))
        case "again":
            named = select(node, ("k", "told"), ("v", "n"), ("x", "hi"))
            node = told(named, draw(st.sampled_from(WINDOWS)), "v")
    return node


@st.composite
def given_to(draw: st.DrawFn, *plans: Node) -> Histories:
    sources = {source.name: source for plan in plans for source in sources_of(plan)}
    return {name: draw(histories(source)) for name, source in sources.items()}


def said(plan: Node, streams: Histories) -> list[str] | None:
    """The events that leave, in some order; None where a condition fails for a row."""
    try:
        return sorted(map(repr, history(plan, streams)))
    except StreamError:
        return None


@given(st.data())
def test_modules_say_the_same_of_the_same_events_after_all_rules(data: st.DataObject) -> None:
    plan = data.draw(module_plans())
    streams = data.draw(given_to(plan))
    found = optimize(plan).node
    expected = said(plan, streams)
    assert expected is None or said(found, streams) == expected


def test_modules_see_rows_in_windows_as_they_are_when_columns_are_left_out() -> None:
    """Rows that differ in a column that nobody reads overlap, and stay two."""
    plan = told(window(POINTS, 2), tumbling(Duration(3)))
    streams = {POINTS.name: [(("a", 0, 0.5), 0, 1), (("b", 0, 0.5), 1, 2)]}
    expected = said(plan, streams)
    assert expected is not None
    assert "[0, 2)" in expected[0]
    assert "[1, 3)" in expected[0]
    assert said(optimize(plan).node, streams) == expected


@given(st.data())
def test_modules_say_the_same_after_any_rules(data: st.DataObject) -> None:
    plan = data.draw(module_plans())
    streams = data.draw(given_to(plan))
    rules = data.draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=5))
    found = optimize(plan, rules=rules, alternatives=()).node
    expected = said(plan, streams)
    assert expected is None or said(found, streams) == expected


@given(st.data())
def test_events_of_a_plan_in_canonical_form_stay_as_they_are(data: st.DataObject) -> None:
    plan = canonical(data.draw(chains()))
    streams = data.draw(given_to(plan))
    expected = said(plan, streams)
    assert expected is None or said(optimize(plan).node, streams) == expected


@given(st.data())
def test_plans_that_share_what_modules_see_say_the_same(data: st.DataObject) -> None:
    below = data.draw(chains())
    pair = [
        told(below, data.draw(st.sampled_from(WINDOWS)), "k"),
        told(where(below, "v > 1"), data.draw(st.sampled_from(WINDOWS))),
        select(window(below, 2), "k"),
    ]
    streams = data.draw(given_to(*pair))
    for before, after in zip(pair, optimize_all(pair)):
        expected = said(before, streams)
        if isinstance(before, ApplyOperator) and expected is not None:
            assert said(after.node, streams) == expected


WRONG: Final[Mapping[str, tuple[Node, Node, list[Any]]]] = {
    "a condition on a column that is no group": (
        where(told(S, Snapshot(), "k"), "hi > 1"),
        told(where(S, "x > 1"), Snapshot(), "k"),
        [(("a", 1, 2.0), 1, 5), (("a", 2, 0.5), 1, 5)],
    ),
    "a condition on a result": (
        where(told(S, Snapshot(), "k"), "n > 1"),
        told(where(S, "v > 1"), Snapshot(), "k"),
        [(("a", 2, 2.0), 1, 5)],
    ),
    "a condition on the window": (
        where(told(S, Session(Duration(2)), "k", columns=BOUNDS), "w1 > 1"),
        told(where(S, "v > 1"), Session(Duration(2)), "k", columns=BOUNDS),
        [(("a", 2, 2.0), 1, 2)],
    ),
    "a map below a coalesce": (
        told(select(Coalesce(input=S), "v", "x"), Snapshot()),
        told(Coalesce(input=select(S, "v", "x")), Snapshot()),
        [(("a", 1, 2.0), 1, 3), (("b", 1, 2.0), 3, 6)],
    ),
    "a map below a split": (
        told(select(Split(input=POINTS, length=Duration(3)), "v", "x"), Snapshot()),
        told(Split(input=select(POINTS, "v", "x"), length=Duration(3)), Snapshot()),
        [(("a", 1, 0.5), 0, 1), (("b", 1, 0.5), 1, 2)],
    ),
    "a distinct that only puts together": (
        told(Distinct(input=ONCE), Snapshot()),
        told(ONCE, Snapshot()),
        [(("a", 1, 2.0), 1, 3), (("a", 1, 2.0), 3, 6)],
    ),
    "a coalesce that is left out": (
        told(Coalesce(input=S), CountByStart(1)),
        told(S, CountByStart(1)),
        [(("a", 1, 2.0), 1, 3), (("a", 1, 2.0), 3, 6)],
    ),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_tempting_rewrite_is_wrong_and_not_made(name: str) -> None:
    plan, tempting, events = WRONG[name]
    streams = {source.name: events for source in sources_of(plan)}
    assert said(plan, streams) != said(tempting, streams)
    assert said(optimize(plan).node, streams) == said(plan, streams)


APART: Final[Mapping[str, tuple[Node, Node, list[Any]]]] = {
    "a group beside empty windows": (
        where(told(POINTS, TEN, "k", empty=True), "k = 'a'"),
        told(where(POINTS, "k = 'a'"), TEN, "k", empty=True),
        [(("a", 1, 2.0), 1, 2), (("b", 1, 2.0), 35, 36)],
    ),
    "a group with events that never end": (
        where(told(S, TEN, "k"), "k = 'a'"),
        told(where(S, "k = 'a'"), TEN, "k"),
        [(("a", 1, 2.0), 1, int(FOREVER)), (("b", 1, 2.0), 35, 36)],
    ),
}


@pytest.mark.parametrize("name", sorted(APART))
def test_windows_of_a_group_do_not_show_how_far_others_go(name: str) -> None:
    plan, wanted, events = APART[name]
    streams = {source.name: events for source in sources_of(plan)}
    assert push_filter_below_apply_module(plan) == wanted
    assert said(plan, streams) == said(wanted, streams)


def test_a_condition_on_the_group_moves_below_modules() -> None:
    plan = where(told(POINTS, TEN, "k", columns=BOUNDS), "k = 'a' AND n > 1 AND w1 > 5")
    found = push_filter_below_apply_module(plan)
    assert isinstance(found, Filter)
    assert found.predicate.sql == "n > 1 AND w1 > 5"
    assert isinstance(found.input, ApplyOperator)
    assert isinstance(found.input.input, Filter)
    assert found.input.input.predicate.sql == "k = 'a'"


@pytest.mark.parametrize(
    ("options", "predicate"),
    [
        ({"group_filter": False}, "k = 'a'"),
        ({"errors": "quarantine"}, "k = 'a'"),
        ({}, "CAST(k AS INT) = 1"),
        ({}, "n > 1"),
        ({}, "1 = 1"),
    ],
)
def test_a_condition_stays_above_modules(options: dict[str, Any], predicate: str) -> None:
    plan = told(POINTS, TEN, "k", **options)
    assert push_filter_below_apply_module(where(plan, predicate)) is None


def test_a_condition_stays_above_modules_without_groups() -> None:
    assert push_filter_below_apply_module(where(told(POINTS, TEN), "n > 1")) is None


def test_a_condition_on_a_computed_group_moves_along() -> None:
    plan = told(S, Snapshot(), "k")
    plan = replace(plan, group_by=(("half", of("v % 2", S)),))
    found = push_filter_below_apply_module(where(plan, "half = 1"))
    assert isinstance(found, ApplyOperator)
    assert isinstance(found.input, Filter)
    assert found.input.predicate.sql == "(v % 2) = 1"


def test_only_groups_and_arguments_are_read() -> None:
    calls = (builtin(S, "max", "x", "hi"),)
    plan = ApplyOperator.over(S, window=TEN, calls=calls, group_by=(("k", of("k", S)),))
    found = optimize(plan).node
    assert isinstance(found, ApplyOperator)
    assert isinstance(found.input, Map)
    assert found.input.schema.names == ["k", "x"]
    assert needed_columns(plan) == {"S": frozenset({"k", "x"})}
    assert needed_columns(ApplyOperator.over(Coalesce(input=S), window=TEN, calls=calls)) == {
        "S": None
    }


def test_a_module_that_may_fail_stays_where_failing_leaves_windows_out() -> None:
    plan = select(told(S, TEN, errors="skip"), "n")
    (below,) = optimize(plan).node.inputs
    assert isinstance(below, ApplyOperator)
    assert len(below.calls) == 3


def test_one_row_per_group_and_window_is_known_to_be_unique() -> None:
    assert is_key(["k"], told(S, TEN, "k"))
    hopping = Hopping(Duration(4), Duration(2))
    assert not keys(told(S, hopping, "k"))
    assert is_key(["k", *BOUNDS], told(S, hopping, "k", columns=BOUNDS))
    assert is_key([], told(S, TEN))


@given(st.data())
def test_what_is_said_to_be_unique_is(data: st.DataObject) -> None:
    columns = data.draw(st.sampled_from([None, BOUNDS]))
    by = data.draw(st.sampled_from([(), ("k",)]))
    plan = told(S, data.draw(st.sampled_from(WINDOWS)), *by, columns=columns)
    found = history(plan, data.draw(given_to(plan)))
    for key in keys(plan):
        places = [plan.schema.names.index(name) for name in sorted(key)]
        for row, start, end in found:
            same = [
                other
                for other, begin, finish in found
                if begin < end and finish > start and all(other[at] == row[at] for at in places)
            ]
            assert len(same) == 1


def test_what_is_known_of_groups_is_known_of_results() -> None:
    plan = told(where(S, "k = 'a' AND v > 1"), TEN, "k")
    assert [fact.sql for fact in facts(plan, frozenset(["k", "n"]))] == ["k = 'a'"]
    assert holds(plan, of("k = 'a'", plan))
    assert not holds(plan, of("hi > 1", plan))


def test_a_result_may_be_null_where_the_column_of_that_name_is_not() -> None:
    counted = select(S, "k", ("v", "1"), ("x", "1"))
    plan = told(counted, TEN, "v", columns=BOUNDS)
    named = replace(plan, calls=(replace(plan.calls[2], names=("x",)),))
    assert [is_never_null(named, name) for name in ("v", "w1", "x")] == [True, True, False]


def test_equal_plans_with_modules_are_one() -> None:
    interner = Interner()
    one, again = (told(where(S, "v > 1"), TEN, "k") for _ in range(2))
    assert interner.intern(one) is interner.intern(again)
    assert interner.intern(one) is not interner.intern(told(where(S, "v > 1"), TEN, "v"))
    assert common_subplans([select(one, "n"), select(again, "told")]) == [one]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: str(window.label(INTEGERS)))
def test_a_plan_with_modules_has_a_price(window: Any) -> None:
    statistics = {"S": SourceStatistics(rate=2.0, lifetime=5.0, distinct={"k": 4.0})}
    model = CostModel(statistics)
    plan = told(S, window, "k")
    out, cost = model.estimate(plan), model.cost(plan)
    assert 0 < out.stream.rate < 100
    assert 0 < out.stream.lifetime < 1_000
    assert out.distinct == {"k": 4.0}
    assert cost.work > 0
    assert cost.state > 0


def test_longer_windows_hold_more_and_more_overlap_is_more_work() -> None:
    model = CostModel()
    short, long, dense = (
        model.cost(told(POINTS, Hopping(Duration(size), Duration(hop)), "k"))
        for size, hop in ((10, 10), (100, 100), (100, 10))
    )
    assert short.state < long.state
    assert long.work < dense.work


def test_rows_out_are_windows_with_events() -> None:
    busy = CostModel({"P": SourceStatistics(rate=100.0)})
    assert busy.estimate(told(POINTS, TEN)).stream.rate == pytest.approx(0.1)
    rare = CostModel({"P": SourceStatistics(rate=1e-4)})
    assert rare.estimate(told(POINTS, TEN)).stream.rate == pytest.approx(1e-4, rel=0.2)


def test_schemas_of_calls_follow_the_input() -> None:
    plan = told(S, TEN, "k")
    found = optimize(where(select(plan, "k", "n"), "n > 0")).node
    (module,) = [each for each in found.walk() if isinstance(each, ApplyOperator)]
    for call in module.calls:
        assert all(each.schema == module.input.schema for each in call.arguments)
    assert module.schema.field("n").type == pa.int64()
