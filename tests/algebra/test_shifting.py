"""Plans with a period give moved answers to moved input; others would not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SCHEMA, SOURCE

from anabranch.algebra.analysis.shifting import longest_hold, shift_period
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration, Time
from anabranch.testing.oracle import meaning
from anabranch.testing.physical import PhysicalStream
from anabranch.testing.strategies import streams

SHORT_TIMES = streams(SCHEMA, longest=12, max_size=8)


def moved(rows: LogicalStream, by: int) -> LogicalStream:
    return LogicalStream.of((payload, a + by, b + by) for payload, a, b in rows.events())


def near(rows: LogicalStream) -> LogicalStream:
    """Without the events at the ends of time, which cannot be moved."""
    return LogicalStream.of(each for each in rows.events() if each[1] > -100 and each[2] < 200)


@given(st.sampled_from(sorted(OPERATORS)), st.integers(1, 9), SHORT_TIMES, SHORT_TIMES, st.data())
def test_moved_input_gives_moved_answers(
    name: str, times: int, left: PhysicalStream, right: PhysicalStream, data: st.DataObject
) -> None:
    node = data.draw(OPERATORS[name])
    period = shift_period(node)
    if period is None:
        return
    came = {"S": near(left.meaning()), "T": near(right.meaning())}
    by = period * times
    after = meaning(node, {name: moved(rows, by) for name, rows in came.items()})
    before = meaning(node, came)
    assert not after.difference(moved(before, by))
    ends = [end for rows in came.values() for _, _, end in rows.events()]
    for _, _, end in before.events():
        assert end <= max(ends) + longest_hold(node)


@pytest.mark.parametrize(
    "node",
    [
        TimeWindow(input=SOURCE, size=UNBOUNDED),
        Clip(input=SOURCE, start=Time(3)),
        CountWindow(input=SOURCE, rows=2),
        TimeWindow(input=replace(SOURCE, unique=(("k",),)), size=Duration(5)),
        TimeWindow(input=replace(SOURCE, always=True), size=Duration(5)),
    ],
)
def test_what_counts_from_a_fixed_time_has_no_period(node: Node) -> None:
    assert shift_period(node) is None
    outer = TimeWindow(input=node, size=Duration(6), slide=Duration(2))
    assert shift_period(outer) is None


def test_periods_are_common_multiples_of_slides() -> None:
    inner = TimeWindow(input=SOURCE, size=Duration(10), slide=Duration(4))
    outer = TimeWindow(input=inner, size=Duration(7), slide=Duration(6))
    assert shift_period(outer) == 12
    assert longest_hold(outer) == 27
