"""The first differing instant is the one that the snapshots show."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.difference import first_difference
from anabranch.model.elements import Element, Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER

SCHEMA = pa.schema([("a", pa.float64())])
TIMES = [-3, 0, 1, 2, 3, 5, FOREVER]

events = st.lists(
    st.tuples(
        st.sampled_from([0.0, -0.0, float("nan"), None]),
        st.sampled_from(TIMES[:-1]),
        st.sampled_from(TIMES),
    ).filter(lambda event: event[1] < event[2]),
    max_size=8,
)


def batches(lifetimes: list[tuple[float | None, int, int]], size: int) -> list[EventBatch]:
    elements: list[Element] = [Insert({"a": a}, start, end) for a, start, end in lifetimes]
    return [batch_of(elements[i : i + size], SCHEMA) for i in range(0, len(elements), size)]


@given(events, events, st.integers(1, 9))
def test_streams_differ_where_their_meanings_do(
    one: list[tuple[float | None, int, int]],
    other: list[tuple[float | None, int, int]],
    size: int,
) -> None:
    left, right = batches(one, size), batches(other, 3)
    expected = LogicalStream.of_batches(left).agrees_with(LogicalStream.of_batches(right))
    assert first_difference(left, right) == expected


@given(events, st.randoms(use_true_random=False), st.integers(1, 9))
def test_order_and_cuts_do_not_matter(
    lifetimes: list[tuple[float | None, int, int]], random: Random, size: int
) -> None:
    cut = []
    for payload, start, end in lifetimes:
        middle = random.randint(start, min(end, start + 5))
        cut += [
            part for part in [(payload, start, middle), (payload, middle, end)] if part[1] < part[2]
        ]
    random.shuffle(cut)
    assert first_difference(batches(lifetimes, 2), batches(cut, size)) is None


def test_a_million_rows_are_compared_at_once() -> None:
    count = 300_000
    start = np.arange(count)
    payload = pa.RecordBatch.from_pydict({"a": np.arange(count) % 1000})
    one = EventBatch(payload, start, start, start + 100)
    shuffled = one.take(np.random.default_rng(1).permutation(count))
    assert first_difference([one], [shuffled]) is None
    longer = shuffled.with_ends(shuffled.end, shuffled.new_end + (shuffled.start == 777))
    assert first_difference([one], [longer]) == 877
