"""Products with a condition above them are joins, whatever their text says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.explain import explain_tree
from anabranch.algebra.node import Node
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.meaning.products import without_products
from anabranch.optimizer.meaning.unify import unify
from tests.optimizer.plans import assert_same, inputs, join, plans, where
from tests.optimizer.test_joined_part import STREAMS, joined, joins

A, B, C = (STREAMS[name] for name in "abc")
PRODUCT = join("inner", A, B, None)


def shape(plan: Node) -> list[str]:
    return explain_tree(plan).split("\n")


def test_conditions_go_to_the_products_that_they_connect() -> None:
    three = join("inner", PRODUCT, C, None)
    found = without_products(where(three, "a = b AND av > 1 AND b = c AND cv < av"))
    assert [line.strip() for line in shape(found) if "Join" in line or "Filter" in line] == [
        "Filter av > 1",
        "Join b = c AND cv < av",
        "Join a = b",
    ]
    assert found.schema == three.schema


@pytest.mark.parametrize(
    "plan",
    [
        PRODUCT,
        where(PRODUCT, "av > 1"),
        where(PRODUCT, "10 / av > bv"),
        where(join("inner", A, B, "a = b"), "av < bv"),
        where(join("left", A, B, "a = b"), "av < bv"),
    ],
)
def test_others_stay(plan: Node) -> None:
    assert without_products(plan) == plan


@given(st.data())
def test_the_meaning_stays(data: st.DataObject) -> None:
    order = data.draw(st.permutations("abc"))
    conditions = data.draw(
        st.lists(
            st.sampled_from(["a = b", "b = c", "a = c", "av < cv", "av > 1", "cv = 2 OR a = b"]),
            unique=True,
        )
    )
    plan = joined("".join(order), conditions, above=True)
    assert_same(plan, without_products(plan), data.draw(inputs(plan)))


@given(st.data())
def test_any_plan_keeps_its_meaning(data: st.DataObject) -> None:
    plan = data.draw(plans())
    found = without_products(plan)
    assert found.schema == plan.schema
    assert_same(plan, found, data.draw(inputs(plan)))


def test_queries_share_the_join_and_not_the_product() -> None:
    several = [
        without_products(where(PRODUCT, f"a = b AND {more}")) for more in ("av > 1", "av > 2")
    ]
    first, second = unify(several)
    (shared,) = joins(first) & joins(second)
    assert shared.predicate is not None
    assert optimize(several[0]).node == optimize(where(PRODUCT, "a = b AND av > 1")).node
