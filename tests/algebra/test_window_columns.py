"""Rows that say which time window shows them: by definition, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given

from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.errors import PlanError
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing import PhysicalStream, durations, points

S = Source(name="S", schema=pa.schema([("e", pa.string())]), only_points=True)
BOUNDS = ("window_start", "window_end")


def window(size: int, slide: int, **options: Any) -> TimeWindow:
    given: dict[str, Any] = {"input": S, "columns": BOUNDS, **options}
    return TimeWindow(size=Duration(size), slide=Duration(slide), **given)


@given(points(S.schema), durations(12), durations(12))
def test_rows_are_those_of_the_window_at_every_instant(
    stream: PhysicalStream, size: Duration, slide: Duration
) -> None:
    assume(slide > 1 or size == 1)
    rows = stream.meaning()
    node = window(size, slide)
    found, plain = node.denote(rows), replace(node, columns=None).denote(rows)
    changes = {*found.change_points(), *plain.change_points()}
    for t in sorted({t + near for t in changes for near in (-1, 0, 1)}):
        if not BEGINNING < t < FOREVER:
            continue
        end = (t + 1) // slide * slide
        bounds = (max(end - size, BEGINNING), end)
        expected = {(*payload, *bounds): n for payload, n in plain.snapshot(t).items()}
        assert found.snapshot(t) == Counter(expected), t


@given(points(S.schema), durations(12), durations(12))
def test_a_point_is_in_every_window_around_it(
    stream: PhysicalStream, size: Duration, slide: Duration
) -> None:
    assume(slide > 1 or size == 1)
    rows = stream.meaning()
    expected = LogicalStream.of(
        ((*payload, max(end - size, BEGINNING), end), end - 1, min(end - 1 + slide, FOREVER))
        for payload, start, until in rows.events()
        for u in range(start, until)
        for end in range((u // slide + 1) * slide, u + size + 1, slide)
        if end - 1 < FOREVER
    )
    assert window(size, slide).denote(rows) == expected


def test_bounds_are_timestamps_where_time_is() -> None:
    clock = Source(name="S", schema=S.schema, only_points=True, timestamps=True)
    node = window(10_000_000, 10_000_000, input=clock)
    assert node.schema.types[1:] == [pa.timestamp("us", "UTC")] * 2
    assert node.label == "TimeWindow 10s slide 10s with window_start, window_end"
    (row,) = node.denote(LogicalStream.of([(("a",), 12_000_000, 12_000_001)])).steps
    first, after = (datetime(1970, 1, 1, 0, 0, s, tzinfo=timezone.utc) for s in (10, 20))
    assert row == ("a", first, after)


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"slide": 1}, "would show a row once per instant", "give it a SLIDE"),
        ({"size": UNBOUNDED}, "unbounded window has no start", "give the window a size"),
        (
            {"input": Source(name="S", schema=S.schema)},
            "needs points, not lifetimes",
            "put istream",
        ),
        ({"columns": ("e", "window_end")}, "there is already a column 'e'", "other names"),
        ({"columns": ("w", "w")}, "there are 2 columns 'w'", "name of its own"),
    ],
)
def test_what_is_refused(options: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(PlanError, match=what) as raised:
        window(**{"size": 4, "slide": 2, **options})
    assert hint in str(raised.value)
    assert "TimeWindow" in str(raised.value)


def test_a_window_of_one_instant_may_say_so() -> None:
    held = window(1, 1).denote(LogicalStream.of([(("a",), 3, 4)]))
    assert held == LogicalStream.of([(("a", 3, 4), 3, 4)])
