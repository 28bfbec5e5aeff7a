"""What a plan says about its output before it runs holds when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration, Time
from anabranch.testing import batchings, streams
from tests.kernels.plans import SCHEMA, aggregate, plans


def all_columns(over: Node) -> Map:
    return Map(
        input=over,
        columns=tuple((f"{n}2", Expression.parse(n, over.schema)) for n in over.schema.names),
    )


def join(left: Node, kind: JoinKind) -> Join:
    return Join(kind=kind, left=left, right=all_columns(left))


def points(node: Node) -> Node:
    return node if node.properties.only_points else ToStream(input=node, kind="insertions")


def shown(node: Node, size: int, slide: int) -> TimeWindow:
    return TimeWindow(
        input=points(node), size=Duration(size), slide=Duration(slide), columns=("ws", "we")
    )


STEPS: dict[str, Callable[[Node], Node]] = {
    "filter": lambda node: Filter(
        input=node, predicate=Expression.parse("v IS NOT NULL", node.schema)
    ),
    "map": lambda node: Map(input=node, columns=(("k", Expression.parse("k", node.schema)),)),
    "rename": all_columns,
    "union": lambda node: Union(inputs=(node, node)),
    "window": lambda node: TimeWindow(input=node, size=Duration(3)),
    "slide": lambda node: TimeWindow(input=node, size=Duration(4), slide=Duration(3)),
    "tumble": lambda node: shown(node, 3, 3),
    "tumble by instants": lambda node: shown(node, 1, 1),
    "hop": lambda node: shown(node, 5, 2),
    "hop with gaps": lambda node: shown(node, 2, 3),
    "session": lambda node: SessionWindow(
        input=points(node), gap=Duration(3), columns=("ws", "we")
    ),
    "distinct": lambda node: Distinct(input=node),
    "coalesce": lambda node: Coalesce(input=node),
    "difference": lambda node: SetOperation(
        kind="difference", left=node, right=Shift(input=node, by=1)
    ),
    "max-union": lambda node: SetOperation(kind="max-union", left=node, right=node),
    "group": lambda node: aggregate(node, ("k",), "n"),
    "scalar": lambda node: Aggregation(
        input=node, aggregates=(("n", AggregateCall(function="count")),)
    ),
    "inner join": lambda node: join(node, "inner"),
    "left join": lambda node: join(node, "left"),
    "semi join": lambda node: join(node, "semi"),
    "top": lambda node: TopK(
        input=node, k=1, order_by=((Expression.parse("v", node.schema), True, False),)
    ),
    "rows": lambda node: CountWindow(
        input=node, rows=2, order_by=(Expression.parse("k", node.schema),)
    ),
    "granularity": lambda node: Granularity(input=node, granule=Duration(3)),
    "split": lambda node: Split(input=node, length=Duration(2)),
    "istream": lambda node: ToStream(input=node, kind="insertions"),
    "dstream": lambda node: ToStream(input=node, kind="deletions"),
    "signed": lambda node: ToSigned(input=node),
    "cleanse": lambda node: Cleanse(input=node),
    "clip": lambda node: Clip(input=node, start=Time(4)),
    "shift": lambda node: Shift(input=node, by=2),
    "lifetime": lambda node: AlterLifetime(input=node, at_most=Duration(2)),
}


def assert_holds(known: Properties, out: list[EventBatch]) -> None:
    meant = LogicalStream.of_batches(out)
    if known.insert_only:
        assert all((batch.end == batch.start).all() for batch in out)
    if known.only_points:
        lengths = [(batch.end - batch.start).tolist() for batch in out]
        lengths += [(batch.new_end - batch.start).tolist() for batch in out]
        assert {length for some in lengths for length in some} <= {0, 1}
    if known.no_duplicates:
        assert all(count <= 1 for steps in meant.steps.values() for _, count in steps)
    if known.single:
        assert all(sum(snapshot.values()) == 1 for _, _, snapshot in meant.segments())
    starts = [start for batch in out for start in batch.start.tolist()]
    if known.order != "none":
        assert starts == sorted(starts)
    if known.order == "strict":
        assert len(set(starts)) == len(starts)


@pytest.mark.parametrize("step", sorted(STEPS))
@given(data=st.data(), points=st.booleans(), inserts=st.booleans(), final=st.booleans())
def test_what_is_known_of_an_operator_holds(
    step: str, data: st.DataObject, points: bool, inserts: bool, final: bool
) -> None:
    # Bounded times: what is held for ever cannot be split.
    drawn = data.draw(
        streams(SCHEMA, max_size=10, only_points=points, insert_only=inserts, longest=6).flatmap(
            batchings
        )
    )
    node: Node = Source(name="S", schema=SCHEMA, insert_only=inserts, only_points=points)
    if data.draw(st.booleans()):
        first = data.draw(st.sampled_from(["distinct", "top", "istream", "inner join", "filter"]))
        if not (first == "inner join" and step.endswith("join")):
            node = STEPS[first](node)
    node = STEPS[step](node)
    emit: Literal["speculative", "final"] = "final" if final else "speculative"
    runner = LocalRunner(node, emit)
    assert_holds(node.properties.emitted(emit), [runner.step({"S": batch}) for batch in drawn])


@given(plans(), streams(SCHEMA, max_size=10, longest=6).flatmap(batchings))
def test_what_is_known_of_a_plan_holds(node: Node, batches: list[EventBatch]) -> None:
    runner = LocalRunner(node)
    assert_holds(node.properties, [runner.step({"S": batch}) for batch in batches])


def test_one_property_follows_from_another() -> None:
    single = Properties(single=True)
    assert single.no_duplicates
    assert single.keyed
    assert single.emitted("final").order == "strict"
    assert single.label == "at most one row at a time"
    assert Properties().label == "any"
    assert replace(Properties(insert_only=True), order="start").label == "insert-only, in order"
