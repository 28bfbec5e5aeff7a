"""After feedback state is purged, and nothing changes that anybody still asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.canonical import canonical
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.expressions.expression import Expression
from anabranch.kernels.contract.column_names import END, ID, NEW_END
from anabranch.kernels.contract.kernel import Need
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.interest import Interest, source_instants, stage_needs
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.row_windows.element_trace import newest_elements
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import schedules, streams
from anabranch.testing.oracle import meaning
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SCHEMA, aggregate, plans
from tests.kernels.test_interest import (
    PLANS,
    ROWS,
    Steps,
    ends,
    events,
    from_then_on,
    joined,
    leave_out,
    reaching,
    run,
    since_when,
    unique,
)

S = Source(name="S", schema=SCHEMA)


def purged(
    node: Node,
    steps: Steps,
    told: Interest,
    since: int,
    *,
    skips: bool = False,
    more: tuple[int, Interest] | None = None,
) -> list[EventBatch]:
    """What comes out if state is purged from a step on, and `more` of it from another one on.

    With `skips` rows are left out at the sources, too.
    """
    runner = LocalRunner(node)
    output = []
    for number, step in enumerate(steps):
        if number == since:
            runner.want(told)
        if more is not None and number == more[0]:
            told = more[1]
            runner.want(told)
        came = dict(step)
        if skips and number > since:
            instants = source_instants(runner.plan, [node], told)
            came = {name: leave_out(runner, name, step, instants) for name in step}
        output.append(runner.step({n: b for n, b in came.items() if n in runner.plan.sources}))
    return output


def meant(node: Node, steps: Steps) -> LogicalStream:
    """What the plan means over everything that came."""
    came: dict[str, list[EventBatch]] = {"S": [], "T": [], "A": [], "B": []}
    for step in steps:
        for name, batch in step.items():
            came[name].append(batch)
    return meaning(node, {name: LogicalStream.of_batches(each) for name, each in came.items()})


Move = tuple[Any, int, int, int]


@st.composite
def long_streams(
    draw: st.DrawFn, *, points: bool = False, insert_only: bool = False
) -> list[EventBatch]:
    """Short events over a long time, disordered, adjusted late, and hardly any promises."""
    moves: list[list[Move]] = []
    ordered = draw(st.booleans())
    for _ in range(draw(st.integers(6, 18))):
        payload = (
            draw(st.sampled_from("ab")),
            draw(st.integers(0, 3)),
            float(draw(st.integers(0, 2))),
        )
        start = draw(st.integers(0, 40))
        end = start + (1 if points else draw(st.integers(1, 6)))
        moves.append([(payload, start, start, end)])
        for _ in range(0 if insert_only else draw(st.sampled_from([0, 1, 1, 2]))):
            if end == start:
                break
            lengths = [0] if points else [0, 1, 3, 6, 12, 25]
            moved = start + draw(st.sampled_from(lengths))
            moves[-1].append((payload, start, end, moved))
            end = moved
    if ordered:
        moves.sort(key=lambda each: each[0][1])
    # Some of the moves of an event come long after its insert.
    late = [each.pop() for each in moves if len(each) > 1 and draw(st.booleans())]
    every = [move for each in moves for move in each] + late
    batches, at = [], 0
    while at < len(every):
        size = draw(st.integers(1, 6))
        some, rest = every[at : at + size], every[at + size :]
        at += size
        # A promise is kept by inserts, whose ends are their starts, and by adjusts.
        least = min((min(end, new_end) for *_, end, new_end in rest), default=FOREVER)
        batches.append(_batch(some, least if draw(st.integers(0, 3)) == 0 else BEGINNING))
    return batches


def _batch(moves: Sequence[Move], stable: int, schema: pa.Schema = SCHEMA) -> EventBatch:
    rows = [dict(zip(schema.names, payload, strict=True)) for payload, *_ in moves]
    start, end, new_end = (np.array([move[n] for move in moves], np.int64) for n in (1, 2, 3))
    payload = pa.RecordBatch.from_pylist(rows, schema=schema)
    return EventBatch(payload, start, end, new_end, Time(stable))


def interleaved(data: st.DataObject, **named: list[EventBatch]) -> Steps:
    steps: Steps = []
    while any(named.values()):
        chosen = data.draw(st.sampled_from([name for name, some in named.items() if some]))
        steps.append({chosen: named[chosen].pop(0)})
    return steps


def check(data: st.DataObject, node: Node, steps: Steps, *, canonical_: bool = True) -> None:
    """Draw when feedback comes, and what it says; compare with a run that got none."""
    since = data.draw(st.integers(0, len(steps) - 1))
    skips = data.draw(st.sampled_from([False, False, True]))
    whole = run(node, steps)
    # Early instants have little before them that could be purged.
    middle = st.integers(15, 35)
    end = data.draw(middle | middle | ends(whole))
    told = Interest(Time(end), Time(since_when(whole, end)))
    more = None
    if data.draw(st.booleans()):
        again = data.draw(st.integers(since, len(steps) - 1))
        later = max(end, data.draw(ends(whole)))
        more = (again, Interest(Time(later), max(told.since, Time(since_when(whole, later)))))
        end = later
    less = purged(node, steps, told, since, skips=skips, more=more)
    for few, all_ in zip(less, whole, strict=True):
        assert few.stable == all_.stable
    held = from_then_on(less, end)
    assert held == from_then_on(whole, end)
    denoted = meant(node, steps).events()
    assert held == Counter(
        (repr(p), max(start, end), last) for p, start, last in denoted if last > end
    )
    if canonical_:
        # As a merge compares them: one by one, as they were sent.
        assert reaching(events(less).items(), end) == reaching(events(whole).items(), end)


PURGING = [
    "aggregate",
    "coalesce",
    "distinct",
    "difference",
    "intersection",
    "max-union",
    "top k",
    "ranking",
    "count window",
    "inner join",
    "left join",
    "right join",
    "full join",
    "semi join",
    "anti join",
]


@pytest.mark.parametrize("name", PURGING)
@given(data=st.data())
def test_what_is_of_interest_stays_when_state_is_purged(name: str, data: st.DataObject) -> None:
    node = canonical(data.draw(OPERATORS[name]))
    points = name == "count window"
    one, other = (data.draw(long_streams(points=points)) for _ in "ST")
    check(data, node, interleaved(data, S=one, T=other))


@given(st.data(), st.sampled_from([True, False]))
def test_state_is_purged_in_any_plan(data: st.DataObject, insert_only: bool) -> None:
    node = canonical(data.draw(plans(replace(S, insert_only=insert_only))))
    if data.draw(st.booleans()):
        steps = interleaved(data, S=data.draw(long_streams(insert_only=insert_only)))
    else:
        drawn = streams(SCHEMA, insert_only=insert_only, longest=8, odd_floats=False)
        steps = data.draw(schedules(S=drawn))
    check(data, node, steps)


@st.composite
def row_windows(draw: st.DrawFn, source: Source, slide: int) -> Node:
    """A row window, and what reads it."""
    by = draw(st.sampled_from([(), ("k",)]))
    order = tuple(Expression.parse(name, SCHEMA) for name in ("v", "x"))
    parts = tuple((name, Expression.parse(name, SCHEMA)) for name in by)
    rows = draw(st.integers(1, 4))
    node: Node = CountWindow(
        input=source, rows=rows, slide=slide, partition_by=parts, order_by=order
    )
    match draw(st.sampled_from(["rows", "aggregate", "top", "coalesce", "window"])):
        case "aggregate":
            return aggregate(node, by, "n", "s", "lo")
        case "top":
            return TopK(input=node, k=2, order_by=((order[0], True, False),), partition_by=parts)
        case "coalesce":
            return Coalesce(input=node)
        case "window":
            return TimeWindow(input=node, size=Duration(draw(st.integers(1, 5))))
    return node


@pytest.mark.parametrize(("insert_only", "slide"), [(True, 1), (False, 1), (True, 2)])
@given(data=st.data())
def test_row_windows_forget_what_has_left_them(
    insert_only: bool, slide: int, data: st.DataObject
) -> None:
    source = replace(S, insert_only=insert_only, only_points=True)
    node = data.draw(row_windows(source, slide))
    steps = interleaved(data, S=data.draw(long_streams(points=True, insert_only=insert_only)))
    check(data, canonical(node), steps)


@pytest.mark.parametrize(("insert_only", "slide"), [(True, 1), (False, 1), (True, 2)])
@given(data=st.data())
def test_row_windows_need_no_since(insert_only: bool, slide: int, data: st.DataObject) -> None:
    source = replace(S, insert_only=insert_only, only_points=True)
    rows = data.draw(st.integers(1, 3))
    order = tuple(Expression.parse(name, SCHEMA) for name in ("v", "x"))
    node = CountWindow(input=source, rows=rows, slide=slide, order_by=order)
    steps = interleaved(data, S=data.draw(long_streams(points=True, insert_only=insert_only)))
    since = data.draw(st.integers(0, len(steps) - 1))
    end = data.draw(st.integers(10, 40))
    whole, less = run(node, steps), purged(node, steps, Interest(Time(end)), since)
    assert reaching(events(less).items(), end) == reaching(events(whole).items(), end)


def test_an_event_that_begins_when_all_of_interest_does_keeps_its_start() -> None:
    node = aggregate(S, (), "n")
    rows: list[Move] = [(("a", 1, 0.5), 0, 0, 20)]
    late: list[Move] = [(("a", 1, 0.5), 3, 3, 10)]
    steps: Steps = [{"S": _batch(rows, BEGINNING)}, {"S": _batch(late, BEGINNING)}]
    less = purged(node, steps, Interest(Time(20), Time(10)), 1)
    whole = run(node, steps)
    assert list(reaching(events(whole).items(), 20)) == [("{'n': 1}", 10, 20)]
    assert reaching(events(less).items(), 20) == reaching(events(whole).items(), 20)


def test_a_row_that_has_ended_may_still_be_prolonged_in_a_join() -> None:
    node = joined(insert_only=False)
    steps: Steps = [
        {"A": _batch([((1, 0), 1, 1, 4)], BEGINNING, ROWS)},
        {
            "A": _batch([((1, 0), 1, 4, 60)], BEGINNING, ROWS),
            "B": _batch([((2, 0), 2, 2, 70)], BEGINNING, ROWS),
        },
    ]
    less = purged(node, steps, Interest(Time(50), Time(45)), 1)
    assert events(less) == events(run(node, steps))
    assert max(end for _, _, end in events(less)) == 62


@pytest.mark.parametrize("name", PLANS)
@given(data=st.data())
def test_without_since_events_that_reach_it_keep_their_start(
    name: str, data: st.DataObject
) -> None:
    node = PLANS[name]
    options = {"points": "window" in name, "insert_only": "adjusted" not in name}
    ways = {"A": data.draw(unique(0, **options)), "B": data.draw(unique(100, **options))}
    steps: Steps = []
    while any(ways.values()):
        chosen = data.draw(st.sampled_from([each for each, some in ways.items() if some]))
        steps.append({chosen: ways[chosen].pop(0)})
    since = data.draw(st.integers(0, len(steps) - 1))
    whole = run(node, steps)
    end = data.draw(ends(whole))
    less = purged(node, steps, Interest(Time(end)), since, skips=data.draw(st.booleans()))

    def held(batches: Sequence[EventBatch]) -> dict[Any, int]:
        return reaching(Counter(LogicalStream.of_batches(batches).events()).items(), end)

    assert held(less) == held(whole)


def spread_out(count: int, *, length: int) -> EventBatch:
    """Events at 0, 1, 2 .. of two keys, and no promise."""
    return _batch([(("ab"[n % 2], n, 0.5), n, n, n + length) for n in range(count)], BEGINNING)


FALLING: dict[str, Node] = {
    "coalesce": Coalesce(input=S),
    "counts": aggregate(S, ("k",), "n", "s"),
    "extremes": aggregate(S, ("k",), "lo", "hi"),
    "medians": aggregate(S, ("k",), "med"),
    "distinct values": aggregate(S, ("k",), "d"),
    "windows": aggregate(TimeWindow(input=S, size=Duration(5)), ("k",), "n"),
    "top k": TopK(input=S, k=2, order_by=((Expression.parse("v", SCHEMA), True, False),)),
    "rows": CountWindow(input=replace(S, insert_only=True, only_points=True), rows=3),
    "an inner join": joined(),
    "a left join": joined("left"),
    "an anti-join": joined("anti"),
}


@pytest.mark.parametrize("name", FALLING)
def test_the_state_falls(name: str) -> None:
    runner = LocalRunner(FALLING[name])
    length = 1 if name == "rows" else 3
    if "join" in name:
        rows = [((n, n % 5), n, n, n + length) for n in range(500)]
        came = {leaf: _batch(rows, BEGINNING, ROWS) for leaf in ("A", "B")}
    else:
        came = {"S": spread_out(500, length=length)}
    runner.step(came)
    before = runner.state_rows()
    runner.step({})
    assert runner.state_rows() == before >= 500
    runner.want(Interest(Time(490), Time(485)))
    runner.step({})
    # Ten of 500 instants are left, and what surrounds them.
    assert runner.state_rows() <= before / 10
    # And nobody minds that what was forgotten is withdrawn.
    if name != "rows" and "join" not in name:
        gone = [(("ab"[n % 2], n, 0.5), n, n + length, n) for n in range(300)]
        assert not len(runner.step({"S": _batch(gone, BEGINNING)}))


def test_rows_that_may_be_adjusted_stay_in_a_join() -> None:
    runner = LocalRunner(joined(insert_only=False))
    rows = [((n, n % 5), n, n, n + 1) for n in range(100)]
    runner.step({leaf: _batch(rows, BEGINNING, ROWS) for leaf in ("A", "B")})
    runner.want(Interest(Time(90), Time(85)))
    runner.step({})
    assert runner.state_rows() == 200
    # One side has promised that what ended before 60 stays so; the other side had kept it.
    runner.step({"A": EventBatch.empty(ROWS, Time(60))})
    assert 140 <= runner.state_rows() < 145


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Coalesce(input=S), [Need(Time(100), Time(94))]),
        (
            Coalesce(input=CountWindow(input=S, rows=3)),
            [Need(BEGINNING, Time(94)), Need(Time(100), Time(94))],
        ),
        (
            Coalesce(input=TimeWindow(input=aggregate(S, (), "n"), size=Duration(10))),
            [Need(BEGINNING, Time(85)), Need(Time(100), Time(94))],
        ),
        # Below a row window all rows are needed, and so all snapshots.
        (CountWindow(input=aggregate(S, (), "n"), rows=3), [Need(), Need(Time(100), Time(94))]),
    ],
)
def test_each_operator_is_told_what_is_needed_of_it(node: Node, expected: list[Need]) -> None:
    found = stage_needs(compile_plan(node), Interest(Time(100), Time(95)))
    assert [need for needs in found for need in needs] == expected
    # Of several outputs nobody knows since when that holds which reaches an instant.
    both = stage_needs(compile_plan(node, node), Interest(Time(100), Time(95)))
    assert {need.first for needs in both for need in needs} == {BEGINNING}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), max_size=20),
    st.integers(1, 4),
    st.integers(0, 14),
)
def test_only_the_newest_elements_are_taken_in(
    drawn: list[tuple[int, int]], count: int, before: int
) -> None:
    keys, times = (np.array([each[n] for each in drawn], np.int64) for n in (0, 1))
    rows = pa.RecordBatch.from_pydict(
        {ID: keys.astype(np.uint64), END: times, NEW_END: times + 1, "key0": times}
    )
    kept = newest_elements(rows, count, Time(before)).to_pylist()
    wanted = [
        row
        for row, (key, time) in zip(rows.to_pylist(), drawn, strict=True)
        if time >= before or sum(other == key and time < at < before for other, at in drawn) < count
    ]
    assert kept == wanted
