"""The order of joins."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.join_order import chain_of, reorder_joins
from anabranch.optimizer.statistics import SourceStatistics, Statistics
from tests.optimizer.plans import KEYED, S, T, assert_same, inputs, join, select, where, window


def source(number: int) -> Source:
    schema = pa.schema([(f"a{number}", pa.int64()), (f"b{number}", pa.int64())])
    return Source(name=f"R{number}", schema=schema)


def line(many: int) -> Node:
    """R0 - R1 - R2 - ...: each joined with the next."""
    node: Node = source(0)
    for number in range(1, many):
        node = join("inner", node, source(number), f"b{number - 1} = a{number}")
    return node


def rates(*rates: float) -> Statistics:
    return {
        f"R{number}": SourceStatistics(
            rate=rate,
            lifetime=10.0,
            distinct={f"a{number}": 100, f"b{number}": 100},
        )
        for number, rate in enumerate(rates)
    }


def order(plan: Node) -> list[str]:
    return [node.name for node in plan.walk() if isinstance(node, Source)]


def products(plan: Node) -> int:
    return sum(isinstance(node, Join) and node.predicate is None for node in plan.walk())


def test_small_streams_are_joined_first() -> None:
    known = rates(1000.0, 1000.0, 0.01)
    found = optimize(line(3), statistics=known)
    assert "reorder_joins" in {step.rule for step in found.steps}
    (top,) = [node for node in found.node.walk() if isinstance(node, Join)][-1:]
    assert isinstance(top.right, Join)
    assert order(top.right) == ["R1", "R2"]
    assert found.node.schema.names == line(3).schema.names


def test_the_order_stays_where_nothing_is_gained() -> None:
    assert optimize(line(4), statistics=rates(1.0, 1.0, 1.0, 1.0)).node == line(4)
    cheap_first = rates(0.01, 1000.0, 1000.0)
    assert order(optimize(line(3), statistics=cheap_first).node) == ["R0", "R1", "R2"]


def test_products_are_avoided() -> None:
    """R0 x R2 first would be a product, which the text begins with."""
    both = join("inner", source(0), source(2), None)
    plan = join("inner", both, source(1), "b0 = a1 AND b1 = a2")
    found = optimize(plan)
    assert products(plan) == 1
    assert products(found.node) == 0
    assert found.node.schema.names == plan.schema.names


def test_what_nothing_connects_is_multiplied_last() -> None:
    node = join("inner", source(0), source(1), None)
    node = join("inner", node, source(2), "b0 = a2")
    found = reorder_joins(node, CostModel(rates(10.0, 10.0, 10.0)))
    assert found is not None
    assert products(found) == 1
    (top,) = [each for each in found.walk() if isinstance(each, Join)][-1:]
    assert top.predicate is None


@pytest.mark.parametrize("many", [8, 9, 12])
def test_many_joins_take_little_time(many: int) -> None:
    speeds = [1000.0 / (1 + number) for number in range(many)]
    found = optimize(line(many), statistics=rates(*speeds))
    assert sorted(order(found.node)) == sorted(order(line(many)))
    assert products(found.node) == 0


def test_maps_that_only_drop_columns_are_seen_through() -> None:
    first = select(join("inner", source(0), source(1), "b0 = a1"), "a0", "b1")
    plan = join("inner", first, source(2), "b1 = a2")
    chain = chain_of(plan)
    assert chain is not None
    assert [each.label for each in chain.inputs] == ["Source R0", "Source R1", "Source R2"]
    assert [each.sql for each in chain.conditions] == ["b0 = a1", "b1 = a2"]
    renamed = select(join("inner", source(0), source(1), "b0 = a1"), ("z", "a0"), "b1")
    other = chain_of(join("inner", renamed, source(2), "b1 = a2"))
    assert other is not None
    assert len(other.inputs) == 2


def test_what_must_stay_in_its_place_is_left_alone() -> None:
    first = join("inner", source(0), source(1), "b0 = a1")
    risky = join("inner", first, source(2), "b1 = a2 AND 10 / b0 > a2")
    assert chain_of(risky) is None
    sent = Join(kind="inner", left=first, right=source(2), broadcast="right")
    assert chain_of(sent) is None
    assert chain_of(join("left", first, source(2), "b1 = a2")) is None
    one_sided = join("inner", first, source(2), "b1 = a2 AND a2 > 1")
    assert chain_of(one_sided) is None


@given(st.data())
def test_any_order_means_the_same(data: st.DataObject) -> None:
    parts = [
        select(S, ("k1", "k"), ("v1", "v")),
        select(where(T, "v > 0"), ("k2", "k"), ("v2", "v")),
        select(window(KEYED, 2), ("k3", "k"), ("v3", "v")),
    ]
    first = join("inner", parts[0], parts[1], data.draw(st.sampled_from(["k1 = k2", None])))
    texts = ["v1 = v3 AND v2 = v3", "k2 = k3", "v1 < v3 AND k1 = k3 AND k1 = k2"]
    plan = join("inner", first, parts[2], data.draw(st.sampled_from(texts)))
    speed = st.sampled_from([0.01, 1.0, 1000.0])
    known = {name: SourceStatistics(rate=data.draw(speed)) for name in ("S", "T", "K")}
    found = reorder_joins(plan, CostModel(known))
    streams = data.draw(inputs(plan))
    if found is not None:
        assert_same(plan, found, streams)
    assert_same(plan, optimize(plan, statistics=known).node, streams)
