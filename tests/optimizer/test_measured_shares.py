"""What was measured of conditions counts in any plan that evaluates them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.expressions.expression import Expression
from anabranch.model.identity import fingerprint
from anabranch.model.time import Duration
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.join_order import reorder_joins
from anabranch.optimizer.origins import origin, predicate_key, telling_columns
from anabranch.optimizer.statistics import PlanStatistics, SourceStatistics


def source(name: str) -> Source:
    lower = name.lower()
    schema = pa.schema([(f"{lower}k", pa.int64()), (f"{lower}v", pa.int64())])
    return Source(name=name, schema=schema, insert_only=True, only_points=True)


def window(node: Node, size: int = 10) -> Node:
    return TimeWindow(input=node, size=Duration(size))


def join(left: Node, right: Node, on: str) -> Join:
    bare = Join(kind="inner", left=left, right=right)
    return Join(kind="inner", left=left, right=right, predicate=Expression.parse(on, bare.both))


A, B, C = (window(source(name)) for name in "ABC")
FIRST = join(join(A, B, "ak = bk"), C, "bk = ck")


def renamed(node: Node, **names: str) -> Map:
    columns = tuple((new, Expression.column(old, node.schema)) for new, old in names.items())
    return Map(input=node, columns=columns)


def test_a_condition_is_called_by_the_columns_of_sources() -> None:
    plain = join(A, B, "ak = bk")
    other = join(renamed(B, x="bk", y="bv"), renamed(A, z="ak"), "x = z")
    assert predicate_key(plain) == predicate_key(other) == '"A.ak" = "B.bk"'


def test_computed_columns_are_called_by_what_they_compute() -> None:
    double = Map(input=A, columns=(("d", Expression.parse("ak * 2", A.schema)),))
    assert origin(double, "d") == '"A.ak" * 2'


def test_conditions_have_no_order() -> None:
    both = join(A, B, "ak = bk AND av < bv")
    swapped = join(A, B, "av < bv AND bk = ak")
    assert predicate_key(both) == predicate_key(swapped)
    assert predicate_key(both) != predicate_key(join(A, B, "ak = bk"))


def test_columns_of_conditions_and_groups_tell() -> None:
    groups = (("g", Expression.parse("bv", FIRST.schema)),)
    counts = (("n", AggregateCall(function="count")),)
    plan = Aggregation(input=FIRST, group_by=groups, aggregates=counts)
    assert telling_columns(plan) == {"A": ("ak",), "B": ("bk", "bv"), "C": ("ck",)}


def test_a_measured_share_is_the_rate_of_the_output() -> None:
    statistics = PlanStatistics(
        sources={name: SourceStatistics(rate=5.0) for name in "AB"},
        shares={'"A.ak" = "B.bk"': 0.25},
    )
    model = CostModel(statistics)
    # 5 per chronon meet what lived 10 chronons, on both sides: 5 * 50 + 5 * 50 pairs.
    assert model.estimate(join(A, B, "ak = bk")).stream.rate == pytest.approx(500 * 0.25)


def test_a_measured_filter_counts_like_a_join() -> None:
    one = source("A")
    filtered = Filter(input=one, predicate=Expression.parse("av > 3", one.schema))
    key = predicate_key(filtered)
    assert key is not None
    model = CostModel(PlanStatistics(shares={key: 0.5}))
    assert model.estimate(filtered).stream.rate == pytest.approx(
        model.estimate(one).stream.rate / 2
    )


def test_a_measured_ratio_counts_for_the_same_operator_only() -> None:
    counts = (("n", AggregateCall(function="count")),)
    every = Aggregation(input=A, group_by=(), aggregates=counts)
    other = Aggregation(input=B, group_by=(), aggregates=counts)
    statistics = PlanStatistics(ratios={fingerprint(every): 0.125})
    model, plain = CostModel(statistics), CostModel()
    assert model.estimate(every).stream.rate == pytest.approx(model.estimate(A).stream.rate / 8)
    assert model.estimate(other) == plain.estimate(other)


@pytest.mark.parametrize("rare", ["AB", "BC"])
def test_the_rare_condition_is_evaluated_first(rare: str) -> None:
    shares = {'"A.ak" = "B.bk"': 0.5, '"B.bk" = "C.ck"': 0.5}
    shares['"A.ak" = "B.bk"' if rare == "AB" else '"B.bk" = "C.ck"'] = 1e-5
    sources = {name: SourceStatistics(rate=5.0) for name in "ABC"}
    model = CostModel(PlanStatistics(sources=sources, shares=shares))
    for written in (FIRST, join(A, join(B, C, "bk = ck"), "ak = bk")):
        found = reorder_joins(written, model) or written
        joins = [each for each in found.walk() if isinstance(each, Join)]
        lowest = min(joins, key=lambda each: len(list(each.walk())))
        names = {each.name for each in lowest.walk() if isinstance(each, Source)}
        assert names == set(rare)
