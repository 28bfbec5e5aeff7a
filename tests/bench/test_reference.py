"""Both reference implementations agree with each other and with what the product's nodes mean."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration
from anabranch.testing.oracle import meaning
from tests.bench import intervals, operators, signed
from tests.bench.areas import (
    Area,
    Buckets,
    CountingBuckets,
    EndList,
    HeapedHash,
    ListedHash,
    ScannedBuckets,
)
from tests.bench.operators import Element, Operator, Results, by_sign, by_start

LEFT = Source(name="L", schema=pa.schema([("k", pa.int64()), ("v", pa.int64())]))
RIGHT = Source(name="R", schema=pa.schema([("j", pa.int64()), ("w", pa.int64())]))
OTHER = Source(name="O", schema=LEFT.schema)

PAYLOADS = st.tuples(st.integers(0, 2), st.integers(0, 3))
Arrivals = list[tuple[int, Element]]


@st.composite
def lifetimes(draw: st.DrawFn, *, points: bool = False, unique: bool = False) -> list[Element]:
    """Inserts in the order of their starts, often several at one."""
    steps = st.integers(1 if unique else 0, 3)
    start = draw(st.integers(-3, 3))
    found = []
    for step in draw(st.lists(steps, max_size=12)):
        start += step
        length = 1 if points else draw(st.integers(1, 7))
        found.append((draw(PAYLOADS), start, start + length))
    return found


@st.composite
def interleavings(draw: st.DrawFn) -> Arrivals:
    """Two streams, each in its order, in any order among each other."""
    streams = [draw(lifetimes()), draw(lifetimes())]
    sides = draw(st.permutations([0] * len(streams[0]) + [1] * len(streams[1])))
    heads = [iter(stream) for stream in streams]
    return [(side, next(heads[side])) for side in sides]


def of_side(arrivals: Arrivals, side: int) -> LogicalStream:
    return LogicalStream.of(element for its_side, element in arrivals if its_side == side)


def run(first: Sequence[Operator], last: Operator, arrivals: Arrivals) -> list[Element]:
    """Push elements through the entries of a plan and end it."""
    results = last.feed(Results())
    entries = [operator.entry(0) for operator in first]
    for side, element in arrivals:
        entries[side](element)
    for operator in first:
        operator.end()
    return results.elements


def run_intervals(operator: Operator, arrivals: Arrivals) -> LogicalStream:
    """The output of an interval operator, which is in order and has no empty lifetimes."""
    entries = [operators.Map(lambda payload: payload) for _ in range(operator.sides)]
    for side, entry in enumerate(entries):
        entry.feed(operator, side)
    results = run(entries, operator, arrivals)
    assert all(one[1] <= other[1] for one, other in pairwise(results))
    assert all(start < end for _, start, end in results)
    assert operator.state() == 0
    return LogicalStream.of(results)


def run_signed(operator: Operator, arrivals: Arrivals) -> LogicalStream:
    """The output of a signed operator fed with the same lifetimes; it is in order, too."""
    entries = [signed.ToSigned() for _ in range(operator.sides)]
    for side, entry in enumerate(entries):
        entry.feed(operator, side)
    return of_signed(run(entries, operator, arrivals))


def of_signed(results: list[Element]) -> LogicalStream:
    assert all(by_sign(one) <= by_sign(other) for one, other in pairwise(results))
    back = intervals.FromSigned()
    lived = run([back], back, [(0, element) for element in results])
    assert all(one[1] <= other[1] for one, other in pairwise(lived))
    stream = LogicalStream.of(lived)
    assert stream == LogicalStream.of_changes(results)
    return stream


def check_one(
    node: Node, interval: Operator, other: Operator, stream: list[Element]
) -> LogicalStream:
    arrivals = [(0, element) for element in stream]
    wanted = meaning(node, {"L": LogicalStream.of(stream)})
    assert run_intervals(interval, arrivals) == wanted
    assert run_signed(other, arrivals) == wanted
    return wanted


def check_two(node: Node, interval: Operator, other: Operator, arrivals: Arrivals) -> None:
    right = [each.name for each in node.walk() if isinstance(each, Source)][-1]
    wanted = meaning(node, {"L": of_side(arrivals, 0), right: of_side(arrivals, 1)})
    assert run_intervals(interval, arrivals) == wanted
    assert run_signed(other, arrivals) == wanted


@given(lifetimes())
def test_filter(stream: list[Element]) -> None:
    node = Filter(input=LEFT, predicate=Expression.parse("v > 1", LEFT.schema))
    first, second = (operators.Filter(lambda row: row[1] > 1) for _ in "ab")
    check_one(node, first, second, stream)


@given(lifetimes())
def test_map(stream: list[Element]) -> None:
    node = Map(input=LEFT, columns=(("double", Expression.parse("v * 2", LEFT.schema)),))
    first, second = (operators.Map(lambda row: (row[1] * 2,)) for _ in "ab")
    check_one(node, first, second, stream)


@given(interleavings())
def test_union(arrivals: Arrivals) -> None:
    node = Union(inputs=(LEFT, OTHER))
    check_two(node, operators.Union(by_start), operators.Union(by_sign), arrivals)


@given(lifetimes(points=True), st.integers(1, 9))
def test_time_window(stream: list[Element], size: int) -> None:
    node = TimeWindow(input=LEFT, size=Duration(size))
    wanted = meaning(node, {"L": LogicalStream.of(stream)})
    arrivals = [(0, element) for element in stream]
    assert run_intervals(intervals.TimeWindow(size), arrivals) == wanted
    window = signed.TimeWindow(size)
    results = run([window], window, [(0, (p, t, 1)) for p, t, _ in stream])
    assert of_signed(results) == wanted
    assert len(results) == 2 * len(stream)
    assert window.state() == 0


@given(lifetimes(points=True, unique=True), st.integers(1, 4))
def test_count_window(stream: list[Element], rows: int) -> None:
    node = CountWindow(input=LEFT, rows=rows)
    wanted = meaning(node, {"L": LogicalStream.of(stream)})
    arrivals = [(0, element) for element in stream]
    assert run_intervals(intervals.CountWindow(rows), arrivals) == wanted
    window = signed.CountWindow(rows)
    assert of_signed(run([window], window, [(0, (p, t, 1)) for p, t, _ in stream])) == wanted


def both(mine: Any, theirs: Any) -> Any:
    return (*mine, *theirs)


@pytest.mark.parametrize("queue", [intervals.Join, intervals.InputQueueJoin])
@given(arrivals=interleavings())
def test_equijoin(
    queue: type[intervals.Join] | type[intervals.InputQueueJoin], arrivals: Arrivals
) -> None:
    node = Join(
        kind="inner",
        left=LEFT,
        right=RIGHT,
        predicate=Expression.parse("k = j", pa.schema([*LEFT.schema, *RIGHT.schema])),
    )
    key = itemgetter(0)
    interval = queue((HeapedHash(), HeapedHash()), (key, key), both)
    other = signed.Join((Buckets(), Buckets()), (key, key), both)
    check_two(node, interval, other, arrivals)


@pytest.mark.parametrize("queue", [intervals.Join, intervals.InputQueueJoin])
@given(arrivals=interleavings(), sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_lists_do_for_windows(
    queue: type[intervals.Join] | type[intervals.InputQueueJoin],
    arrivals: Arrivals,
    sizes: tuple[int, int],
) -> None:
    stretched = [(side, (row, start, start + sizes[side])) for side, (row, start, _) in arrivals]
    key = itemgetter(0)
    results = [
        run_intervals(queue((area(), area()), (key, key), both), stretched)
        for area in (HeapedHash, ListedHash)
    ]
    assert results[0] == results[1]


@given(interleavings())
def test_nested_loops(arrivals: Arrivals) -> None:
    node = Join(
        kind="inner",
        left=LEFT,
        right=RIGHT,
        predicate=Expression.parse("v < w", pa.schema([*LEFT.schema, *RIGHT.schema])),
    )

    def whole(payload: Any) -> Any:
        return payload

    def left_fits(stored: Any, mine: Any) -> bool:
        return bool(stored[1] < mine[1])

    def right_fits(stored: Any, mine: Any) -> bool:
        return bool(mine[1] < stored[1])

    lists: tuple[Area, Area] = (EndList(left_fits), EndList(right_fits))
    tables = (ScannedBuckets(left_fits), ScannedBuckets(right_fits))
    interval = intervals.Join(lists, (whole, whole), both)
    check_two(node, interval, signed.Join(tables, (whole, whole), both), arrivals)


@given(interleavings())
def test_both_joins_insert_and_delete_as_often(arrivals: Arrivals) -> None:
    key = itemgetter(0)
    mine, theirs = (CountingBuckets(), CountingBuckets()), (CountingBuckets(), CountingBuckets())
    areas = (HeapedHash(mine[0]), HeapedHash(mine[1]))
    run_intervals(intervals.Join(areas, (key, key), both), arrivals)
    run_signed(signed.Join(theirs, (key, key), both), arrivals)
    for side in (0, 1):
        came = sum(its_side == side for its_side, _ in arrivals)
        for buckets in (mine[side], theirs[side]):
            assert (buckets.added, buckets.removed, buckets.size()) == (came, came, 0)


@given(lifetimes())
@example([((0, 0), 1, 6), ((0, 0), 4, 9), ((0, 0), 5, 6)])
def test_distinct(stream: list[Element]) -> None:
    check_one(Distinct(input=LEFT), intervals.Distinct(), signed.Distinct(), stream)


@given(interleavings())
@example([(1, ((0, 0), 1, 9)), (1, ((0, 0), 5, 7)), (0, ((0, 0), 4, 11))])
def test_difference(arrivals: Arrivals) -> None:
    node = SetOperation(kind="difference", left=LEFT, right=OTHER)
    check_two(node, intervals.Difference(), signed.Difference(), arrivals)


def highest(over: Node, *keys: str) -> Aggregation:
    call = AggregateCall(function="max", argument=Expression.column("v", over.schema))
    groups = tuple((key, Expression.column(key, over.schema)) for key in keys)
    return Aggregation(input=over, group_by=groups, aggregates=(("highest", call),))


@pytest.mark.parametrize("only_changes", [False, True])
@pytest.mark.parametrize("maximum", [signed.SortedMaximum, signed.RecomputedMaximum])
@given(stream=lifetimes())
def test_maximum(
    maximum: type[signed.SortedMaximum] | type[signed.RecomputedMaximum],
    only_changes: bool,
    stream: list[Element],
) -> None:
    interval = intervals.Aggregate(intervals.MAX, lambda row: (row[1],))
    other = signed.Aggregate(maximum(), lambda row: (row[1],), only_changes=only_changes)
    check_one(highest(LEFT), interval, other, stream)


@given(lifetimes())
def test_groups(stream: list[Element]) -> None:
    def group(row: Any) -> Any:
        return row[0]

    def value(row: Any) -> Any:
        return row[1]

    def result(key: Any, largest: Any) -> Any:
        return (key, largest)

    interval = intervals.Group(intervals.MAX, group, value, result)
    check_one(highest(LEFT, "k"), interval, signed.Group(group, value, result), stream)


@given(lifetimes(), st.integers(1, 9))
def test_coalesce(stream: list[Element], longest: int) -> None:
    arrivals = [(0, element) for element in stream]
    assert run_intervals(intervals.Coalesce(longest), arrivals) == LogicalStream.of(stream)


@given(lifetimes(points=True), st.integers(1, 9), st.integers(1, 20))
def test_coalesce_after_an_aggregate(stream: list[Element], size: int, longest: int) -> None:
    node = highest(TimeWindow(input=LEFT, size=Duration(size)))
    window = intervals.TimeWindow(size)
    last = window.feed(intervals.Aggregate(intervals.MAX, lambda row: (row[1],)))
    results = run([window], last.feed(intervals.Coalesce(longest)), [(0, each) for each in stream])
    wanted = meaning(node, {"L": LogicalStream.of(stream)})
    assert LogicalStream.of(results) == wanted


@given(lifetimes())
def test_there_and_back(stream: list[Element]) -> None:
    arrivals = [(0, element) for element in stream]
    assert run_signed(operators.Filter(lambda _: True), arrivals) == LogicalStream.of(stream)


def test_no_sum_of_an_instant_that_is_not_over() -> None:
    # 2 ends where 1 begins: at 4, the maximum of both must not show.
    stream = [((0, 2), 0, 4), ((0, 1), 4, 8)]
    to_signed = signed.ToSigned()
    last = to_signed.feed(signed.Aggregate(signed.SortedMaximum(), itemgetter(1)))
    results = run([to_signed], last, [(0, element) for element in stream])
    assert results == [(2, 0, 1), (2, 4, -1), (1, 4, 1), (1, 8, -1)]


def test_tables_of_the_book() -> None:
    first = [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("a", 9, 10), ("b", 12, 17)]
    second = [("b", 1, 7), ("d", 3, 9), ("a", 4, 5), ("b", 7, 15), ("e", 10, 18)]
    arrivals = [
        *((0, element) for element in first),
        *((1, element) for element in second),
    ]
    arrivals.sort(key=lambda arrival: (arrival[1][1], arrival[0]))

    def results(operator: Operator) -> list[Element]:
        entries = [operators.Map(lambda payload: payload) for _ in range(operator.sides)]
        for side, entry in enumerate(entries):
            entry.feed(operator, side)
        return run(entries, operator, [each for each in arrivals if each[0] < operator.sides])

    def same(payload: Any) -> Any:
        return payload

    join = intervals.Join((HeapedHash(), HeapedHash()), (same, same), lambda mine, _: mine)
    assert results(join) == [("d", 6, 9), ("b", 12, 15)]
    assert results(intervals.Distinct()) == [element for element in first if element[1] != 9]
    assert results(intervals.Difference()) == [
        ("c", 1, 8),
        ("a", 5, 11),
        ("d", 9, 14),
        ("a", 9, 10),
        ("b", 15, 17),
    ]
    count = intervals.Function(lambda _: 1, lambda partial, _: partial + 1, same)
    groups = intervals.Group(count, same, same, lambda group, counted: (group, counted))
    assert results(groups) == [
        (("c", 1), 1, 8),
        (("a", 1), 5, 9),
        (("d", 1), 6, 14),
        (("a", 2), 9, 10),
        (("a", 1), 10, 11),
        (("b", 1), 12, 17),
    ]
