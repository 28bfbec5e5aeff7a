"""Feedback: what may be left out changes nothing that anybody still asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.canonical import canonical
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.interest import (
    Interest,
    interest,
    source_instants,
    without_interest,
)
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import schedules, streams
from tests.kernels.plans import SCHEMA, aggregate, plans

Steps = list[dict[str, EventBatch]]
Event = tuple[Any, int, int]

S = Source(name="S", schema=SCHEMA)
T = Source(name="T", schema=SCHEMA)


@st.composite
def stateless(draw: st.DrawFn, sources: Sequence[Node] = (S, T)) -> Node:
    """Chains and unions of operators without memory that keep the columns."""
    node = draw(st.sampled_from(sources))
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.integers(1, 5))
        match draw(st.sampled_from(["filter", "map", "window", "grain", "shift", "clip", "union"])):
            case "filter":
                predicate = Expression.parse("v > 0 OR k = 'a'", node.schema)
                node = Filter(input=node, predicate=predicate)
            case "map":
                parts = [(name, Expression.parse(name, node.schema)) for name in node.schema.names]
                node = Map(input=node, columns=tuple(parts))
            case "window":
                slide = draw(st.integers(1, 4))
                node = TimeWindow(input=node, size=Duration(size), slide=Duration(slide))
            case "grain":
                node = Granularity(input=node, granule=Duration(size))
            case "shift":
                node = Shift(input=node, by=draw(st.integers(-5, 5)))
            case "clip":
                node = Clip(input=node, start=Time(size), end=Time(size + 9))
            case _:
                node = Union(inputs=(node, draw(st.sampled_from(sources))))
    return node


def run(
    node: Node, steps: Steps, since: int = 0, end: int = BEGINNING, first: int = BEGINNING
) -> list[EventBatch]:
    """What comes out, if from a step on only what ends at an instant or later is of interest.

    With `first` nothing that is of interest starts before that.
    """
    runner = LocalRunner(node)
    instants = source_instants(runner.plan, [node], Interest(Time(end), Time(first)))
    output = []
    for number, step in enumerate(steps):
        kept = step if number < since else {n: leave_out(runner, n, step, instants) for n in step}
        known = {name: batch for name, batch in kept.items() if name in runner.plan.sources}
        output.append(runner.step(known))
    return output


def leave_out(
    runner: LocalRunner, name: str, step: dict[str, EventBatch], instants: dict[str, Time]
) -> EventBatch:
    batch, source = step[name], runner.plan.sources.get(name)
    if source is None:
        return batch
    out = without_interest(
        batch, instants[name], insert_only=source.insert_only, settled=batch.stable
    )
    return batch.where(~out)


def events(batches: Iterable[EventBatch]) -> Counter[Event]:
    """The events as they were sent, not put together."""
    found: Counter[Event] = Counter()
    for batch in batches:
        rows = [repr(row) for row in batch.payload.to_pylist()]
        times = (batch.start.tolist(), batch.end.tolist(), batch.new_end.tolist())
        for row, start, end, new_end in zip(rows, *times, strict=True):
            if end > start:
                found[row, start, end] -= 1
            if new_end > start:
                found[row, start, new_end] += 1
    return found


def reaching(found: Iterable[tuple[Event, int]], end: int) -> dict[Event, int]:
    return {event: count for event, count in found if event[2] >= end and count}


def from_then_on(batches: Iterable[EventBatch], end: int) -> Counter[Event]:
    """What holds from an instant on."""
    found = LogicalStream.of_batches(batches).events()
    return Counter((repr(p), max(start, end), last) for p, start, last in found if last > end)


def ends(batches: Iterable[EventBatch]) -> st.SearchStrategy[int]:
    """Instants at which something ends, or ended while it lived, where mistakes would show."""
    found = {int(last) for batch in batches for last in (*batch.end, *batch.new_end)}
    return st.one_of(
        st.sampled_from(sorted(found | {FOREVER})),
        st.sampled_from(sorted({min(last + 1, int(FOREVER)) for last in found} | {3})),
        st.integers(-2, 20),
    )


@given(st.data(), st.sampled_from([True, True, False]))
def test_without_memory_the_events_that_reach_it_stay(
    data: st.DataObject, insert_only: bool
) -> None:
    sources = [replace(source, insert_only=insert_only) for source in (S, T)]
    node = data.draw(stateless(sources))
    drawn = streams(SCHEMA, insert_only=insert_only, longest=8)
    steps = data.draw(schedules(S=drawn, T=drawn))
    since = data.draw(st.integers(0, len(steps) // 2))
    whole = run(node, steps)
    end = data.draw(ends(whole))
    less = run(node, steps, since, end)
    for number in range(len(steps)):
        expected = reaching(events(whole[: number + 1]).items(), end)
        assert reaching(events(less[: number + 1]).items(), end) == expected
        assert less[number].stable == whole[number].stable


@given(st.data(), st.sampled_from([True, True, False]))
def test_what_holds_from_then_on_stays_in_any_plan(data: st.DataObject, insert_only: bool) -> None:
    source = replace(S, insert_only=insert_only)
    node = data.draw(plans(source))
    drawn = streams(SCHEMA, insert_only=insert_only, longest=8)
    steps = data.draw(schedules(S=drawn))
    since = data.draw(st.integers(0, len(steps) // 2))
    whole = run(node, steps)
    end = data.draw(ends(whole))
    less = run(node, steps, since, end)
    assert from_then_on(less, end) == from_then_on(whole, end)


def since_when(batches: Iterable[EventBatch], end: int) -> int:
    """The least start of what ends at an instant or later, as a merge knows it."""
    found = [event for event, count in events(batches).items() if count]
    return min([end, *(start for _, start, last in found if last >= end)])


@given(st.data(), st.sampled_from([True, True, False]))
def test_who_knows_since_when_gets_the_same_events_of_any_plan(
    data: st.DataObject, insert_only: bool
) -> None:
    source = replace(S, insert_only=insert_only)
    node = canonical(data.draw(plans(source)))
    drawn = streams(SCHEMA, insert_only=insert_only, longest=8)
    steps = data.draw(schedules(S=drawn))
    since = data.draw(st.integers(0, len(steps) // 2))
    whole = run(node, steps)
    end = data.draw(ends(whole))
    less = run(node, steps, since, end, since_when(whole, end))
    # As a merge compares them: one by one, as they were sent.
    assert reaching(events(less).items(), end) == reaching(events(whole).items(), end)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Coalesce(input=S), 95),
        (Distinct(input=S), 95),
        (aggregate(TimeWindow(input=S, size=Duration(10)), ("k",), "n"), 86),
        (Coalesce(input=aggregate(TimeWindow(input=S, size=Duration(10)), ("k",), "n")), 86),
        # How far back the last rows reach depends on the rows.
        (CountWindow(input=S, rows=3), BEGINNING),
    ],
)
def test_operators_with_state_pass_on_since_when(node: Node, expected: int) -> None:
    told = Interest(Time(100), Time(95))
    assert source_instants(compile_plan(node), [node], told) == {"S": expected}
    # Two outputs have events of their own.
    both = source_instants(compile_plan(node), [node, node], told)
    assert both == interest(compile_plan(node), Time(100))


ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])
A = Source(name="A", schema=ROWS)
B = Source(name="B", schema=ROWS)


@st.composite
def unique(draw: st.DrawFn, first: int, *, points: bool, insert_only: bool) -> list[EventBatch]:
    """A stream in which no two events have the same payload, with adjusts and promises."""
    rows: list[tuple[int, int, int, int, int]] = []
    for number in range(draw(st.integers(1, 8))):
        start = draw(st.integers(0, 14))
        length = 1 if points else draw(st.integers(1, 8))
        payload = (first + number, draw(st.integers(0, 2)))
        rows.append((*payload, start, start, start + length))
        if not insert_only and draw(st.booleans()):
            moved = start + draw(st.integers(0, 9))
            rows.append((*payload, start, start + length, moved))
    order = draw(st.permutations(range(len(rows)))) if insert_only else range(len(rows))
    rows = [rows[place] for place in order]
    batches, at = [], 0
    while at < len(rows):
        size = draw(st.integers(1, 4))
        some, rest = rows[at : at + size], rows[at + size :]
        at += size
        least = min((min(end, new_end) for *_, end, new_end in rest), default=FOREVER)
        said = least if draw(st.booleans()) else BEGINNING
        batches.append(_batch(some, said))
    return batches


def _batch(rows: list[tuple[int, int, int, int, int]], stable: int) -> EventBatch:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    payload = pa.RecordBatch.from_arrays([pa.array(c) for c in columns[:2]], schema=ROWS)
    start, end, new_end = columns[2:]
    return EventBatch(payload, start, end, new_end, Time(stable))


def joined(kind: Any = "inner", *, insert_only: bool = True) -> Node:
    one, other = (replace(source, insert_only=insert_only) for source in (A, B))
    renamed = tuple((f"{n}2", Expression.parse(n, ROWS)) for n in ROWS.names)
    left = TimeWindow(input=one, size=Duration(3))
    right = Map(input=Shift(input=other, by=1), columns=renamed)
    both = pa.schema([*left.schema, *right.schema])
    predicate = Expression.parse("v = v2", both)
    return Join(kind=kind, left=left, right=right, predicate=predicate)


def per_window(*by: str, distinct: bool = False) -> Node:
    points = replace(A, insert_only=True, only_points=True)
    shown = TimeWindow(
        input=points, size=Duration(6), slide=Duration(3), columns=("from_", "till_")
    )
    if distinct:
        names = ("v", "till_")
        columns = tuple((name, Expression.parse(name, shown.schema)) for name in names)
        return Distinct(input=Map(input=shown, columns=columns))
    return aggregate(shown, by, "s", "n")


PLANS = {
    "an inner join": joined(),
    "an inner join of what is adjusted": joined(insert_only=False),
    "a left join": joined("left"),
    "a right join": joined("right"),
    "an anti-join": joined("anti"),
    "a semi-join": joined("semi"),
    "results per window": per_window("v", "till_"),
    "results of all windows": per_window("v"),
    "distinct rows per window": per_window(distinct=True),
}


@pytest.mark.parametrize("name", PLANS)
@given(data=st.data())
def test_events_that_reach_it_keep_their_start(name: str, data: st.DataObject) -> None:
    node = PLANS[name]
    options = {"points": "window" in name, "insert_only": "adjusted" not in name}
    ways = {"A": data.draw(unique(0, **options)), "B": data.draw(unique(100, **options))}
    steps: Steps = []
    while any(ways.values()):
        some = [each for each, batches in ways.items() if batches]
        chosen = data.draw(st.sampled_from(some))
        steps.append({chosen: ways[chosen].pop(0)})
    since = data.draw(st.integers(0, len(steps) // 2))
    whole = run(node, steps)
    end = data.draw(ends(whole))
    less = run(node, steps, since, end)

    def canonical(batches: list[EventBatch]) -> dict[Event, int]:
        return reaching(Counter(LogicalStream.of_batches(batches).events()).items(), end)

    assert canonical(less) == canonical(whole)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Filter(input=S, predicate=Expression.parse("v > 1", SCHEMA)), {"S": 100}),
        (TimeWindow(input=S, size=Duration(10)), {"S": 91}),
        (TimeWindow(input=S, size=Duration(10), slide=Duration(5)), {"S": 87}),
        (TimeWindow(input=S, size=Duration(FOREVER)), {"S": BEGINNING}),
        (Shift(input=S, by=7), {"S": 93}),
        (Shift(input=S, by=-7), {"S": 107}),
        (Granularity(input=S, granule=Duration(10)), {"S": 91}),
        (Union(inputs=(S, Shift(input=S, by=7), T)), {"S": 93, "T": 100}),
        (Union(inputs=(Distinct(input=S), T)), {"S": BEGINNING, "T": 100}),
        (Filter(input=Distinct(input=S), predicate=Expression.parse("v > 1", SCHEMA)), {"S": -1}),
        (joined(), {"A": 98, "B": 99}),
        (joined("left"), {"A": BEGINNING, "B": BEGINNING}),
        (per_window("v", "till_"), {"A": 93}),
        (per_window("v"), {"A": BEGINNING}),
        (per_window(distinct=True), {"A": 93}),
    ],
)
def test_operators_translate_what_is_of_interest(node: Node, expected: dict[str, int]) -> None:
    found = interest(compile_plan(node), Time(100))
    assert found == {n: BEGINNING if t == -1 else t for n, t in expected.items()}


def test_what_is_still_adjusted_is_kept() -> None:
    rows = [(1, 0, 2, 2, 4), (2, 0, 3, 3, 4), (2, 0, 3, 4, 9), (3, 0, 5, 5, 6), (4, 0, 1, 1, 20)]
    batch = _batch(rows, BEGINNING)
    settled = without_interest(batch, Time(10), insert_only=False, settled=Time(6))
    assert settled.tolist() == [True, False, False, False, False]
    never = without_interest(batch, Time(10), insert_only=False)
    assert not never.any()
