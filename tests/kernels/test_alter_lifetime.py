"""Changed lifetimes mean what the node says, however the input is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Duration
from anabranch.testing import (
    PhysicalStream,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    meaning,
    payload_schemas,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

pytestmark = pytest.mark.usefixtures("eagerness")

SPANS = st.one_of(st.integers(1, 9), st.sampled_from([100, 2**62, int(FOREVER)])).map(Duration)
LETTERS = Source(name="S", schema=SCHEMA.remove(2).remove(1))


@st.composite
def altered(draw: st.DrawFn, over: Node = SOURCE) -> AlterLifetime:
    how = draw(st.sampled_from(["duration", "extend", "at_most"]))
    span = draw(SPANS | st.just(Duration(0))) if how == "extend" else draw(SPANS)
    return AlterLifetime(input=over, **{how: span})


@given(altered(), streams(SCHEMA).flatmap(batchings), st.sampled_from(["speculative", "final"]))
def test_lifetimes_get_other_ends(node: Node, batches: list[EventBatch], emit: str) -> None:
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@given(st.data(), payload_schemas())
def test_of_any_columns(data: st.DataObject, schema: object) -> None:
    source = Source(name="S", schema=schema)
    node = data.draw(altered(source))
    assert_agrees(node, data.draw(streams(source.schema).flatmap(batchings)))


@given(st.data(), streams(SCHEMA).flatmap(batchings))
def test_an_aggregation_over_it(data: st.DataObject, batches: list[EventBatch]) -> None:
    node: Node = data.draw(altered(data.draw(altered())))
    if node.properties.only_points:
        node = TimeWindow(input=node, size=Duration(3))
    assert_agrees(aggregate(node, ("k",), "n", "hi"), batches)


@given(altered(), streams(SCHEMA).flatmap(batchings))
def test_how_the_input_is_cut_does_not_matter(
    node: AlterLifetime, batches: list[EventBatch]
) -> None:
    one = assert_agrees(node, batches)
    other = assert_agrees(node.with_inputs(Coalesce(input=SOURCE)), batches)
    assert LogicalStream.of_batches(one) == LogicalStream.of_batches(other)


@given(streams(SCHEMA), SPANS)
def test_a_duration_is_a_window_over_what_begins(stream: PhysicalStream, span: Duration) -> None:
    held = TimeWindow(input=ToStream(input=SOURCE, kind="insertions"), size=span)
    rows = {"S": stream.meaning()}
    assert meaning(AlterLifetime(input=SOURCE, duration=span), rows) == meaning(held, rows)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"duration": 3}, [("a", 1, 4), ("a", 2, 5), ("b", 3, 6)]),
        ({"extend": 3}, [("a", 1, 7), ("a", 2, 6), ("b", 3, FOREVER)]),
        ({"at_most": 2}, [("a", 1, 3), ("a", 2, 3), ("b", 3, 5)]),
    ],
)
def test_the_longest_lifetimes_change(
    how: dict[str, Duration], expected: list[tuple[str, int, int]]
) -> None:
    stream = PhysicalStream(
        LETTERS.schema,
        (
            insert("a", start=1, end=2),
            insert("a", start=2, end=4),
            insert("a", start=2, end=3),
            insert("b", start=3),
            stable(FOREVER),
        ),
    )
    for size in (1, 2, 9):
        left = assert_agrees(AlterLifetime(input=LETTERS, **how), stream, batch_size=size)
        wanted = LogicalStream.of(((key,), start, end) for key, start, end in expected)
        assert LogicalStream.of_batches(left) == wanted


def test_a_span_without_bound_is_forever_before_instant_0_too() -> None:
    stream = PhysicalStream(LETTERS.schema, (insert("a", start=-6, end=-5), stable(-4)))
    forever = Duration(FOREVER)
    for how, end in (({"duration": forever}, FOREVER), ({"extend": forever}, FOREVER)):
        (left,) = assert_agrees(AlterLifetime(input=LETTERS, **how), stream)
        assert elements_of(left) == [insert("a", start=-6, end=end)]
    (left,) = assert_agrees(AlterLifetime(input=LETTERS, at_most=forever), stream)
    assert elements_of(left) == [insert("a", start=-6, end=-5)]
