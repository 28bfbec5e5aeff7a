"""The worked tables of Kraemer 2007, for the meaning of operators and for their kernels.

A table of snapshots reads `2 a×3,b · 3 –`: at instant 2 three times a and once b, at 3 nothing;
instants that are not listed are empty. `4–6 a` lists three instants at once, `6… a` all from 6 on.
A table of lifetimes reads `c[1,8) a[5,11)`. Numbers stand for themselves: `(1,3)[2,4)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Duration
from anabranch.testing import (
    Element,
    PhysicalState,
    PhysicalStream,
    assert_agrees,
    elements_of,
    insert,
    meaning,
    sources_of,
    stable,
    violations,
)

# The streams of chapter 8, as snapshots, and those of chapter 11, as lifetimes.
L1 = "1 c · 2 a×3 · 3 a×3,b · 4 a×3,b,c · 5 b×2 · 6 b×2"
L2 = "2 b×2 · 3 b×2 · 4 a,b,c · 5 a×2,b · 6 a,c×2"
P1 = "c[1,8) a[5,11) d[6,14) a[9,10) b[12,17)"
P2 = "b[1,7) d[3,9) a[4,5) b[7,15) e[10,18)"
P3 = "b[1,2) a[3,4) c[4,5) a[7,8) b[10,11)"

LETTERS = pa.schema([("e", pa.string())])
Form = Callable[[str], PhysicalStream]


def elements(text: str) -> list[Element]:
    """`insert x[1,8), adjust y[5,11)7, stable 5`."""
    found: list[Element] = []
    for kind, rest in re.findall(r"(insert|adjust|stable) ([^ ]+?)(?:, |\s*$)", text):
        if kind == "stable":
            found.append(stable(int(rest)))
            continue
        match = re.fullmatch(r"(\w+)\[(\d+),(\d+)\)(\d*)", rest)
        assert match, rest
        (payload,), start, end = payload_of(match[1]), int(match[2]), int(match[3])
        moved = type(insert(payload, start=start, end=end))
        ends = (start, end) if kind == "insert" else (end, int(match[4]))
        found.append(moved((payload,), start, *ends))
    return found


def read(text: str) -> LogicalStream:
    """A table of snapshots or of lifetimes."""
    return LogicalStream.of(lifetimes(text))


def lifetimes(text: str) -> list[tuple[tuple[Any, ...], int, int]]:
    """The events of a table; those of a table of snapshots are points."""
    found: list[tuple[tuple[Any, ...], int, int]] = []
    if "[" in text:
        for payload, start, end in re.findall(r"(\(.*?\)|\w+)\[(\d+),(\d+)\)", text):
            found.append((payload_of(payload), int(start), int(end)))
        return found
    for part in filter(None, text.split(" · ")):
        when, what = part.split(" ")
        first, _, last = when.removesuffix("…").partition("–")
        snapshot: Counter[tuple[Any, ...]] = Counter()
        for payload, count in re.findall(r"(\(.*?\)|\w+)(?:×(\d+))?(?:,|$)", what.replace("–", "")):
            snapshot[payload_of(payload)] += int(count or 1)
        for t in range(int(first), int(last or first) + 1):
            end = FOREVER if when.endswith("…") else t + 1
            found.extend((payload, t, int(end)) for payload in snapshot.elements())
    return found


def payload_of(text: str) -> tuple[Any, ...]:
    parts = text.strip("()").split(",")
    return tuple(int(part) if part.isdigit() else part for part in parts)


def in_order(text: str) -> PhysicalStream:
    """As the book's streams arrive: by start, each start a promise."""
    arriving: list[Element] = []
    for payload, start, end in sorted(lifetimes(text), key=lambda event: event[1]):
        arriving += [stable(start), insert(*payload, start=start, end=end)]
    return PhysicalStream(LETTERS, (*arriving, stable(FOREVER)))


def backwards(text: str) -> PhysicalStream:
    """Cut into single instants, the last one first."""
    chronons = [(p, t) for p, start, end in lifetimes(text) for t in range(start, end)]
    arriving = [insert(*payload, start=t, end=t + 1) for payload, t in reversed(chronons)]
    return PhysicalStream(LETTERS, (*arriving, stable(FOREVER)))


S = Source(name="S", schema=LETTERS)
T = Source(name="T", schema=LETTERS)


def of(text: str, over: Node = S) -> Expression:
    return Expression.parse(text, over.schema)


def mapped(text: str) -> Map:
    return Map(input=S, columns=(("e", of(text)),))


def held(size: int, slide: int = 1, over: Node = S) -> TimeWindow:
    return TimeWindow(input=over, size=Duration(size), slide=Duration(slide))


def aggregated(
    over: Node, function: Function, argument: str | None, key: str | None
) -> Aggregation:
    call = AggregateCall(
        function=function, argument=None if argument is None else of(argument, over)
    )
    keys = () if key is None else (("g", of(key, over)),)
    return Aggregation(input=over, group_by=keys, aggregates=(("r", call),))


NUMBERS = mapped("CASE e WHEN 'a' THEN 1 WHEN 'b' THEN 10 WHEN 'c' THEN 100 WHEN 'd' THEN 1000 END")
GROUP = "CASE e WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 3 END"
COUNTS = aggregated(S, "count", None, GROUP)

SNAPSHOT_TABLES: dict[str, tuple[Node, list[str], str]] = {
    "8.2 filter": (
        Filter(input=S, predicate=of("e IN ('a', 'c')")),
        [L1],
        "1 c · 2 a×3 · 3 a×3 · 4 a×3,c · 5 – · 6 –",
    ),
    "8.3 map": (
        mapped("CASE e WHEN 'b' THEN 'x' ELSE e END"),
        [L1],
        "1 c · 2 a×3 · 3 a×3,x · 4 a×3,x,c · 5 x×2 · 6 x×2",
    ),
    "a constant map adds up": (
        mapped("'k'"),
        [L1],
        "1 k · 2 k×3 · 3 k×4 · 4 k×5 · 5 k×2 · 6 k×2",
    ),
    "8.4 union": (
        Union(inputs=(S, T)),
        [L1, L2],
        "1 c · 2 a×3,b×2 · 3 a×3,b×3 · 4 a×4,b×2,c×2 · 5 a×2,b×3 · 6 a,b×2,c×2",
    ),
    "a union with nothing": (Union(inputs=(S, T)), ["", L2], L2),
    "8.8 grouping, group 1": (
        Filter(input=S, predicate=of(f"{GROUP} = 1")),
        [L1],
        "2 a×3 · 3 a×3 · 4 a×3",
    ),
    "8.8 grouping, group 3": (Filter(input=S, predicate=of(f"{GROUP} = 3")), [L1], "1 c · 4 c"),
    "8.9 sum": (
        aggregated(NUMBERS, "sum", "e", None),
        [L1],
        "1 100 · 2 3 · 3 13 · 4 113 · 5 20 · 6 20",
    ),
    "8.9 count": (
        aggregated(S, "count", None, None),
        [L1],
        "1 1 · 2 3 · 3 4 · 4 5 · 5 2 · 6 2",
    ),
    "count per group": (
        COUNTS,
        [L1],
        "1 (3,1) · 2 (1,3) · 3 (1,3),(2,1) · 4 (1,3),(2,1),(3,1) · 5 (2,2) · 6 (2,2)",
    ),
    "count per group, without the group": (
        Map(input=COUNTS, columns=(("r", of("r", COUNTS)),)),
        [L1],
        "1 1 · 2 3 · 3 1,3 · 4 1×2,3 · 5 2 · 6 2",
    ),
    "8.10 window": (
        held(2),
        [L1],
        "1 c · 2 a×3,c · 3 a×6,b · 4 a×6,b×2,c · 5 a×3,b×3,c · 6 b×4 · 7 b×2 · 8 –",
    ),
    "a window of one instant": (held(1), [L1], L1),
    "a window that forgets nothing": (
        held(UNBOUNDED),
        [L1],
        "1 c · 2 a×3,c · 3 a×6,b,c · 4 a×9,b×2,c×2 · 5 a×9,b×4,c×2 · 6… a×9,b×6,c×2",
    ),
    "a window over a lifetime": (held(2), ["2–4 a"], "2 a · 3 a×2 · 4 a×2 · 5 a"),
    "a window over a longer lifetime": (held(3), ["2–4 x"], "2 x · 3 x×2 · 4 x×3 · 5 x×2 · 6 x"),
    "17.1 tumbling": (held(3, 3), [L1], "2–4 a×3,c · 5–7 a×6,b×4,c · 8–10 b×2 · 11 –"),
    "17.1 a slide with gaps": (held(2, 3), [L1], "2–4 a×3,c · 5–7 a×3,b×3,c · 8 –"),
}

LIFETIME_TABLES: dict[str, tuple[Node, list[str], str]] = {
    "2.7 canonical form": (
        Coalesce(input=S),
        ["a[1,3) a[2,4) b[3,5) b[5,6)"],
        "a[1,4) a[2,3) b[3,6)",
    ),
    "11.2 filter": (Filter(input=S, predicate=of("e = 'a'")), [P1], "a[5,11) a[9,10)"),
    "11.3 map": (
        mapped("CASE e WHEN 'a' THEN 'x' WHEN 'b' THEN 'y' ELSE e END"),
        [P1],
        "c[1,8) x[5,11) d[6,14) x[9,10) y[12,17)",
    ),
    "11.4 union": (
        Union(inputs=(S, T)),
        [P1, P2],
        "c[1,8) b[1,7) d[3,9) a[4,5) a[5,11) d[6,14) b[7,15) a[9,10) e[10,18) b[12,17)",
    ),
    "11.9 sum": (
        aggregated(NUMBERS, "sum", "e", None),
        [P1],
        "100[1,5) 101[5,6) 1101[6,8) 1001[8,9) 1002[9,10) 1001[10,11) 1000[11,12) 1010[12,14) "
        "10[14,17)",
    ),
    "11.10 count per payload": (
        aggregated(S, "count", None, "e"),
        [P1],
        "(c,1)[1,8) (a,1)[5,9) (d,1)[6,14) (a,2)[9,10) (a,1)[10,11) (b,1)[12,17)",
    ),
    "11.11 window": (held(50), [P3], "b[1,51) a[3,53) c[4,54) a[7,57) b[10,60)"),
    "17.1 window with slide": (held(50, 10), [P3], "b[9,59) a[9,59) c[9,59) a[9,59) b[19,69)"),
    "a window over a lifetime": (held(2), ["a[2,5)"], "a[2,6) a[3,5)"),
    "a window over a longer lifetime": (held(3), ["x[2,5)"], "x[2,5) x[3,6) x[4,7)"),
    "11.15 coalesce": (Coalesce(input=S), [P2], "b[1,15) d[3,9) a[4,5) e[10,18)"),
    "coalesce keeps duplicates": (Coalesce(input=S), ["a[1,5) a[1,5)"], "a[1,5) a[1,5)"),
}


@pytest.mark.parametrize("table", [*SNAPSHOT_TABLES, *LIFETIME_TABLES])
def test_operators_mean_what_the_book_says(table: str) -> None:
    node, inputs, expected = (SNAPSHOT_TABLES | LIFETIME_TABLES)[table]
    names = [source.name for source in sources_of(node)]
    found = meaning(node, {name: read(text) for name, text in zip(names, inputs)})
    assert found.difference(read(expected)) == ""


@pytest.mark.parametrize("emit", ["speculative", "final"])
@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("table", [*SNAPSHOT_TABLES, *LIFETIME_TABLES])
def test_kernels_do_what_the_book_says(table: str, size: int, emit: Any) -> None:
    node, inputs, expected = (SNAPSHOT_TABLES | LIFETIME_TABLES)[table]
    left = assert_agrees(node, *map(in_order, inputs), batch_size=size, emit=emit)
    assert LogicalStream.of_batches(left).difference(read(expected)) == ""
    assert left[-1].stable == FOREVER


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("table", [*SNAPSHOT_TABLES, *LIFETIME_TABLES])
def test_kernels_do_so_from_single_instants_in_any_order(table: str, size: int) -> None:
    node, inputs, expected = (SNAPSHOT_TABLES | LIFETIME_TABLES)[table]
    left = assert_agrees(node, *map(backwards, inputs), batch_size=size)
    assert LogicalStream.of_batches(left).difference(read(expected)) == ""


def test_averages_leave_gaps_where_nothing_holds() -> None:
    number = Source(name="N", schema=pa.schema([("x", pa.float64())]))
    node = aggregated(number, "avg", "x", None)
    events = [(10.0, 0, 10), (20.0, 4, 12), (40.0, 4, 6), (5.0, 15, 18)]
    elements = [insert(value, start=start, end=end) for value, start, end in events]
    stream = PhysicalStream(number.schema, (*elements, stable(FOREVER)))
    for size in (1, 2, 9):
        left = assert_agrees(node, stream, batch_size=size)
        segments = [
            (start, end, round(value, 3))
            for ((value,), start, end) in LogicalStream.of_batches(left).events()
        ]
        assert segments == [
            (0, 4, 10.0),
            (4, 6, 23.333),
            (6, 10, 15.0),
            (10, 12, 20.0),
            (15, 18, 5.0),
        ]


def test_p1_has_these_snapshots() -> None:
    p1 = read(P1)
    shown = {t: "".join(e for (e,) in sorted(p1.snapshot(t).elements())) for t in (0, 8, 9, 10, 17)}
    assert shown == {0: "", 8: "ad", 9: "aad", 10: "ad", 17: ""}


def test_two_physical_streams_may_be_one_logical_stream() -> None:
    x = read("a[1,4) a[2,3) b[3,6)")
    y = read("a[1,3) a[2,4) b[3,5) b[5,6)")
    assert x == y == read("1 a · 2 a×2 · 3 a,b · 4 b · 5 b")
    assert y.events() == [(("a",), 1, 4), (("a",), 2, 3), (("b",), 3, 6)]


@pytest.mark.parametrize("form", [in_order, backwards])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_coalesced_lifetimes_are_the_longest(form: Form, size: int) -> None:
    state = PhysicalState.empty()
    for batch in assert_agrees(Coalesce(input=S), form(P2), batch_size=size):
        assert list(violations(elements_of(batch), state)) == []
    expected = lifetimes("b[1,15) d[3,9) a[4,5) e[10,18)")
    assert sorted(state.events.elements()) == sorted(expected)


COUNT = aggregated(S, "count", None, None)

# Batches of the worked example of speculative emission: what comes, what leaves.
SPECULATIVE_COUNT = """
insert x[1,8), stable 1            -> insert 1[1,8), stable 1
insert y[5,11), stable 5           -> adjust 1[1,8)5, insert 2[5,8), insert 1[8,11), stable 5
adjust y[5,11)7, insert z[6,9), stable 7
    -> adjust 2[5,8)6, insert 3[6,7), insert 2[7,8), adjust 1[8,11)9, stable 7
stable 12                          -> stable 12
"""


def test_count_leaves_exactly_these_elements() -> None:
    steps = [
        line.split("->") for line in SPECULATIVE_COUNT.replace("\n  ", "  ").strip().split("\n")
    ]
    came = [elements(text) for text, _ in steps]
    cuts = [sum(map(len, came[:n])) for n in range(1, len(came))]
    stream = PhysicalStream(LETTERS, tuple(each for batch in came for each in batch))
    left = assert_agrees(COUNT, stream.batches(*cuts))
    for batch, (_, expected) in zip(left, steps):
        assert {*elements_of(batch), stable(batch.stable)} == set(elements(expected))
        assert len(batch) == len(elements(expected)) - 1
