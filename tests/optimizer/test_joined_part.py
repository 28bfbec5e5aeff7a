"""A join of some streams is found within a join of more, in whatever order both are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.union import columns_of
from anabranch.optimizer.common_parts import optimize_all
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.meaning.unify import unify
from anabranch.optimizer.statistics import PlanStatistics, SourceStatistics
from tests.optimizer.plans import (
    FEW,
    S,
    aggregate,
    assert_same,
    inputs,
    join,
    select,
    where,
    window,
)

STREAMS: Final[Mapping[str, Node]] = {
    name: select(window(replace(S, name=name.upper()), 4), (name, "k"), (f"{name}v", "v"))
    for name in "abcd"
}
CONDITIONS: Final = {
    "ab": "a = b",
    "ac": "a = c",
    "ad": "a = d",
    "bc": "b = c",
    "bd": "b = d",
    "cd": "c = d",
}


def joined(order: str, conditions: list[str], *, above: bool = False) -> Node:
    """Streams joined one after the other, each condition as soon as it can be asked, or above."""
    found: Node = STREAMS[order[0]]
    waiting = list(conditions)
    for name in order[1:]:
        both = [*found.schema.names, *STREAMS[name].schema.names]
        now = [] if above else [each for each in waiting if columns_in(each) <= set(both)]
        waiting = [each for each in waiting if each not in now]
        found = join("inner", found, STREAMS[name], " AND ".join(now) or None)
    return where(found, " AND ".join(waiting)) if waiting else found


def columns_in(condition: str) -> set[str]:
    known = [name for each in STREAMS.values() for name in each.schema.names]
    return {name for name in known if name in condition.replace("(", " ").replace(")", " ").split()}


def joins(plan: Node) -> set[Join]:
    return {node for node in plan.walk() if isinstance(node, Join)}


@pytest.mark.parametrize("first", ["ab", "ba"])
@pytest.mark.parametrize("order", ["".join(each) for each in permutations("abc")])
@FEW
@given(data=st.data())
def test_a_join_of_two_is_found_in_every_order_of_three(
    first: str, order: str, data: st.DataObject
) -> None:
    known = joined(first, ["NOT a <> b"])
    written = joined(order, ["a = b", "b = c"], above=data.draw(st.booleans()))
    kept, found = unify([known, written])
    assert kept == known
    assert known in set(found.walk())
    assert len(joins(found)) == 2
    assert columns_of(found.schema) == columns_of(written.schema)
    assert_same(written, found, data.draw(inputs(written)))
    # The optimizer keeps it, too: the group computes two joins, not three.
    best = optimize_all([kept, found])
    assert len(joins(best[0].node) | joins(best[1].node)) == 2


@given(st.data())
def test_joins_over_known_joins_mean_what_they_did(data: st.DataObject) -> None:
    """Of up to four streams, in any order, with any conditions, over any joins before them."""
    plans = [drawn(data) for _ in range(3)]
    for plan, found in zip(plans, unify(plans)):
        assert columns_of(found.schema) == columns_of(plan.schema)
        assert_same(plan, found, data.draw(inputs(plan)))


def drawn(data: st.DataObject) -> Node:
    order = data.draw(st.permutations("abcd"))[: data.draw(st.integers(2, 4))]
    equal = [CONDITIONS["".join(sorted(pair))] for pair in pairwise(order)]
    more = [f"{name}v > 1" for name in order]
    more += [f"{order[0]}v BETWEEN 1 AND {order[1]}v", f"{order[1]}v < {order[0]}v"]
    asked = data.draw(st.lists(st.sampled_from(more), max_size=2, unique=True))
    return joined("".join(order), [*equal, *asked], above=data.draw(st.booleans()))


def test_the_largest_known_join_is_read() -> None:
    two = joined("ab", ["a = b"])
    three = joined("cba", ["b = c", "a = b"])
    found = unify([two, three, joined("dbca", ["b = d", "b = c", "a = b"])])
    assert two in set(found[1].walk())
    assert found[1] in set(found[2].walk())
    assert len(set().union(*map(joins, found))) == 3


def test_the_same_join_is_written_twice() -> None:
    """The second author reads what the first one reads, though more is known by then."""
    written = joined("acb", ["a = b", "b = c"], above=True)
    others = [joined("ab", ["a = b"]), written, joined("bc", ["b = c"]), written]
    found = unify(others)
    assert found[1] == found[3]


def test_a_condition_that_only_the_known_join_has_is_not_given_up() -> None:
    strict = joined("ab", ["a = b", "av < bv"])
    written = joined("acb", ["a = b", "b = c"])
    assert unify([strict, written])[1] == written
    filtered = join("inner", where(STREAMS["a"], "av > 1"), STREAMS["b"], "a = b")
    assert unify([filtered, written])[1] == written


def test_a_condition_that_both_have_is_asked_once() -> None:
    strict = joined("ab", ["a = b", "av < bv"])
    _, found = unify([strict, joined("acb", ["a = b", "b = c", "bv > av", "cv > 1"])])
    assert strict in set(found.walk())
    texts = [node.predicate.sql for node in joins(found) if node.predicate is not None]
    assert sorted(texts) == ["a = b AND av < bv", "b = c AND cv > 1"]


def test_other_joins_are_left_alone() -> None:
    known = joined("ab", ["a = b"])
    for kind in ("left", "full", "semi", "anti"):
        inner = joined("ac", ["a = c"])
        written = join(kind, inner, STREAMS["b"], "a = b")
        assert unify([known, written])[1] == written
    failing = joined("acb", ["a = b", "b = c", "10 / av > bv"])
    assert unify([known, failing])[1] == failing


def test_a_join_that_costs_more_over_the_known_one_stays() -> None:
    """Few rows of c meet those of a: joined first they leave little for b."""
    known = joined("ab", ["a = b"])
    written = joined("acb", ["a = c", "a = b"])
    rare = PlanStatistics(sources={"C": SourceStatistics(rate=0.01)})
    assert unify([known, written], statistics=rare)[1] == written
    usual = PlanStatistics(sources={"C": SourceStatistics(rate=1_000.0)})
    assert known in set(unify([known, written], statistics=usual)[1].walk())


def test_an_earlier_version_did_not_look_for_it() -> None:
    known, written = joined("ab", ["a = b"]), joined("acb", ["a = b", "b = c"])
    assert unify([known, written], "earlier")[1] == written


def test_what_is_above_stays_above() -> None:
    known = joined("ab", ["a = b"])
    written = aggregate(
        select(
            joined("acb", ["a = b", "b = c"]), ("k", "a"), ("v", "bv"), ("x", "CAST(cv AS DOUBLE)")
        ),
        ("k",),
        "n",
        "lo",
    )
    _, found = unify([known, written])
    assert known in set(found.walk())
    assert columns_of(found.schema) == columns_of(written.schema)
    assert optimize(found).node.schema == written.schema
