"""Filter, map, union, coalesce: what they mean, instant by instant."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa
from hypothesis import given

from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER
from anabranch.testing import PhysicalStream, meaning, payload_schemas, streams

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
S = Source(name="S", schema=SCHEMA)
T = Source(name="T", schema=SCHEMA)


def of(text: str) -> Expression:
    return Expression.parse(text, SCHEMA)


def test_only_what_is_true_passes_a_filter() -> None:
    rows = LogicalStream.of([(("a", value), 0, 9) for value in (None, 1, 5)])
    kept = Filter(input=S, predicate=of("value > 2")).denote(rows)
    assert kept.snapshot(0) == Counter({("a", 5): 1})
    rest = Filter(input=S, predicate=of("not value > 2")).denote(rows)
    assert rest.snapshot(0) == Counter({("a", 1): 1})


@given(streams(SCHEMA))
def test_a_filter_keeps_multiplicities(stream: PhysicalStream) -> None:
    rows = stream.meaning()
    kept = Filter(input=S, predicate=of("value > 0 or key = 'a'")).denote(rows)
    for instant in rows.change_points():
        expected = {
            (key, value): n
            for (key, value), n in rows.snapshot(instant).items()
            if (value is not None and value > 0) or key == "a"
        }
        assert kept.snapshot(instant) == expected


@given(streams(SCHEMA))
def test_a_map_keeps_the_size_of_every_snapshot(stream: PhysicalStream) -> None:
    rows = stream.meaning()
    mapped = Map(input=S, columns=(("k", of("upper(key)")), ("one", of("1")))).denote(rows)
    for instant in rows.change_points():
        expected: Counter[tuple[object, ...]] = Counter()
        for (key, _), n in rows.snapshot(instant).items():
            expected[None if key is None else key.upper(), 1] += n
        assert mapped.snapshot(instant) == expected


@given(streams(SCHEMA), streams(SCHEMA))
def test_a_union_adds_multiplicities(left: PhysicalStream, right: PhysicalStream) -> None:
    one, other = left.meaning(), right.meaning()
    both = Union(inputs=(S, T)).denote(one, other)
    for instant in {*one.change_points(), *other.change_points()}:
        assert both.snapshot(instant) == one.snapshot(instant) + other.snapshot(instant)


def test_a_union_with_itself_doubles() -> None:
    rows = LogicalStream.of([(("a", 1), 3, FOREVER)])
    assert meaning(Union(inputs=(S, S, S)), {"S": rows}).snapshot(4) == Counter({("a", 1): 3})


@given(streams(payload_schemas()))
def test_coalesce_changes_no_snapshot(stream: PhysicalStream) -> None:
    source = Source(name="S", schema=stream.schema)
    assert Coalesce(input=source).denote(stream.meaning()) == stream.meaning()


@given(streams(payload_schemas()))
def test_selecting_every_column_changes_nothing(stream: PhysicalStream) -> None:
    source = Source(name="S", schema=stream.schema)
    columns = tuple((name, Expression.column(name, stream.schema)) for name in stream.schema.names)
    assert Map(input=source, columns=columns).denote(stream.meaning()) == stream.meaning()


def test_values_sql_cannot_tell_apart_become_one_payload() -> None:
    schema = pa.schema([("x", pa.float64())])
    source = Source(name="S", schema=schema)
    rows = LogicalStream.of([((math.nan,), 0, 5), ((0.0,), 0, 5)])
    same = Map(input=source, columns=(("x", Expression.parse("x * -1", schema)),)).denote(rows)
    assert same == rows
    kept = Filter(input=source, predicate=Expression.parse("x = x", schema)).denote(rows)
    assert kept == rows


def test_the_meaning_of_a_plan_is_that_of_its_operators_bottom_up() -> None:
    rows = LogicalStream.of([(("a", 1), 0, 4), (("b", 7), 2, 6)])
    dear = Filter(input=S, predicate=of("value > 5"))
    plan = Map(
        input=Union(inputs=(dear, T)),
        columns=(("value", Expression.parse("value", SCHEMA)),),
    )
    found = meaning(plan, {"S": rows, "T": LogicalStream.of([(("c", 7), 5, 8)])})
    assert found == LogicalStream.of([((7,), 2, 6), ((7,), 5, 8)])
