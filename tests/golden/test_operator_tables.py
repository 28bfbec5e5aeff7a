"""The worked tables of Kraemer 2007 for joins, duplicates, set operations and relations.

Tables read as in `test_book_tables`; an end of ∞ is forever. A trace lists what arrives, one event
after the other, each start a promise of its own stream; `1:` and `2:` say on which input.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.test_book_tables import (
    GROUP,
    L1,
    L2,
    LETTERS,
    NUMBERS,
    P1,
    P2,
    P3,
    S,
    T,
    aggregated,
    backwards,
    elements,
    held,
    in_order,
    lifetimes,
    of,
)
from tests.golden.test_book_tables import read as read_finite

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import (
    Move,
    PhysicalState,
    PhysicalStream,
    assert_agrees,
    elements_of,
    insert,
    meaning,
    sources_of,
    stable,
)


def read(text: str) -> LogicalStream:
    return read_finite(text.replace("∞", str(FOREVER)))


def renamed(node: Node, name: str) -> Map:
    return Map(input=node, columns=((name, of("e", node)),))


def joined(kind: JoinKind, text: str | None, left: Node = S, right: Node = T) -> Join:
    """A join of `e` with the `o` of the other side."""
    other = renamed(right, "o")
    both = pa.schema([*left.schema, *other.schema])
    predicate = None if text is None else Expression.parse(text, both)
    return Join(kind=kind, left=left, right=other, predicate=predicate)


def first(node: Node) -> Map:
    """What the left side brought into a join."""
    return Map(input=node, columns=(("e", of("e", node)),))


def combined(kind: SetKind, left: Node = S, right: Node = T) -> SetOperation:
    return SetOperation(kind=kind, left=left, right=right)


def group(number: int, over: Node = S) -> Filter:
    """One part of what a grouping makes of a stream."""
    return Filter(input=over, predicate=of(f"{GROUP} = {number}", over))


DIFFERENCE = combined("difference")
EQUAL = first(joined("inner", "e = o"))
PAIRED = joined("inner", "e < o")

SNAPSHOT_TABLES: dict[str, tuple[Node, list[str], str]] = {
    "8.5 product, by (8.4)": (
        joined("inner", None),
        [L1, L2],
        "2 (a,b)×6 · 3 (a,b)×6,(b,b)×2 · "
        "4 (a,a)×3,(a,b)×3,(a,c)×3,(b,a),(b,b),(b,c),(c,a),(c,b),(c,c) · "
        "5 (b,a)×4,(b,b)×2 · 6 (b,a)×2,(b,c)×4",
    ),
    "8.6 distinct": (Distinct(input=S), [L1], "1 c · 2 a · 3 a,b · 4 a,b,c · 5 b · 6 b"),
    "8.7 difference": (DIFFERENCE, [L1, L2], "1 c · 2 a×3 · 3 a×3 · 4 a×2 · 5 b · 6 b×2"),
    "the other difference": (DIFFERENCE, [L2, L1], "2 b×2 · 3 b · 4 – · 5 a×2 · 6 a,c×2"),
    "8.8 grouping, group 2": (group(2), [L1], "3 b · 4 b · 5 b×2 · 6 b×2"),
    "8.8 all groups together": (Union(inputs=(group(1), group(2), group(3))), [L1], L1),
    "8.10 theta-join, equal": (EQUAL, [L1, L2], "1 – · 2 – · 3 b×2 · 4 a×3,b,c · 5 b×2 · 6 –"),
    "8.10 theta-join, less": (
        PAIRED,
        [L1, L2],
        "2 (a,b)×6 · 3 (a,b)×6 · 4 (a,b)×3,(a,c)×3,(b,c) · 5 – · 6 (b,c)×4",
    ),
    "8.10 theta-join as product and filter": (
        Filter(input=joined("inner", None), predicate=of("e < o", joined("inner", None))),
        [L1, L2],
        "2 (a,b)×6 · 3 (a,b)×6 · 4 (a,b)×3,(a,c)×3,(b,c) · 5 – · 6 (b,c)×4",
    ),
    "semi-join, equal": (
        joined("semi", "e = o"),
        [L1, L2],
        "1 – · 2 – · 3 b · 4 a×3,b,c · 5 b×2 · 6 –",
    ),
    "8.11 semi-join as a join with distinct, equal": (
        first(joined("inner", "e = o", right=Distinct(input=T))),
        [L1, L2],
        "1 – · 2 – · 3 b · 4 a×3,b,c · 5 b×2 · 6 –",
    ),
    "semi-join, less": (
        joined("semi", "e < o"),
        [L1, L2],
        "1 – · 2 a×3 · 3 a×3 · 4 a×3,b · 5 – · 6 b×2",
    ),
    "8.12 intersection": (combined("intersection"), [L1, L2], "3 b · 4 a,b,c · 5 b · 6 –"),
    "8.13 max-union": (
        combined("max-union"),
        [L1, L2],
        "1 c · 2 a×3,b×2 · 3 a×3,b×2 · 4 a×3,b,c · 5 a×2,b×2 · 6 a,b×2,c×2",
    ),
    "8.14 strict difference": (
        combined("strict difference"),
        [L1, L2],
        "1 c · 2 a×3 · 3 a×3 · 4 – · 5 – · 6 b×2",
    ),
    "8.16 anti-join, equal": (
        joined("anti", "e = o"),
        [L1, L2],
        "1 c · 2 a×3 · 3 a×3 · 4 – · 5 – · 6 b×2",
    ),
    "8.16 anti-join, less": (
        joined("anti", "e < o"),
        [L1, L2],
        "1 c · 2 – · 3 b · 4 c · 5 b×2 · 6 –",
    ),
    "left join, equal": (
        joined("left", "e = o"),
        [L1, L2],
        "1 (c,NULL) · 2 (a,NULL)×3 · 3 (a,NULL)×3,(b,b)×2 · 4 (a,a)×3,(b,b),(c,c) · 5 (b,b)×2 · "
        "6 (b,NULL)×2",
    ),
    "a window per group is a window": (
        Union(inputs=(held(2, over=group(1)), held(2, over=group(2)), held(2, over=group(3)))),
        [L1],
        "1 c · 2 a×3,c · 3 a×6,b · 4 a×6,b×2,c · 5 a×3,b×3,c · 6 b×4 · 7 b×2 · 8 –",
    ),
    "nothing to remove duplicates from": (Distinct(input=S), [""], ""),
    "nothing to count": (aggregated(S, "count", None, None), [""], ""),
    "nothing to count per group": (aggregated(S, "count", None, "e"), [""], ""),
    "a product with nothing": (joined("inner", None), [L1, ""], ""),
    "nothing joined": (EQUAL, ["", L2], ""),
    "a semi-join with nothing": (joined("semi", "e = o"), [L1, ""], ""),
    "an anti-join with nothing": (joined("anti", "e = o"), [L1, ""], L1),
    "an intersection with nothing": (combined("intersection"), [L1, ""], ""),
    "a max-union with nothing": (combined("max-union"), ["", L2], L2),
    "nothing taken away": (DIFFERENCE, [L1, ""], L1),
    "taken away from nothing": (DIFFERENCE, ["", L2], ""),
}

LIFETIME_TABLES: dict[str, tuple[Node, list[str], str]] = {
    "11.6 join": (EQUAL, [P1, P2], "d[6,9) b[12,15)"),
    "11.7 distinct": (Distinct(input=S), [P1], "c[1,8) a[5,11) d[6,14) b[12,17)"),
    "distinct where lifetimes overlap": (
        Distinct(input=S),
        ["a[1,5) b[2,9) a[3,8) a[4,5) a[6,12)"],
        "a[1,12) b[2,9)",
    ),
    "11.8 difference": (DIFFERENCE, [P1, P2], "c[1,8) a[5,11) a[9,10) d[9,14) b[15,17)"),
    "a difference of fragments": (
        DIFFERENCE,
        ["x[1,12) x[3,6) x[13,15)", "x[2,5) x[4,9) x[13,14)"],
        "x[1,2) x[3,4) x[5,6) x[9,12) x[14,15)",
    ),
    "a difference of what is there twice": (DIFFERENCE, ["b[4,11)", "b[1,9) b[5,7)"], "b[9,11)"),
    "a sum without a false alarm": (
        aggregated(
            Map(input=S, columns=(("n", of("CASE e WHEN 'p' THEN 2 ELSE 7 END")),)),
            "sum",
            "n",
            None,
        ),
        ["p[0,4) q[4,8)"],
        "2[0,4) 7[4,8)",
    ),
    "17.1 tumbling": (held(10, 10), [P3], "b[9,19) a[9,19) c[9,19) a[9,19) b[19,29)"),
    "17.1 a size that is no multiple": (
        held(15, 10),
        [P3],
        "b[9,19) a[9,19) c[9,19) a[9,29) b[19,29)",
    ),
    "17.1 a slide with gaps": (held(3, 5), [P3], "a[4,9) c[4,9) a[9,14)"),
    "a window below distinct is one lifetime": (
        Distinct(input=held(3)),
        ["a[2,5) b[4,11)"],
        "a[2,7) b[4,13)",
    ),
    "17.4 a join with a relation": (EQUAL, ["x[3,10)", "x[0,5) x[8,∞)"], "x[3,5) x[8,10)"),
    "17.4 a difference with a relation": (DIFFERENCE, ["x[3,10)", "x[0,5) x[8,∞)"], "x[5,8)"),
    "17.4 a join with a constant relation": (
        EQUAL,
        [P1, "a[0,∞) d[0,∞)"],
        "a[5,11) d[6,14) a[9,10)",
    ),
}
TABLES = SNAPSHOT_TABLES | LIFETIME_TABLES


def null(value: Any) -> Any:
    return None if value == "NULL" else value


def wanted(text: str) -> LogicalStream:
    return read(text).map(lambda row: tuple(map(null, row)))


@pytest.mark.parametrize("table", TABLES)
def test_operators_mean_what_the_book_says(table: str) -> None:
    node, inputs, expected = TABLES[table]
    names = [source.name for source in sources_of(node)]
    found = meaning(node, {name: read(text) for name, text in zip(names, inputs)})
    assert found.difference(wanted(expected)) == ""


@pytest.mark.parametrize(
    ("size", "emit"), [(1, "speculative"), (2, "final"), (5, "speculative"), (100, "final")]
)
@pytest.mark.parametrize("table", TABLES)
def test_kernels_do_what_the_book_says(table: str, size: int, emit: Any) -> None:
    node, inputs, expected = TABLES[table]
    streams = [in_order(text.replace("∞", str(FOREVER))) for text in inputs]
    left = assert_agrees(node, *streams, batch_size=size, emit=emit)
    assert LogicalStream.of_batches(left).difference(wanted(expected)) == ""
    assert left[-1].stable == FOREVER


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize("table", TABLES)
def test_kernels_do_so_from_single_instants_in_any_order(table: str, size: int) -> None:
    """Infinite lifetimes are cut at 30, later than all else."""
    node, inputs, expected = TABLES[table]
    left = assert_agrees(
        node, *(backwards(text.replace("∞", "30")) for text in inputs), batch_size=size
    )
    assert LogicalStream.of_batches(left).difference(wanted(expected)) == ""


SEMI, ANTI = joined("semi", "e < o"), joined("anti", "e < o")
INFLATED = first(joined("inner", "e < o", right=Distinct(input=T)))
"""The semi-join as (8.11) has it: once per different partner."""

INTERSECTION = combined("intersection")
STRICT = combined("strict difference")

# What an operator is, and how the book derives it from others.
DERIVED: dict[str, tuple[Node, Node]] = {
    "8.10 theta-join": (PAIRED, TABLES["8.10 theta-join as product and filter"][0]),
    "8.11 semi-join": (SEMI, combined("intersection", S, INFLATED)),
    "8.12 intersection": (INTERSECTION, combined("difference", S, DIFFERENCE)),
    "8.13 max-union": (
        combined("max-union"),
        Union(inputs=(DIFFERENCE, combined("difference", T, S), INTERSECTION)),
    ),
    "8.14 strict difference": (STRICT, combined("difference", S, joined("semi", "e = o"))),
    "8.14 strict difference as an anti-join": (STRICT, joined("anti", "e = o")),
    "8.15 grouping with aggregation": (
        aggregated(S, "count", None, GROUP),
        Union(
            inputs=tuple(aggregated(group(number), "count", None, GROUP) for number in (1, 2, 3))
        ),
    ),
    "8.16 anti-join": (ANTI, combined("difference", S, SEMI)),
    "8.16 anti-join, too much taken away": (ANTI, combined("difference", S, INFLATED)),
    "except": (
        Distinct(input=STRICT),
        combined("difference", Distinct(input=S), Distinct(input=T)),
    ),
    "12.1 coalesced inputs": (DIFFERENCE, combined("difference", Coalesce(input=S), T)),
    "12.1 a coalesced output": (EQUAL, Coalesce(input=EQUAL)),
}


@pytest.mark.parametrize("inputs", [(L1, L2), (L2, L1), (P1, P2), (P2, P1)], ids=str)
@pytest.mark.parametrize("operator", DERIVED)
def test_derived_operators_are_what_they_are_derived_from(
    operator: str, inputs: tuple[str, str]
) -> None:
    pair = DERIVED[operator]
    for form in (in_order, backwards):
        found = []
        for node in pair:
            streams = [form(text) for _, text in zip(sources_of(node), inputs)]
            found.append(LogicalStream.of_batches(assert_agrees(node, *streams, batch_size=3)))
        assert found[0].difference(found[1]) == ""


def arriving(text: str) -> list[tuple[str, tuple[Any, ...], int, int]]:
    """`1:c[1,8) 2:b[1,7)`: on which source, and the event."""
    found = []
    for word in text.split():
        number, event = word.split(":")
        found.append(({"1": "S", "2": "T"}[number], *lifetimes(event)[0]))
    return found


def steps_of(text: str) -> list[dict[str, EventBatch]]:
    """One batch per event, with its start as a promise; at last both streams end."""
    steps = []
    for source, payload, start, end in arriving(text):
        came = (stable(start), insert(*payload, start=start, end=end))
        steps.append({source: PhysicalStream(LETTERS, came).batches()[0]})
    over = EventBatch.empty(LETTERS, FOREVER)
    return [*steps, {"S": over, "T": over}]


def shown(batch: EventBatch) -> list[str]:
    """What leaves, as `elements` reads it."""
    return sorted(show(move) for move in elements_of(batch))


def show(move: Move) -> str:
    payload = ",".join(map(str, move.payload))
    if move.end == move.start:
        return f"insert {payload}[{move.start},{move.new_end})"
    return f"adjust {payload}[{move.start},{move.end}){move.new_end}"


BOTH = (
    "1:c[1,8) 2:b[1,7) 2:d[3,9) 2:a[4,5) 1:a[5,11) 1:d[6,14) 2:b[7,15) 1:a[9,10) 2:e[10,18) "
    "1:b[12,17)"
)

# How far both inputs have come, what a queue has released by then, and what it holds.
UNION_TRACE: list[tuple[int | None, str, str]] = [
    (None, "", "c[1,8)"),
    (1, "c[1,8) b[1,7)", ""),
    (1, "", "d[3,9)"),
    (1, "", "d[3,9) a[4,5)"),
    (4, "d[3,9) a[4,5)", "a[5,11)"),
    (4, "", "a[5,11) d[6,14)"),
    (6, "a[5,11) d[6,14)", "b[7,15)"),
    (7, "b[7,15)", "a[9,10)"),
    (9, "a[9,10)", "e[10,18)"),
    (10, "e[10,18)", "b[12,17)"),
    (int(FOREVER), "b[12,17)", ""),
]


def test_a_union_has_sent_all_that_a_queue_would_release_or_hold() -> None:
    left = assert_agrees(Union(inputs=(S, T)), batches=steps_of(BOTH))
    final = assert_agrees(Union(inputs=(S, T)), batches=steps_of(BOTH), emit="final")
    released: list[tuple[tuple[Any, ...], int, int]] = []
    state = PhysicalState.empty()
    for number, (progress, out, kept) in enumerate(UNION_TRACE):
        for move in elements_of(left[number]):
            assert not state.take(move)
        released += lifetimes(out)
        reached = BEGINNING if progress is None else progress
        assert left[number].stable == final[number].stable == reached
        assert state.events == Counter([*released, *lifetimes(kept)])
        sent = LogicalStream.of_batches(final[: number + 1])
        assert sent == LogicalStream.of(released).before(reached)


# Of the events of BOTH, those that make a difference, and what leaves at once.
JOIN_TRACE = {
    "1:d[6,14)": ["insert d[6,9)"],
    "1:b[12,17)": ["insert b[12,15)"],
}
DIFFERENCE_TRACE = {
    "1:c[1,8)": ["insert c[1,8)"],
    "1:a[5,11)": ["insert a[5,11)"],
    "1:d[6,14)": ["insert d[9,14)"],
    "1:a[9,10)": ["insert a[9,10)"],
    "1:b[12,17)": ["insert b[15,17)"],
}


@pytest.mark.parametrize(
    ("node", "trace"),
    [(EQUAL, JOIN_TRACE), (DIFFERENCE, DIFFERENCE_TRACE)],
    ids=["join", "difference"],
)
def test_results_leave_when_they_are_formed(node: Node, trace: dict[str, list[str]]) -> None:
    left = assert_agrees(node, batches=steps_of(BOTH))
    assert [shown(batch) for batch in left] == [*(trace.get(x, []) for x in BOTH.split()), []]


def test_what_has_ended_on_one_side_does_not_join() -> None:
    """The right a[4,5) and the left a[5,11) only touch; then nothing of it is kept."""
    runner = LocalRunner(EQUAL)
    for step in steps_of("2:a[4,5) 1:a[5,11) 2:z[6,7) 1:z[7,8)"):
        assert not len(runner.step(step))
    assert runner.state_rows() == 0


def test_distinct_prolongs_what_it_has_sent() -> None:
    """A queue holds back a[5,8) and a[8,12); here the end of what was sent moves."""
    trace = {
        "1:a[1,5)": ["insert a[1,5)"],
        "1:b[2,9)": ["insert b[2,9)"],
        "1:a[3,8)": ["adjust a[1,5)8"],
        "1:a[4,5)": [],
        "1:a[6,12)": ["adjust a[1,8)12"],
    }
    steps = [{"S": step["S"]} for step in steps_of(" ".join(trace))]
    left = assert_agrees(Distinct(input=S), batches=steps)
    assert [shown(batch) for batch in left] == [*trace.values(), []]


def test_an_element_that_starts_where_one_ends_prolongs_it() -> None:
    steps = [{"S": step["S"]} for step in steps_of("1:a[1,5) 1:a[5,8)")]
    left = assert_agrees(Distinct(input=S), batches=steps)
    assert [shown(batch) for batch in left] == [["insert a[1,5)"], ["adjust a[1,5)8"], []]


# What a sum of 11.9 has sent after each event of P1, and what it still works on.
SUM_TRACE = [
    ("", "100[1,8)"),
    ("100[1,5)", "101[5,8) 1[8,11)"),
    ("101[5,6)", "1101[6,8) 1001[8,11) 1000[11,14)"),
    ("1101[6,8) 1001[8,9)", "1002[9,10) 1001[10,11) 1000[11,14)"),
    ("1002[9,10) 1001[10,11) 1000[11,12)", "1010[12,14) 10[14,17)"),
    ("1010[12,14) 10[14,17)", ""),
]
SUM = aggregated(NUMBERS, "sum", "e", None)


def test_a_sum_sends_what_is_settled() -> None:
    batches = in_order(P1).in_batches_of(2)
    final = assert_agrees(SUM, batches, emit="final")
    best = assert_agrees(SUM, batches)
    for number, (sent, kept) in enumerate(SUM_TRACE):
        events = [(move.payload, move.start, move.new_end) for move in elements_of(final[number])]
        assert sorted(events) == sorted(lifetimes(sent))
        known = LogicalStream.of_batches(best[: number + 1]).events()
        now = best[number].stable
        assert LogicalStream.of(
            (row, max(start, now), end) for row, start, end in known if end > now
        ) == read(kept)


def test_a_heartbeat_releases_what_a_start_does_not() -> None:
    """Heartbeat 10 says that nothing at 10 follows; a start at 10 does not (13.5)."""
    so_far = in_order(P1).elements[:8]
    for promise, expected in ((10, "1002[9,10)"), (11, "1002[9,10) 1001[10,11)")):
        stream = PhysicalStream(LETTERS, (*so_far, stable(promise)))
        (_, left) = assert_agrees(SUM, stream.batches(8), emit="final")
        assert left.stable == promise
        assert LogicalStream.of_batches([left]) == read(expected)


def test_groups_do_not_wait_for_each_other() -> None:
    """By a[9,10) the results of c and a are there, by b[12,17) all of a (11.10)."""
    node = aggregated(S, "count", None, "e")
    left = assert_agrees(node, in_order(P1).in_batches_of(2), emit="final")
    sent = LogicalStream.of_batches(left[:4])
    assert sent == read("(c,1)[1,8) (a,1)[5,9) (d,1)[6,9)")
    assert LogicalStream.of_batches(left[:3]).difference(read("(c,1)[1,6) (a,1)[5,6)")) == ""
    sent = LogicalStream.of_batches(left[:5])
    assert sent == read("(c,1)[1,8) (a,1)[5,9) (d,1)[6,12) (a,2)[9,10) (a,1)[10,11)")


def test_an_input_that_has_ended_does_not_hold_back_the_other() -> None:
    for node in (Union(inputs=(S, T)), EQUAL, DIFFERENCE, joined("full", "e = o")):
        ended = {"T": EventBatch.empty(LETTERS, FOREVER)}
        steps = [ended, *({"S": batch} for batch in in_order(P1).in_batches_of(2))]
        left = assert_agrees(node, batches=steps)
        assert [batch.stable for batch in left] == [BEGINNING, 1, 5, 6, 9, 12, FOREVER]


# Worked batches of speculative emission: what comes on each side, what leaves.
BATCHES: dict[str, tuple[Node, list[tuple[dict[str, str], str]]]] = {
    "distinct": (
        Distinct(input=S),
        [
            ({"S": "insert a[1,6), insert a[4,9), stable 4"}, "insert a[1,9), stable 4"),
            ({"S": "insert a[5,6), adjust a[4,9)7, stable 6"}, "adjust a[1,9)7, stable 6"),
            ({"S": "insert a[12,14), stable 12"}, "insert a[12,14), stable 12"),
            ({"S": "adjust a[12,14)12, stable 15"}, "adjust a[12,14)12, stable 15"),
        ],
    ),
    "difference": (
        DIFFERENCE,
        [
            (
                {"S": "insert d[6,14), stable 6", "T": "insert d[3,9), stable 3"},
                "insert d[9,14), stable 3",
            ),
            (
                {"S": "stable 15", "T": "adjust d[3,9)11, stable 9"},
                "adjust d[9,14)9, insert d[11,14), stable 9",
            ),
        ],
    ),
    "join": (
        EQUAL,
        [
            (
                {"S": "insert d[6,14), stable 6", "T": "insert d[3,9), stable 3"},
                "insert d[6,9), stable 3",
            ),
            (
                {"S": "stable 15", "T": "adjust d[3,9)11, stable 9"},
                "adjust d[6,9)11, stable 9",
            ),
            ({"T": "stable 12"}, "stable 12"),
        ],
    ),
    "anti-join": (
        joined("anti", "e = o"),
        [
            ({"S": "insert d[6,14), stable 6", "T": "stable 3"}, "insert d[6,14), stable 3"),
            (
                {"T": "insert d[8,10), stable 8"},
                "adjust d[6,14)8, insert d[10,14), stable 6",
            ),
            (
                {"T": "adjust d[8,10)8"},
                "adjust d[6,8)14, adjust d[10,14)10, stable 6",
            ),
        ],
    ),
}


@pytest.mark.parametrize("operator", BATCHES)
def test_exactly_these_elements_leave(operator: str) -> None:
    node, steps = BATCHES[operator]
    came = []
    for given, _ in steps:
        streams = {
            name: PhysicalStream(LETTERS, tuple(elements(text))) for name, text in given.items()
        }
        came.append({name: stream.batches()[0] for name, stream in streams.items()})
    for batch, (_, expected) in zip(assert_agrees(node, batches=came), steps):
        assert {*elements_of(batch), stable(batch.stable)} == set(elements(expected))
        assert len(batch) == len(elements(expected)) - 1


def relation(*rows: Move) -> list[EventBatch]:
    """A table that is all there."""
    return PhysicalStream(LETTERS, (*rows, stable(FOREVER))).batches()


X_PERIODS = (insert("x", start=0, end=5), insert("x", start=8))
RELATION = Source(name="T", schema=LETTERS, relation=True)


@pytest.mark.parametrize("emit", ["speculative", "final"])
@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (first(joined("inner", "e = o", right=RELATION)), "x[3,5) x[8,10)"),
        (combined("difference", right=RELATION), "x[5,8)"),
        (joined("anti", "e = o", right=RELATION), "x[5,8)"),
        (joined("semi", "e = o", right=RELATION), "x[3,5) x[8,10)"),
    ],
    ids=["join", "difference", "anti-join", "semi-join"],
)
def test_a_relation_never_holds_a_stream_back(node: Node, expected: str, emit: Any) -> None:
    """Time comes from the stream alone, and what the relation has stays until it is over."""
    steps: list[dict[str, EventBatch]] = [{"T": batch} for batch in relation(*X_PERIODS)]
    came = (stable(3), insert("x", start=3, end=10), stable(6), stable(9), stable(10))
    steps += [{"S": batch} for batch in PhysicalStream(LETTERS, came).in_batches_of(1)]
    left = assert_agrees(node, batches=steps, emit=emit)
    assert [batch.stable for batch in left] == [BEGINNING, 3, 3, 6, 9, 10]
    assert LogicalStream.of_batches(left) == read(expected)


def test_a_row_of_a_relation_meets_all_that_come() -> None:
    node = joined("inner", "e = o", right=RELATION)
    runner = LocalRunner(node)
    runner.step({"T": relation(insert("x", start=BEGINNING + 1))[0]})
    for start in range(0, 5_000, 100):
        came = (insert("x", start=start, end=start + 7), stable(start))
        (row,) = elements_of(runner.step({"S": PhysicalStream(LETTERS, came).batches()[0]}))
        assert (row.start, row.new_end) == (start, start + 7)
    # The constant row, and what of the stream may still be adjusted.
    assert runner.state_rows() == 2


def test_who_opens_an_auction_soon_after_registering() -> None:
    """Example 17.7, in hours: p1 registers at 0, p2 at 5; who is at 12 is too late."""
    people = PhysicalStream(
        LETTERS, (insert("p1", start=0), insert("p2", start=5), stable(FOREVER))
    )
    sellers = [("p1", 11), ("p1", 12), ("p2", 6), ("p2", 6)]
    auctions = PhysicalStream(
        LETTERS, (*(insert(who, start=t, end=t + 1) for who, t in sellers), stable(FOREVER))
    )
    registered = held(12, over=ToStream(input=S, kind="insertions"))
    node = Distinct(input=first(joined("inner", "e = o", left=registered)))
    assert meaning(registered, {"S": people.meaning()}) == read("p1[0,12) p2[5,17)")
    for size in (1, 2, 100):
        left = assert_agrees(node, people, auctions, batch_size=size)
        assert LogicalStream.of_batches(left) == read("p1[11,12) p2[6,7)")
