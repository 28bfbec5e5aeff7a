"""Signed points mean what their nodes say, and lead back to the lifetimes they came from."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload, show_payload
from anabranch.model.time import FOREVER
from anabranch.testing import (
    Element,
    LocalRunner,
    Move,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    payload_schemas,
    stable,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE

pytestmark = pytest.mark.usefixtures("eagerness")

LETTERS = pa.schema([("k", pa.string())])
SIGNED = pa.schema([("sign", pa.int8()), ("k", pa.string())])
BACK = FromSigned(input=Source(name="S", schema=SIGNED))


@st.composite
def signed(draw: st.DrawFn, longest: int = 1) -> PhysicalStream:
    """Any legal stream of few payloads with signs."""
    flags = pa.schema([("which", pa.bool_()), ("minus", pa.bool_())])

    def with_sign(element: Element) -> Element:
        if not isinstance(element, Move):
            return element
        which, minus = element.payload
        payload = (-1 if minus else 1, "a" if which else "b")
        return Move(payload, element.start, element.end, element.new_end)

    drawn = draw(streams(flags, longest=longest))
    return PhysicalStream(SIGNED, tuple(map(with_sign, drawn.elements)))


def below_zero(batches: list[EventBatch]) -> tuple[int, set[str]] | None:
    """The first instant before the stable point with more ends than beginnings, and of what."""
    reached = max(batch.stable for batch in batches)
    changes: dict[Payload, Counter[int]] = defaultdict(Counter)
    for (sign, key), start, end in LogicalStream.of_batches(batches).events():
        for instant in range(start, end):
            changes[key,][instant] += sign
    found = [
        (instant, show_payload(payload))
        for payload, there in changes.items()
        for instant, total in zip(sorted(there), accumulate(there[t] for t in sorted(there)))
        if total < 0 and instant < reached
    ]
    first = min((instant for instant, _ in found), default=None)
    return None if first is None else (first, {who for at, who in found if at == first})


@given(streams(SCHEMA).flatmap(batchings), st.sampled_from(["speculative", "final"]))
def test_lifetimes_have_two_edges(batches: list[EventBatch], emit: str) -> None:
    node = ToSigned(input=SOURCE, column="edge")
    assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@given(streams(SCHEMA).flatmap(batchings), st.sampled_from(["speculative", "final"]))
def test_edges_lead_back_to_lifetimes(batches: list[EventBatch], emit: str) -> None:
    node = FromSigned(input=ToSigned(input=SOURCE))
    left = assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")
    if emit == "speculative":
        assert LogicalStream.of_batches(left) == LogicalStream.of_batches(batches)


@given(st.data(), payload_schemas())
def test_edges_of_any_columns_lead_back(data: st.DataObject, schema: object) -> None:
    source = Source(name="S", schema=schema)
    batches = data.draw(streams(source.schema).flatmap(batchings))
    assert_agrees(ToSigned(input=source), batches)
    assert_agrees(FromSigned(input=ToSigned(input=source)), batches)


@given(signed().flatmap(batchings) | signed(longest=4).flatmap(batchings))
def test_signs_add_up_and_must_not_fall_below_zero(batches: list[EventBatch]) -> None:
    wrong = [below_zero(batches[:n]) for n in range(1, len(batches) + 1)]
    good = next((n for n, what in enumerate(wrong) if what is not None), len(batches))
    assert_agrees(BACK, batches[:good])
    if good == len(batches):
        return
    instant, payloads = wrong[good] or (0, set())
    with pytest.raises(StreamError, match="more ends than beginnings") as error:
        assert_agrees(BACK, batches[: good + 1])
    assert error.value.where.endswith(f"at instant {instant}")
    assert any(f"the signs of {payload}" in error.value.where for payload in payloads)


def test_a_missing_beginning_may_come_later() -> None:
    stream = PhysicalStream(
        SIGNED,
        (
            insert(-1, "a", start=8, end=9),
            insert(1, "b", start=2, end=3),
            stable(2),
            insert(1, "a", start=3, end=4),
            stable(9),
        ),
    )
    first, second = assert_agrees(BACK, stream.batches(3))
    assert elements_of(first) == [insert("b", start=2)]
    assert elements_of(second) == [insert("a", start=3, end=8)]


def test_the_error_names_a_payload_of_an_earlier_batch() -> None:
    stream = PhysicalStream(
        SIGNED,
        (
            insert(-1, "late", start=5, end=6),
            insert(1, "b", start=5, end=6),
            stable(5),
            stable(6),
        ),
    )
    runner = LocalRunner(BACK)
    first, second = stream.batches(3)
    runner.step({"S": first})
    with pytest.raises(StreamError) as error:
        runner.step({"S": second})
    assert str(error.value) == (
        "more ends than beginnings\n"
        "  FromSigned: the signs of ('late') add up to -1 at instant 5\n"
        "  hint: every -1 needs an earlier +1 of the same payload"
    )


@pytest.mark.parametrize("sign", [0, 2, -2, None])
def test_other_signs_are_refused(sign: int | None) -> None:
    stream = PhysicalStream(SIGNED, (insert(sign, "a", start=5, end=6),))
    with pytest.raises(StreamError, match="neither 1 nor -1"):
        LocalRunner(BACK).step({"S": stream.batches()[0]})
    with pytest.raises(StreamError, match="neither 1 nor -1"):
        BACK.denote(stream.meaning())


def test_a_sign_that_holds_for_ever_is_refused() -> None:
    stream = PhysicalStream(SIGNED, (insert(1, "a", start=5),))
    with pytest.raises(StreamError, match="a sign holds at"):
        LocalRunner(BACK).step({"S": stream.batches()[0]})
    with pytest.raises(StreamError, match="a sign holds at"):
        BACK.denote(stream.meaning())


def test_a_payload_may_be_nothing_but_a_sign() -> None:
    schema = pa.schema([("sign", pa.int64())])
    node = FromSigned(input=Source(name="S", schema=schema))
    elements = (
        insert(1, start=2, end=3),
        insert(1, start=4, end=5),
        insert(-1, start=5, end=6),
        adjust(1, start=4, end=5, new_end=4),
        insert(1, start=4, end=5),
        insert(-1, start=9, end=10),
        stable(FOREVER),
    )
    for size in (1, 2, 9):
        left = assert_agrees(node, PhysicalStream(schema, elements), batch_size=size)
        expected = LogicalStream.of([((), 2, 9), ((), 4, 5)])
        assert LogicalStream.of_batches(left) == expected


def test_ends_come_before_beginnings() -> None:
    stream = PhysicalStream(
        LETTERS,
        (insert("b", start=1, end=7), insert("a", start=3, end=7), insert("c", start=7, end=9)),
    )
    (batch,) = assert_agrees(ToSigned(input=Source(name="S", schema=LETTERS)), stream)
    assert sorted((move.start, move.payload[1]) for move in elements_of(batch)) == [
        (1, 1),
        (3, 1),
        (7, -1),
        (7, -1),
        (7, 1),
        (9, -1),
    ]


def test_a_sum_that_was_below_zero_for_a_while_is_forgiven() -> None:
    """Many other payloads keep the runs apart, so that a row that was taken away stays in one."""
    others = [insert(1, f"other {n}", start=1, end=2) for n in range(50)]
    stream = PhysicalStream(
        SIGNED,
        (
            *others,
            insert(-1, "a", start=5, end=6),
            insert(1, "a", start=8, end=9),
            adjust(1, "a", start=8, end=9, new_end=8),
            insert(1, "a", start=3, end=4),
            stable(9),
        ),
    )
    left = assert_agrees(BACK, stream.batches(52, 53, 54))
    assert LogicalStream.of_batches(left).steps["a",] == ((3, 1), (5, 0))
