"""What holds for every operator: batches do not matter, final is settled, state is let go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, get_args

import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.lifetimes import split
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import (
    KitStable,
    LocalRunner,
    PhysicalState,
    PhysicalStream,
    elements_of,
    insert,
    schedules,
    sources_of,
    streams,
)
from tests.kernels.plans import SCHEMA, SOURCE, aggregate, plans

Steps: TypeAlias = list[dict[str, EventBatch]]

OTHER: Final = Source(name="T", schema=SCHEMA)
POINTS: Final = Source(name="S", schema=SCHEMA, only_points=True)
BOUNDS: Final = ("window_start", "window_end")


def of(text: str, over: Node = SOURCE) -> Expression:
    return Expression.parse(text, over.schema)


def join(kind: JoinKind, text: str | None) -> Join:
    columns = tuple((f"{name}2", of(name, OTHER)) for name in SCHEMA.names)
    right = Map(input=OTHER, columns=columns)
    both = pa.schema([*SCHEMA, *right.schema])
    predicate = None if text is None else Expression.parse(text, both)
    return Join(kind=kind, left=SOURCE, right=right, predicate=predicate)


def window(rows: int, slide: int, *by: str) -> CountWindow:
    keys = tuple((name, of(name)) for name in by)
    return CountWindow(input=SOURCE, rows=rows, slide=slide, partition_by=keys, order_by=(of("v"),))


def held(size: int, slide: int = 1) -> TimeWindow:
    return TimeWindow(input=SOURCE, size=Duration(size), slide=Duration(slide))


def shown(size: int, slide: int) -> TimeWindow:
    return replace(held(size, slide), input=POINTS, columns=BOUNDS)


def session(gap: int, *by: str, bounds: bool = True) -> SessionWindow:
    keys = tuple((name, of(name)) for name in by)
    columns = BOUNDS if bounds else None
    return SessionWindow(input=POINTS, gap=Duration(gap), partition_by=keys, columns=columns)


STATELESS: Final[dict[str, Node]] = {
    "filter": Filter(input=SOURCE, predicate=of("v > 0 OR k = 'a'")),
    "map": Map(input=SOURCE, columns=(("k", of("upper(k)")), ("v", of("v % 2")))),
    "union": Union(inputs=(SOURCE, OTHER)),
    "time window": held(3),
    "time window with a slide": held(5, 3),
    "tumbling window with bounds": shown(3, 3),
    "hopping window with bounds": shown(5, 2),
    "granularity": Granularity(input=SOURCE, granule=Duration(3)),
    "shift": Shift(input=SOURCE, by=-2),
    "clip": Clip(input=SOURCE, start=Time(2), end=Time(9)),
}
AGGREGATES: Final[dict[str, Node]] = {
    "count": aggregate(SOURCE, (), "n"),
    "count per key": aggregate(SOURCE, ("k",), "n", "c"),
    "sums": aggregate(SOURCE, ("k",), "s", "ax", "vs"),
    "extremes": aggregate(SOURCE, ("k",), "lo", "hi", "his"),
    "distinct values": aggregate(SOURCE, ("k",), "d", "sdx"),
    "whole groups": aggregate(SOURCE, ("v",), "med", "pv", "t"),
}
MULTIPLICITIES: Final[dict[str, Node]] = {
    "coalesce": Coalesce(input=SOURCE),
    "distinct": Distinct(input=SOURCE),
    **{kind: SetOperation(kind=kind, left=SOURCE, right=OTHER) for kind in get_args(SetKind)},
}
JOINS: Final[dict[str, Node]] = {
    f"{kind} join on {text}": join(kind, text)
    for kind in get_args(JoinKind)
    for text in (None, "k = k2", "k = k2 AND v < v2", "v <= v2", "abs(v - v2) <= 1")
}
COUNT_WINDOWS: Final[dict[str, Node]] = {
    "two rows": window(2, 1),
    "two rows per key": window(2, 1, "k"),
    "three rows with a slide": window(3, 2, "v"),
    "first rows": TopK(input=SOURCE, k=2, order_by=((of("v"), True, False),)),
    "first rows per key": TopK(
        input=SOURCE,
        k=1,
        order_by=((of("x"), False, True),),
        partition_by=(("k", of("k")),),
    ),
}
LIFETIMES: Final[dict[str, Node]] = {
    "split": Split(input=SOURCE, length=Duration(3)),
    "istream": ToStream(input=SOURCE, kind="insertions"),
    "dstream": ToStream(input=SOURCE, kind="deletions"),
    "dstream at the end": ToStream(input=SOURCE, kind="deletions", anchor="first_invalid"),
    "rstream": ToStream(input=SOURCE, kind="snapshots"),
    "signs": ToSigned(input=SOURCE),
    "signs and back": FromSigned(input=ToSigned(input=SOURCE)),
    "cleanse": Cleanse(input=SOURCE),
    "cleanse whole events": Cleanse(input=SOURCE, cut=False),
    "duration": AlterLifetime(input=SOURCE, duration=Duration(4)),
    "extend": AlterLifetime(input=SOURCE, extend=Duration(2)),
    "at most": AlterLifetime(input=SOURCE, at_most=Duration(3)),
}
SESSIONS: Final[dict[str, Node]] = {
    "sessions": session(3),
    "sessions per key": session(4, "k"),
    "sessions of one instant": session(1, "k"),
    "sessions without bounds": session(3, "v", bounds=False),
    "counts per session": aggregate(session(4, "k"), ("k", *BOUNDS), "n"),
}
FAMILIES: Final[dict[str, dict[str, Node]]] = {
    "stateless": STATELESS,
    "aggregates": AGGREGATES,
    "multiplicities": MULTIPLICITIES,
    "joins": JOINS,
    "count windows": COUNT_WINDOWS,
    "lifetimes": LIFETIMES,
    "sessions": SESSIONS,
}
FAMILY: Final = pytest.mark.parametrize("family", FAMILIES)
MERGED: Final = pytest.mark.parametrize("eagerness", [runs.MERGE_ALL_UP_TO_ROWS], indirect=True)
"""Small traces are merged at every step, so that they hold just what matters."""


@pytest.fixture(
    autouse=True, params=[0, runs.MERGE_ALL_UP_TO_ROWS], ids="traces of {} rows merge".format
)
def eagerness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", request.param)
    monkeypatch.setattr(split, "MOST_PIECES", 300)


@contextlib.contextmanager
def unless_refused() -> Iterator[None]:
    """Very long lifetimes are neither cut into short pieces nor unfolded in windows."""
    try:
        yield
    except StreamError as refused:
        if not any(word in refused.what for word in ("pieces", "layers", "instants", "counted")):
            raise
        reject()


def drawn(family: str, data: st.DataObject) -> Node:
    return FAMILIES[family][data.draw(st.sampled_from(sorted(FAMILIES[family])))]


def told(node: Node) -> st.SearchStrategy[dict[str, PhysicalStream]]:
    """A stream for every source of a plan, now and then with lifetimes of any length."""

    def some(source: Source) -> st.SearchStrategy[PhysicalStream]:
        return st.sampled_from([9, 9, FOREVER]).flatmap(
            lambda longest: streams(
                SCHEMA, max_size=12, longest=longest, only_points=source.only_points
            )
        )

    return st.fixed_dictionaries({source.name: some(source) for source in sources_of(node)})


def told_in(given: Mapping[str, PhysicalStream]) -> st.SearchStrategy[Steps]:
    """The same elements in some batches, interleaved in some way."""
    return schedules(**{name: st.just(stream) for name, stream in given.items()})


def run(node: Node, steps: Steps, emit: Emission = "speculative") -> list[EventBatch]:
    runner = LocalRunner(node, emit)
    with unless_refused():
        return [runner.step(step) for step in steps]


def check_batches(node: Node, data: st.DataObject) -> None:
    """Any cut of the same elements means the same and promises the same in the end."""
    given = data.draw(told(node))
    one, other = (run(node, data.draw(told_in(given))) for _ in range(2))
    assert one[-1].stable == other[-1].stable
    late = any(each.holds_back for each in node.walk())
    known = one[-1].stable if late else FOREVER
    found = LogicalStream.of_batches(one)
    assert found.difference(LogicalStream.of_batches(other), known) == ""


def check_final(node: Node, data: st.DataObject) -> None:
    """After every batch, final output is what speculative output has before the stable point."""
    steps = data.draw(told(node).flatmap(told_in))
    best, final = run(node, steps), run(node, steps, "final")
    before = BEGINNING
    for number, out in enumerate(final):
        assert out.stable == best[number].stable
        assert (out.end == out.start).all()
        assert (out.start >= before).all()
        assert (out.new_end <= out.stable).all()
        settled = LogicalStream.of_batches(best[: number + 1]).before(out.stable)
        assert LogicalStream.of_batches(final[: number + 1]).difference(settled) == ""
        before = out.stable


@FAMILY
@given(data=st.data())
def test_how_a_stream_is_cut_does_not_matter(family: str, data: st.DataObject) -> None:
    check_batches(drawn(family, data), data)


@given(node=plans(), data=st.data())
def test_how_the_stream_of_a_whole_plan_is_cut_does_not_matter(
    node: Node, data: st.DataObject
) -> None:
    check_batches(node, data)


@FAMILY
@given(data=st.data())
def test_final_output_is_the_settled_part_of_the_best_answer(
    family: str, data: st.DataObject
) -> None:
    check_final(drawn(family, data), data)


@given(node=plans(), data=st.data())
def test_final_output_of_a_whole_plan_is_the_settled_part(node: Node, data: st.DataObject) -> None:
    check_final(node, data)


def alive(batches: Sequence[EventBatch], stable: Time) -> list[tuple[int, int]]:
    """The lifetimes that are not fully frozen, one per event."""
    state = PhysicalState.empty()
    for batch in batches:
        for move in elements_of(batch):
            state.take(move)
    return [(start, end) for _, start, end in state.events.elements() if end >= stable]


def with_end(node: Node, steps: Steps) -> Steps:
    """At last, all streams end."""
    over = EventBatch.empty(SCHEMA, FOREVER)
    return [*steps, {source.name: over for source in sources_of(node)}]


def is_endless(node: Node, steps: Steps) -> bool:
    """Whether a kernel of a plan may hold lifetimes that do not end, not even with the stream.

    The rows of a count window hold until others come.
    """
    ends = [int(batch.new_end.max()) for step in steps for batch in step.values() if len(batch)]
    counted = any(isinstance(each, CountWindow) for each in node.walk())
    return counted or max(ends, default=0) >= FOREVER - 100


@FAMILY
@MERGED
@given(data=st.data())
def test_nothing_is_held_after_the_end(family: str, data: st.DataObject) -> None:
    node = drawn(family, data)
    check_end(node, data)


@MERGED
@given(node=plans(), data=st.data())
def test_a_whole_plan_holds_nothing_after_the_end(node: Node, data: st.DataObject) -> None:
    check_end(node, data)


def check_end(node: Node, data: st.DataObject) -> None:
    short = st.fixed_dictionaries(
        {
            source.name: streams(SCHEMA, max_size=12, longest=9, only_points=source.only_points)
            for source in sources_of(node)
        }
    )
    steps = with_end(node, data.draw(short.flatmap(told_in)))
    above: dict[Emission, tuple[Node, ...]] = {"speculative": node.inputs, "final": (node,)}
    for emit, below in above.items():
        runner = LocalRunner(node, emit)
        with unless_refused():
            for step in steps:
                out = runner.step(step)
        assert out.stable == FOREVER
        assert runner.state_rows() == 0 or any(is_endless(each, steps) for each in below)


# How many rows are held at most for each event of the input or the output that is not fully
# frozen: two for a lifetime in each timeline of an operator, and as many that are out of date. A
# trace is merged when something changes, or when more than a row per key is out of date.
ROWS_PER_EVENT: Final = {
    "stateless": 0,
    "aggregates": 6,
    "multiplicities": 4,
    "joins": 6,
    "count windows": 8,
    "lifetimes": 6,
    "sessions": 6,
}


@FAMILY
@MERGED
@given(data=st.data())
def test_state_follows_what_is_not_frozen(family: str, data: st.DataObject) -> None:
    node = drawn(family, data)
    steps = with_end(node, data.draw(told(node).flatmap(told_in)))
    runner = LocalRunner(node)
    # What meets on both sides counts even where it leaves only once, or not at all.
    inner = replace(node, kind="inner") if isinstance(node, Join) else node
    pairs, met = LocalRunner(inner), list[EventBatch]()
    left: list[EventBatch] = []
    came: dict[str, list[EventBatch]] = {source.name: [] for source in sources_of(node)}
    promised = dict.fromkeys(came, BEGINNING)
    with unless_refused():
        for step in steps:
            left.append(runner.step(step))
            met.append(pairs.step(step))
            for name, batch in step.items():
                came[name].append(batch)
                promised[name] = Time(max(promised[name], batch.stable))
            stable = Time(min(promised.values()))
            events = [event for some in came.values() for event in alive(some, stable)]
            needed = len(events) + len(alive(left, Time(min(stable, left[-1].stable))))
            if isinstance(node, Join):
                needed += len(alive(met, stable))
            if isinstance(node, CountWindow):
                needed += sum(min(end - max(start, stable), 99) for start, end in events)
                needed += (node.rows + node.slide) * 8
            assert runner.state_rows() <= ROWS_PER_EVENT[family] * needed


@MERGED
def test_a_semi_join_forgets_partners_that_are_over() -> None:
    """Also where nothing more comes on their side."""
    runner = LocalRunner(join("semi", "k = k2"))
    partner = insert("a", 1, 0.5, start=1, end=5)
    runner.step({"T": PhysicalStream(SCHEMA, (partner, KitStable(FOREVER))).batches()[0]})
    for start in (3, 20, 30):
        row = insert("b", 1, 0.5, start=start, end=start + 1)
        runner.step({"S": PhysicalStream(SCHEMA, (row, KitStable(start))).batches()[0]})
    # What is left is one row of the stream, and how often it holds.
    assert runner.state_rows() <= 3
