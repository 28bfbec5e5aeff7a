"""Answers per key follow from the rows of that key: by the meaning of plans."""

from __future__ import annotations

from typing import Final, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.modules import PLAIN
from tests.kernels.operators import OPERATORS, OTHER, POINTS, expression
from tests.kernels.plans import SCHEMA, SOURCE, aggregate
from tests.kernels.test_apply_operator import call

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.analysis.restricted import Partition, partitions, restricting_columns
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import tumbling
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload
from anabranch.model.time import Duration
from anabranch.testing.oracle import meaning, sources_of

PAYLOADS: Final[list[Payload]] = [
    ("a", 1, 0.5),
    ("a", 2, 1.5),
    ("b", 1, None),
    ("b", 2, 0.5),
    (None, 1, 0.5),
    (None, None, 1.5),
]
FIVE: Final = Duration(5)


def renamed(over: Node) -> Map:
    columns = tuple((f"{name}2", Expression.parse(name, over.schema)) for name in over.schema.names)
    return Map(input=over, columns=columns)


def joined(left: Node, right: Node, predicate: str | None, kind: JoinKind = "inner") -> Join:
    other = renamed(right)
    both = pa.schema([*left.schema, *other.schema])
    parsed = None if predicate is None else Expression.parse(predicate, both)
    return Join(kind=kind, left=left, right=other, predicate=parsed)


def averages(over: Node, size: int) -> Aggregation:
    return aggregate(TimeWindow(input=over, size=Duration(size)), ("k",), "s")


COMPOSED: Final[dict[str, Node]] = {
    "groups of a window": averages(SOURCE, 5),
    "groups of one column of two": aggregate(SOURCE, ("k", "v"), "sx"),
    "a group that is computed": Aggregation(
        input=SOURCE,
        group_by=(("w", expression("v % 2")),),
        aggregates=aggregate(SOURCE, (), "s").aggregates,
    ),
    "a group that was called otherwise": aggregate(
        Map(
            input=SOURCE,
            columns=(("k", expression("k")), ("v", expression("v")), ("x", expression("x"))),
        ),
        ("v",),
        "c",
    ),
    "groups of groups": Aggregation(
        input=aggregate(SOURCE, ("k", "v"), "sx"),
        group_by=(("k", Expression.parse("k", aggregate(SOURCE, ("k", "v"), "sx").schema)),),
        aggregates=(),
    ),
    "payloads once, the class gone": Distinct(
        input=Map(input=SOURCE, columns=(("v", expression("v")),))
    ),
    "a stream joined with itself by key": joined(SOURCE, SOURCE, "k = k2"),
    "a stream joined with itself by another column": joined(SOURCE, SOURCE, "k < k2"),
    "a union of two of which one is joined with all of the other": Union(
        inputs=(
            Map(
                input=joined(SOURCE, OTHER, None),
                columns=tuple(
                    (name, Expression.parse(name, joined(SOURCE, OTHER, None).schema))
                    for name in SCHEMA.names
                ),
            ),
            OTHER,
        )
    ),
    "windows of modules": ApplyOperator.over(
        POINTS, window=tumbling(FIVE), calls=(call(PLAIN),), group_by=(("k", expression("k")),)
    ),
    "windows of modules over all": ApplyOperator.over(
        POINTS, window=tumbling(FIVE), calls=(call(PLAIN),)
    ),
    "rows above a filter": Filter(
        input=averages(SOURCE, 3), predicate=Expression.parse("s > 1", averages(SOURCE, 3).schema)
    ),
}


def streams(*, points: bool) -> st.SearchStrategy[LogicalStream]:
    length = st.just(1) if points else st.integers(1, 5)
    event = st.tuples(st.sampled_from(PAYLOADS), st.integers(0, 9), length)
    return st.lists(event, max_size=7).map(
        lambda drawn: LogicalStream.of((payload, at, at + long) for payload, at, long in drawn)
    )


def of_class(stream: LogicalStream, source: Source, one: Partition, value: object) -> LogicalStream:
    if source.name not in one.columns:
        return stream
    index = source.schema.get_field_index(one.columns[source.name])
    return stream.where(lambda payload: payload[index] == value)


def assert_kept_apart(node: Node, data: st.DataObject) -> None:
    leaves = {each.name: each for each in sources_of(node)}
    drawn = {
        name: data.draw(streams(points=leaf.only_points), label=name)
        for name, leaf in leaves.items()
    }
    wanted = meaning(node, drawn)
    for one in partitions(node):
        values = {
            payload[leaves[name].schema.get_field_index(column)]
            for name, column in one.columns.items()
            for payload in drawn[name].steps
        }
        parts = [
            meaning(node, {name: of_class(drawn[name], leaves[name], one, value) for name in drawn})
            for value in values
        ]
        together = LogicalStream().union(*parts)
        assert not together.difference(wanted), (one, together.difference(wanted))


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_an_answer_is_the_sum_of_those_over_each_class(name: str, data: st.DataObject) -> None:
    assert_kept_apart(data.draw(OPERATORS[name]), data)


@pytest.mark.parametrize("name", COMPOSED)
@given(data=st.data())
def test_composed_answers_are_sums_too(name: str, data: st.DataObject) -> None:
    assert_kept_apart(COMPOSED[name], data)


@pytest.mark.parametrize("kind", get_args(JoinKind))
@given(data=st.data())
def test_joins_of_groups_are_kept_apart(kind: JoinKind, data: st.DataObject) -> None:
    node = joined(SOURCE, OTHER, "k = k2 AND v = v2", kind)
    assert {"S": "k", "T": "k"} in [one.columns for one in partitions(node)]
    assert_kept_apart(node, data)


def test_a_group_restricts_its_source() -> None:
    assert restricting_columns([averages(SOURCE, 5)], "S") == {"S": (("k", "k"),)}


def test_a_computed_group_restricts_nothing() -> None:
    assert restricting_columns([COMPOSED["a group that is computed"]], "S") == {}


def test_an_equation_of_a_join_restricts_both_sides() -> None:
    equal = joined(averages(SOURCE, 5), averages(OTHER, 3), "k = k2 AND s > s2", "full")
    assert restricting_columns([equal], "T") == {"S": (("k", "k"),), "T": (("k", "k"),)}


def test_the_other_side_of_a_product_is_read_as_a_whole() -> None:
    product = joined(averages(SOURCE, 5), averages(OTHER, 3), None)
    assert restricting_columns([product], "S") == {"S": (("k", "k"),)}


def test_floats_are_not_looked_for() -> None:
    assert "x" not in [column for column, _ in restricting_columns([SOURCE], "S")["S"]]


def test_queries_that_run_together_are_restricted_by_what_all_of_them_keep_apart() -> None:
    by_both, by_value = aggregate(SOURCE, ("k", "v"), "s"), aggregate(SOURCE, ("v",), "s")
    assert restricting_columns([by_both, by_value], "S") == {"S": (("v", "v"),)}
    elsewhere = averages(OTHER, 3)
    assert restricting_columns([by_value, elsewhere], "S") == {"S": (("v", "v"),)}
    assert restricting_columns([by_value, aggregate(SOURCE, (), "s")], "S") == {}
