"""Sessions: against a second definition, instant by instant, and what is refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.algebra.to_stream import ToStream
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing import PhysicalStream, durations, points

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
S = Source(name="S", schema=SCHEMA, only_points=True)
BOUNDS = ("s", "e")


def session(gap: int, *by: str, **options: Any) -> SessionWindow:
    keys = tuple((text, Expression.parse(text, SCHEMA)) for text in by)
    given: dict[str, Any] = {"input": S, "columns": BOUNDS, **options}
    return SessionWindow(gap=Duration(gap), partition_by=keys, **given)


POINTS = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(["a", None]), st.integers(1, 2)),
        st.integers(-5, 25),
    ),
    max_size=8,
)


@given(POINTS, st.integers(1, 7), st.booleans())
def test_a_point_is_in_the_stretch_that_covers_without_a_break(
    given_points: list[tuple[Payload, int]], gap: int, grouped: bool
) -> None:
    """Walk from a point to both sides for as long as the next one is less than a gap away."""
    rows = LogicalStream.of((payload, t, t + 1) for payload, t in given_points)
    found = session(gap, "k").denote(rows) if grouped else session(gap).denote(rows)
    times: dict[object, set[int]] = defaultdict(set)
    for payload, t in given_points:
        times[payload[0] if grouped else 0].add(t)
    expected: Counter[tuple[Payload, int]] = Counter()
    for payload, t in given_points:
        mine = times[payload[0] if grouped else 0]
        first = last = t
        while earlier := [u for u in mine if first - gap < u < first]:
            first = min(earlier)
        while later := [u for u in mine if last < u < last + gap]:
            last = max(later)
        for u in range(first, last + gap):
            expected[(*payload, first, last + gap), u] += 1
    for u in range(-6, 45):
        here = Counter({payload: n for (payload, at), n in expected.items() if at == u})
        assert found.snapshot(u) == here, u


@given(points(SCHEMA), durations(9), st.booleans())
def test_the_bounds_are_the_lifetime(stream: PhysicalStream, gap: Duration, grouped: bool) -> None:
    rows = stream.meaning()
    by = ("k",) if grouped else ()
    found = session(gap, *by).denote(rows)
    for row, steps in found.steps.items():
        assert [instant for instant, _ in steps] == [t for t in row[-2:] if t < FOREVER]
    plain = session(gap, *by, columns=None).denote(rows)
    assert found.map(lambda row: row[:-2]) == plain


@given(points(SCHEMA), durations(9))
def test_no_point_is_lost(stream: PhysicalStream, gap: Duration) -> None:
    rows = stream.meaning()
    seen: Counter[Payload] = Counter()
    for payload, start, end in rows.events():
        seen[payload] += end - start
    held: Counter[Payload] = Counter()
    for row, steps in session(gap).denote(rows).steps.items():
        held[row[:-2]] += steps[0][1]
    assert held == seen


def test_sessions_end_with_time_itself() -> None:
    late = LogicalStream.of([(("a", 1), FOREVER - 2, FOREVER - 1)])
    found = session(5).denote(late)
    assert found == LogicalStream.of([(("a", 1, FOREVER - 2, FOREVER), FOREVER - 2, FOREVER)])
    early = LogicalStream.of([(("a", 1), BEGINNING + 1, BEGINNING + 2), (("a", 1), 9, 10)])
    assert len(session(2**62).denote(early).steps) == 2


def test_bounds_are_timestamps_where_time_is() -> None:
    clock = Source(name="S", schema=SCHEMA, only_points=True, timestamps=True)
    node = session(2_000_000, input=clock)
    assert node.schema.field("s").type == node.schema.field("e").type == pa.timestamp("us", "UTC")
    assert session(2).schema.field("s").type == pa.int64()
    (row,) = node.denote(LogicalStream.of([(("a", 1), 500_000, 500_001)])).steps
    assert row == (
        "a",
        1,
        datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=timezone.utc),
        datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=timezone.utc),
    )


def test_labels() -> None:
    clock = Source(name="S", schema=SCHEMA, only_points=True, timestamps=True)
    node = session(1_800_000_000, "k", "v", input=clock)
    assert node.label == "SessionWindow 30m by k, v with s, e"
    assert session(7, columns=None).label == "SessionWindow 7"


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"gap": 0}, "a session cannot end after a gap of 0", "positive duration"),
        ({"gap": FOREVER}, "after a gap of forever", "positive duration"),
        (
            {"input": Source(name="S", schema=SCHEMA)},
            "needs points, not lifetimes",
            "name only the start",
        ),
        ({"columns": ("s", "v")}, "there is already a column 'v'", "other names"),
        ({"columns": ("s", "s")}, "there are 2 columns 's'", "name of its own"),
        ({"columns": ("s", "__e")}, "cannot be called '__e'", "begin with '__'"),
    ],
)
def test_what_is_refused(options: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(PlanError, match=what) as raised:
        session(**{"gap": 3, **options})
    assert hint in str(raised.value)


def test_lifetimes_become_points_first() -> None:
    begun = ToStream(input=Source(name="S", schema=SCHEMA), kind="insertions")
    rows = LogicalStream.of([(("a", 1), 3, 9)])
    node = session(4, input=begun)
    assert node.denote(begun.denote(rows)) == LogicalStream.of([(("a", 1, 3, 7), 3, 7)])
