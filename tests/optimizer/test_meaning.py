"""Sharing by meaning: equal forms mean equal streams, and tempting neighbours have other forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.clip import Clip
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.union import Union, columns_of
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts
from anabranch.model.time import Time
from anabranch.optimizer.failing import may_fail
from anabranch.optimizer.meaning.normal_form import NormalForms
from anabranch.optimizer.meaning.unify import put_in_place, unify
from anabranch.optimizer.rebuilding import rebuilt
from tests.optimizer.modules import WINDOWS, has_modules, telling
from tests.optimizer.plans import (
    FEW,
    POINTS,
    S,
    T,
    aggregate,
    assert_same,
    compare,
    inputs,
    join,
    plans,
    rows,
    second,
    select,
    top,
    where,
    window,
)


def together(*inputs: Node) -> Union:
    return Union(inputs=inputs)


A, B = select(S, ("a", "k"), ("av", "v")), select(T, ("b", "k"), ("bv", "v"))
C = select(POINTS, ("c", "k"), ("cv", "v"))
COUNTED = aggregate(S, ("k",), "n", "lo")

EQUAL: dict[str, tuple[Node, Node]] = {
    "conjuncts in another order": (
        where(COUNTED, "n > 1 AND lo = 2"),
        where(COUNTED, "lo = 2 AND n > 1"),
    ),
    "a conjunct twice": (
        where(COUNTED, "n > 1"),
        where(COUNTED, "n > 1 AND (n > 1 AND n > 1)"),
    ),
    "alternatives in another order": (
        where(COUNTED, "n > 1 OR (lo = 2 AND k = 'a')"),
        where(COUNTED, "('a' = k AND lo = 2) OR 1 < n"),
    ),
    "sides of a comparison": (
        where(COUNTED, "n > lo AND lo <=> 1 AND k <> 'a'"),
        where(COUNTED, "lo < n AND 1 <=> lo AND 'a' <> k"),
    ),
    "values of IN": (
        where(COUNTED, "k IN ('a', 'b') AND NOT (lo IN (1, 2))"),
        where(COUNTED, "NOT (lo IN (2, 1, 2)) AND k IN ('b', 'a')"),
    ),
    "a range and its bounds": (
        where(COUNTED, "n BETWEEN 1 AND lo"),
        where(COUNTED, "lo >= n AND n >= 1"),
    ),
    "a range and two filters": (
        where(COUNTED, "n BETWEEN 1 AND lo"),
        where(where(COUNTED, "lo >= n"), "1 <= n"),
    ),
    "the opposite of a comparison": (
        where(COUNTED, "NOT (n > lo)"),
        where(COUNTED, "n <= lo"),
    ),
    "the opposite of a comparison of floats": (
        where(aggregate(S, ("k",), "hi", "sx"), "NOT (hi > sx) AND NOT hi < 1"),
        where(aggregate(S, ("k",), "hi", "sx"), "hi <= sx AND 1 <= hi"),
    ),
    "the opposite of equal": (
        where(COUNTED, "n <> 1 AND lo IS DISTINCT FROM 2"),
        where(COUNTED, "NOT n = 1 AND NOT lo <=> 2"),
    ),
    "alternatives and IN": (
        where(COUNTED, "n = 1 OR n = 2"),
        where(COUNTED, "n IN (2, 1)"),
    ),
    "none of several and NOT IN": (
        where(COUNTED, "n NOT IN (1, 2)"),
        where(where(COUNTED, "n <> 2"), "NOT n = 1"),
    ),
    "De Morgan": (
        where(COUNTED, "NOT (n > 1 AND (lo = 2 OR k = 'a'))"),
        where(COUNTED, "n <= 1 OR NOT lo = 2 AND k <> 'a'"),
    ),
    "no less than not any": (
        where(COUNTED, "NOT (n > 1 OR lo = 2)"),
        where(where(COUNTED, "lo <> 2"), "n <= 1"),
    ),
    "a double negation": (
        where(COUNTED, "NOT (NOT (k IS NULL OR n > 1))"),
        where(COUNTED, "1 < n OR k IS NULL"),
    ),
    "constants": (
        where(COUNTED, "n > 5 + 5 AND 1 < 2"),
        where(COUNTED, "n > 2 * 5"),
    ),
    "a condition that always holds": (COUNTED, where(COUNTED, "2 > 1 OR n = 3")),
    "conditions in a projection": (
        Distinct(input=select(S, "k", ("x", "CASE WHEN NOT (v > 1 OR k = 'a') THEN x END"))),
        Distinct(input=select(S, "k", ("x", "CASE WHEN k <> 'a' AND v <= 1 THEN x END"))),
    ),
    "another spelling in a join": (
        join("left", A, B, "a = b AND av BETWEEN bv AND 5"),
        join("right", B, A, "NOT a <> b AND NOT (bv > av OR 2 + 3 < av)"),
    ),
    "two filters or one": (
        where(where(COUNTED, "n > 1"), "lo = 2"),
        where(COUNTED, "lo = 2 AND n > 1"),
    ),
    "a filter above or below a window": (
        where(window(S, 3), "v > 1"),
        window(where(S, "v > 1"), 3),
    ),
    "a filter above or below distinct": (
        where(Distinct(input=S), "v > 1"),
        Distinct(input=where(S, "v > 1")),
    ),
    "a filter above or below a clip": (
        where(Clip(input=window(S, 3), start=Time(2)), "v > 1"),
        Clip(input=window(where(S, "v > 1"), 3), start=Time(2)),
    ),
    "sides of a join": (join("inner", A, B, "a = b"), join("inner", B, A, "b = a")),
    "order of joins": (
        join("inner", join("inner", A, B, "a = b"), C, "b = c"),
        join("inner", A, join("inner", C, B, "c = b"), "b = a"),
    ),
    "a filter above or inside a join": (
        where(join("inner", A, B, None), "a = b AND av > 1"),
        join("inner", B, where(A, "av > 1"), "b = a"),
    ),
    "a stream with itself": (
        join("inner", where(A, "av > 1"), select(A, ("b", "a"), ("bv", "av")), "a = b"),
        join("inner", A, select(where(A, "1 < av"), ("b", "a"), ("bv", "av")), "b = a"),
    ),
    "left and right": (join("left", A, B, "a = b"), join("right", B, A, "b = a")),
    "sides of a full join": (join("full", A, B, "a = b"), join("full", B, A, "a = b")),
    "order of a union": (
        aggregate(together(S, T, POINTS), ("k",), "n"),
        aggregate(together(POINTS, together(T, S)), ("k",), "n"),
    ),
    "groups and aggregates in another order": (
        aggregate(S, ("k", "v"), "n", "hi"),
        aggregate(S, ("v", "k"), "hi", "n"),
    ),
    "other names": (
        aggregate(select(window(S, 3), "k", "v", "x"), ("k",), "n", "lo"),
        select(
            aggregate(select(window(S, 3), "x", "v", "k"), ("k",), "lo", "n"),
            *(("group", "k"), ("many", "n"), ("least", "lo")),
        ),
    ),
}

DIFFERENT: dict[str, tuple[Node, Node]] = {
    "sides of a left join": (join("left", A, B, "a = b"), join("left", B, A, "b = a")),
    "sides of a semi join": (
        join("semi", S, second(S), "v < v2"),
        select(join("semi", second(S), S, "v < v2"), ("k", "k2"), ("v", "v2"), ("x", "x2")),
    ),
    "sides of a difference": (compare("difference", S, T), compare("difference", T, S)),
    "a filter and a count window": (where(rows(S, 2), "v > 1"), rows(where(S, "v > 1"), 2)),
    "a filter and top-k": (where(top(S, 1), "v > 1"), top(where(S, "v > 1"), 1)),
    "columns and top-k": (
        top(S, 1, order="1"),
        select(top(select(S, "x", "v", "k"), 1, order="1"), "k", "v", "x"),
    ),
    "a condition of an outer join, and a filter": (
        join("left", A, B, "a = b AND av > 1"),
        where(join("left", A, B, "a = b"), "av > 1"),
    ),
    "less than and greater than": (where(COUNTED, "n < lo"), where(COUNTED, "n > lo")),
    "a window of a projection": (
        Distinct(input=select(S, "k")),
        select(Distinct(input=S), "k"),
    ),
    "a range and its bounds the other way round": (
        where(COUNTED, "n BETWEEN 1 AND lo"),
        where(COUNTED, "n BETWEEN lo AND 1"),
    ),
    "unknown is not false": (
        select(Distinct(input=S), "k", ("x", "v > 1")),
        select(Distinct(input=S), "k", ("x", "v > 1 IS TRUE")),
    ),
    "constants of several types": (
        where(COUNTED, "lo IN (9007199254740993, 1e0)"),
        where(COUNTED, "lo = 9007199254740993 OR lo = 1e0"),
    ),
    "which column": (
        join("inner", A, B, "a = b AND av < bv"),
        join("inner", A, B, "a = b AND bv < av"),
    ),
    "distinct below a union": (
        Distinct(input=together(S, T)),
        together(Distinct(input=S), Distinct(input=T)),
    ),
    "one column twice": (
        select(Distinct(input=S), ("a", "v"), ("b", "v")),
        select(Distinct(input=S), ("a", "v"), ("b", "k")),
    ),
}


@pytest.mark.parametrize("name", list(EQUAL))
@FEW
@given(data=st.data())
def test_what_means_the_same_has_one_form_and_one_plan(name: str, data: st.DataObject) -> None:
    first, second_ = EQUAL[name]
    forms = NormalForms()
    assert forms.of(first).key == forms.of(second_).key
    assert set(forms.of(first).columns) == set(forms.of(second_).columns)
    kept, found = unify([first, second_])
    assert kept is first or kept == first
    assert first in set(found.walk()), "the second reads the first"
    assert columns_of(found.schema) == columns_of(second_.schema)
    assert_same(second_, found, data.draw(inputs(second_)))


@pytest.mark.parametrize("name", list(DIFFERENT))
def test_a_tempting_neighbour_has_another_form(name: str) -> None:
    first, second_ = DIFFERENT[name]
    forms = NormalForms()
    assert forms.of(first).key != forms.of(second_).key
    assert unify([first, second_])[1] == second_


def test_a_part_that_may_fail_keeps_its_order() -> None:
    careful = where(COUNTED, "lo <> 0 AND 10 / lo > 1")
    careless = where(COUNTED, "10 / lo > 1 AND lo <> 0")
    forms = NormalForms()
    assert forms.of(careful).key != forms.of(careless).key
    assert unify([careful, careless])[1] == careless
    assert forms.of(careful) == forms.of(where(COUNTED, "0 <> lo AND 1 < 10 / lo"))


def test_sums_keep_their_order() -> None:
    one, other = (where(COUNTED, text) for text in ("lo * 1.0 + n + 1 > 2", "n + lo * 1.0 + 1 > 2"))
    forms = NormalForms()
    assert forms.of(one).key != forms.of(other).key


def test_what_readers_rely_on_is_not_given_up() -> None:
    """A window with columns asks for points, which only one of two equal plans promises."""
    sure = where(window(POINTS, 1), "v > 1")
    loose = Distinct(input=S)
    assert unify([loose, sure])[1] == sure


def test_a_leaf_stands_for_a_plan_in_another_order_of_columns() -> None:
    leaf = replace(S, name="results", schema=COUNTED.schema, no_duplicates=True)
    other = aggregate(S, ("k",), "lo", "n")
    found = put_in_place(where(other, "n > 1"), [(COUNTED, leaf)])
    assert [node.label for node in found.walk()] == [
        "Source results",
        "Map k, lo, n",
        "Filter n > 1",
    ]


def test_operators_that_see_events_keep_their_inputs() -> None:
    """Equal snapshots may be cut into other events, which a module tells apart."""
    first, second_ = (where(COUNTED, text) for text in ("n > 1 AND lo = 2", "lo = 2 AND n > 1"))
    assert unify([first, second_])[1] == first
    for window_ in WINDOWS:
        plans_ = [
            ApplyOperator(input=each, window=window_, calls=(telling(each, "lo"),))
            for each in (first, second_)
        ]
        assert unify(plans_)[1] == plans_[1]
        assert unify([plans_[0], plans_[0]])[1] == plans_[0]


@given(st.data())
def test_any_plan_written_differently_has_the_same_form(data: st.DataObject) -> None:
    plan = data.draw(plans())
    other = shuffled(plan, data)
    forms = NormalForms()
    if not has_modules(plan) and not joins_itself(plan, forms):
        shown = f"{explain_tree(plan)}\n{explain_tree(other)}"
        assert forms.of(plan).key == forms.of(other).key, shown
    assert_same(plan, other, streams := data.draw(inputs(plan)))
    _, found = unify([plan, other])
    assert_same(plan, found, streams)


@given(st.data())
def test_plans_that_are_unified_mean_what_they_did(data: st.DataObject) -> None:
    several = [data.draw(plans()) for _ in range(3)]
    for plan, found in zip(several, unify(several)):
        assert columns_of(found.schema) == columns_of(plan.schema)
        assert_same(plan, found, data.draw(inputs(plan)))


def joins_itself(plan: Node, forms: NormalForms) -> bool:
    """Whether equal streams are joined: which is which may be told by the order of columns alone.

    Operators that count on this order then have other forms over S ⋈ T and T ⋈ S, where both are
    the same stream. That shares less than it could, and is right.
    """
    inner = [node for node in plan.walk() if isinstance(node, Join) and node.kind == "inner"]
    leaves = [[forms.of(leaf).base for leaf in _leaves(node)] for node in inner]
    return any(len(set(own)) < len(own) for own in leaves)


def _leaves(node: Node) -> list[Node]:
    if isinstance(node, Join | Filter | Map):
        return [leaf for each in node.inputs for leaf in _leaves(each)]
    return [node]


def shuffled(node: Node, data: st.DataObject) -> Node:
    """The same plan by another author: conjuncts, sides and inputs in another order."""
    below = [shuffled(each, data) for each in node.inputs]
    now = rebuilt(node, below) if below else node
    match now:
        case Filter(predicate=predicate) if not may_fail(predicate):
            parts = data.draw(st.permutations(conjuncts(predicate)))
            if len(parts) > 1 and data.draw(st.booleans()):
                found: Node = now.input
                for part in parts:
                    found = Filter(input=found, predicate=part)
                return found
            return replace(now, predicate=conjoin(parts))
        case Union(inputs=several):
            return replace(now, inputs=tuple(data.draw(st.permutations(several))))
        case Join(kind="inner", left=left, right=right, broadcast=None) if _moves(now):
            other = Join(kind="inner", left=right, right=left, predicate=_over(now, right, left))
            names = now.schema.names
            columns = tuple((name, Expression.column(name, other.schema)) for name in names)
            return Map(input=other, columns=columns)
    return now


def _moves(node: Join) -> bool:
    return node.predicate is None or not may_fail(node.predicate)


def _over(node: Join, left: Node, right: Node) -> Expression | None:
    if node.predicate is None:
        return None
    return join("inner", left, right, node.predicate.sql).predicate
