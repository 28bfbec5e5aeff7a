"""The cost model, against worked numbers."""

from __future__ import annotations

import pytest

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.split import Split
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration
from anabranch.optimizer import characteristics as model
from anabranch.optimizer.characteristics import Characteristics as Stream
from anabranch.optimizer.cost import Cost, CostModel
from anabranch.optimizer.selectivity import selectivity
from anabranch.optimizer.statistics import SourceStatistics
from tests.optimizer.plans import (
    POINTS,
    SCHEMA,
    S,
    T,
    aggregate,
    compare,
    join,
    rows,
    second,
    select,
    top,
    where,
    window,
)


@pytest.mark.parametrize(
    ("found", "distance", "lifetime"),
    [
        (model.joined(Stream(1, 10), Stream(2, 30)), 0.05, 7.5),
        (model.joined(Stream(3, 60), Stream(1, 20)), 0.0375, 15),
        (model.aggregated(Stream(100, 6000, 1)), 50.50, 50.50),
        (model.aggregated(Stream(100, 6000, 100)), 115.35, 115.35),
        (model.aggregated(Stream(100, 6000, 1000)), 1000.0, 1000.0),
        (model.aggregated(Stream(500, 600, 10)), 252.9, 252.9),
        (model.grouped(Stream(10, 1000), 5), 5.098, 25.49),
        (model.united([Stream(2, 10), Stream(4, 40)]), 1.333, 20),
        (model.split(Stream(10, 1000), 100), 1, 100),
        (model.granulated(Stream(10, 20), 50), 25, 50),
        (model.distinct(Stream(2, 100), 20), 2, 40),
        (model.distinct(Stream(2, 100), 80), 2, 100),
        (model.filtered(Stream(2, 5), 0.5), 4, 5),
        (model.held(Stream(2, 1), 600), 2, 600),
        (model.held(Stream(2, 1), 5, 10), 4, 10),
        (model.counted(Stream(2, 1), 10), 2, 20),
        (model.counted(Stream(2, 1), 10, groups=3), 2, 60),
        (model.counted(Stream(2, 1), 2, slide=4), 4, 8),
    ],
)
def test_streams_look_as_worked_out(found: Stream, distance: float, lifetime: float) -> None:
    assert found.distance == pytest.approx(distance, rel=1e-3)
    assert found.lifetime == pytest.approx(lifetime, rel=1e-3)


def test_partial_sums_are_counted() -> None:
    assert model.partials(Stream(100, 6000, 1)) == pytest.approx(59.71, rel=1e-3)
    assert model.partials(Stream(100, 6000, 100)) == pytest.approx(38.11, rel=1e-3)
    assert model.partials(Stream(100, 6000, 1000)) == pytest.approx(6.0, rel=1e-3)
    one = model.of_group(Stream(10, 1000), 5)
    assert 5 * model.partials(one) == pytest.approx(99.06, rel=1e-3)


def test_a_chain_of_operators() -> None:
    """A window of ten minutes, seen every ten seconds, counted, joined with one of a minute."""
    counted = model.aggregated(model.granulated(model.held(Stream(2, 1), 600), 10))
    assert counted.distance == pytest.approx(10.0, rel=1e-3)
    found = model.joined(counted, model.held(Stream(0.5, 1), 60), 0.01)
    assert found.distance == pytest.approx(7.14, rel=1e-3)
    assert found.lifetime == pytest.approx(8.57, rel=1e-3)
    assert counted.live == pytest.approx(1.0, rel=0.05)


def test_a_hash_join_looks_at_fewer_pairs() -> None:
    fast = SourceStatistics(rate=100.0, lifetime=10.0, distinct={"k": 50})
    costs = CostModel({"S": fast, "T": fast})
    hashed = costs.cost(join("inner", S, second(T), "k = k2"))
    looped = costs.cost(join("inner", S, second(T), "k < k2"))
    assert hashed.state == pytest.approx(2000, rel=0.01)
    assert costs.estimate(join("inner", S, second(T), "k = k2")).stream.rate == pytest.approx(4000)
    # 200 000 pairs are looked at with one bucket, 4 000 with fifty.
    assert looped.work - hashed.work > 190_000


def test_statistics_of_sources_decide() -> None:
    costs = CostModel({"S": SourceStatistics(rate=7.0, distinct={"v": 10})})
    assert costs.estimate(S).stream.rate == 7
    assert costs.estimate(where(S, "v = 1")).stream.rate == pytest.approx(0.7)
    assert costs.estimate(T).stream.rate == 100
    clock = Source(name="C", schema=SCHEMA, timestamps=True, only_points=True)
    assert costs.estimate(clock).stream.rate == pytest.approx(100 / 1_000_000)
    table = Source(name="R", schema=SCHEMA, relation=True)
    assert costs.estimate(table).stream.live > 100


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("v = 1", 0.1),
        ("v <> 1", 0.9),
        ("v = 1 AND k = 'a'", 0.001),
        ("v = 1 OR v = 2", 0.19),
        ("v IN (1, 2, 3)", 0.3),
        ("v > 1", 1 / 3),
        ("NOT (v = 1)", 0.9),
        ("x IS NULL", 0.1),
        ("v BETWEEN 1 AND 2", 1 / 9),
        ("k LIKE 'a%'", 0.25),
        ("FALSE", 1e-6),
    ],
)
def test_conditions_take_a_part_of_the_rows(text: str, part: float) -> None:
    found = selectivity(Expression.parse(text, SCHEMA), {"v": 10.0})
    assert found == pytest.approx(part)


PLANS: list[Node] = [
    where(S, "v > 1"),
    select(S, "k", ("w", "v + 1")),
    Union(inputs=(S, T)),
    window(POINTS, 5),
    rows(POINTS, 3, "k"),
    Distinct(input=S),
    compare("difference", S, T),
    compare("max-union", S, T),
    aggregate(S, (), "n"),
    aggregate(window(POINTS, 5), ("k",), "hi"),
    top(S, 3, "k"),
    Split(input=S, length=Duration(2)),
    *(
        join(kind, S, second(T), "k = k2")
        for kind in ("inner", "left", "right", "full", "semi", "anti")
    ),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.label)
def test_every_operator_costs_something_finite(plan: Node) -> None:
    costs = CostModel()
    own, stream = costs.cost(plan), costs.estimate(plan).stream
    assert 0 < own.work < 1e9
    assert 0 <= own.state < 1e9
    assert 0 < stream.rate < 1e9
    assert 0 < stream.lifetime < 1e9


def test_what_occurs_twice_is_paid_once() -> None:
    costs = CostModel()
    shared = aggregate(S, ("k",), "n")
    both = join("inner", shared, second(shared), "k = k2")
    parts = [shared, second(shared), both]
    assert costs.total(both).work == pytest.approx(sum(costs.cost(each).work for each in parts))
    again = aggregate(Source(name="S", schema=SCHEMA), ("k",), "n")
    assert costs.total(shared, again) == costs.total(shared)


def test_work_counts_more_than_state() -> None:
    assert Cost(1.0, 15.0).weight == pytest.approx(Cost(2.0, 0.0).weight)
    assert Cost(1.0, 1.0) + Cost(2.0, 3.0) == Cost(3.0, 4.0)
