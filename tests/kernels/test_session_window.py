"""Session windows mean what their node says, for any batches of any points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.errors import EngineError, StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.contract import keys
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.explain import explain_stages
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import (
    Element,
    LocalRunner,
    PhysicalState,
    PhysicalStream,
    adjust,
    assert_agrees,
    batchings,
    elements_of,
    insert,
    payload_schemas,
    points,
    stable,
    violations,
)
from tests.kernels.plans import SCHEMA, aggregate

pytestmark = pytest.mark.usefixtures("eagerness")

Emission = Literal["speculative", "final"]
EMISSIONS: list[Emission] = ["speculative", "final"]
BOUNDS = ("window_start", "window_end")
POINTS = Source(name="S", schema=SCHEMA, only_points=True)
ARRIVING = points(SCHEMA).flatmap(batchings)

LETTERS = Source(name="S", schema=SCHEMA.remove(2).remove(1), only_points=True)


def session(gap: int, *by: str, over: Node = POINTS, **options: Any) -> SessionWindow:
    parts = tuple((f"p{n}", Expression.parse(text, over.schema)) for n, text in enumerate(by))
    given: dict[str, Any] = {"columns": BOUNDS, **options}
    return SessionWindow(input=over, gap=Duration(gap), partition_by=parts, **given)


@st.composite
def sessions(draw: st.DrawFn) -> SessionWindow:
    return session(
        draw(st.sampled_from([1, 2, 3, 4, 6, 10**18, FOREVER - 1])),
        *draw(st.sampled_from([(), (), ("k",), ("v % 2",), ("k", "x")])),
        columns=draw(st.sampled_from([None, BOUNDS])),
    )


def settled(node: SessionWindow, batches: list[EventBatch]) -> int:
    """How far the output is settled, by the sessions that there are."""
    promised = max((batch.stable for batch in batches), default=BEGINNING)
    if promised == FOREVER:
        return FOREVER
    meant = node.denote(LogicalStream.of_batches(batches))
    # Every session is an event of its own, unless two of one payload touch.
    rows = meant.steps if node.columns else ()
    open_since = [row[-2] for row in rows if row[-2] < promised < row[-1]]
    return int(min([promised, *open_since]))


@given(sessions(), ARRIVING, st.sampled_from(EMISSIONS))
def test_sessions_over_points(
    node: SessionWindow, batches: list[EventBatch], emit: Emission
) -> None:
    left = assert_agrees(node, batches, emit=emit)
    for number in range(1, len(batches) + 1):
        came = batches[:number]
        if emit == "speculative":
            # The best answer is complete, also where it is not settled yet.
            meant = node.denote(LogicalStream.of_batches(came))
            assert LogicalStream.of_batches(left[:number]).difference(meant) == ""
        if node.columns:
            assert left[number - 1].stable == settled(node, came)
    assert [batch.stable for batch in left] == sorted(batch.stable for batch in left)


@given(st.data(), payload_schemas(), st.integers(1, 5))
def test_any_columns(data: st.DataObject, schema: pa.Schema, gap: int) -> None:
    source = Source(name="S", schema=schema, only_points=True)
    batches = data.draw(points(schema).flatmap(batchings))
    by = data.draw(st.sampled_from([(), (f"`{schema.names[0]}`",)]))
    assert_agrees(session(gap, *by, over=source), batches)


@given(ARRIVING, st.integers(1, 5))
def test_rows_without_columns(batches: list[EventBatch], gap: int) -> None:
    source = Source(name="S", schema=pa.schema([]), only_points=True)
    none = pa.RecordBatch.from_arrays([], schema=source.schema)
    bare = [batch.with_payload(none) for batch in batches]
    assert_agrees(session(gap, over=source), bare)
    assert_agrees(session(gap, over=source, columns=None), bare)


@given(sessions(), ARRIVING)
def test_what_is_over_is_forgotten(node: SessionWindow, batches: list[EventBatch]) -> None:
    """Held are the sessions that may still change, and their points, each payload once."""
    runner = LocalRunner(node)
    bounded = replace(node, columns=BOUNDS)
    for number, batch in enumerate(batches, start=1):
        runner.step({"S": batch})
        came = LogicalStream.of_batches(batches[:number])
        promised = max(each.stable for each in batches[:number])
        live = [row for row in bounded.denote(came).steps if row[-1] > promised]
        held = {
            (payload, t)
            for payload, start, end in came.events()
            for t in range(start, end)
            if any(row[:-2] == payload and row[-2] <= t < row[-1] for row in live)
        }
        if promised == FOREVER:
            assert runner.state_rows() == 0
        elif runs.MERGE_ALL_UP_TO_ROWS > 100:
            kept = {name: sum(map(len, some)) for name, some in runner.traces[0].runs.items()}
            assert kept.get("points", 0) == len(held)
            # One that ends right at the stable point is kept until that moves on.
            assert kept.get("sessions", 0) <= len(live) or promised in ends_of(bounded, came)


def ends_of(node: SessionWindow, came: LogicalStream) -> set[int]:
    return {row[-1] for row in node.denote(came).steps}


@given(ARRIVING, st.integers(1, 6), st.sampled_from(EMISSIONS))
def test_counts_per_session(batches: list[EventBatch], gap: int, emit: Emission) -> None:
    over = session(gap, "k")
    node = aggregate(over, ("k", *BOUNDS), "n", "hi")
    assert_agrees(node, batches, emit=emit)


def run(node: SessionWindow, *elements: Element, size: int = 1) -> list[EventBatch]:
    return assert_agrees(node, PhysicalStream(LETTERS.schema, elements), batch_size=size)


def test_only_the_session_that_changes_is_touched() -> None:
    left = run(
        session(3, "k", over=LETTERS),
        insert("a", start=1, end=2),
        insert("b", start=2, end=3),
        insert("a", start=9, end=10),
        insert("a", start=10, end=11),
    )
    assert elements_of(left[3]) == [
        adjust("a", 9, 12, start=9, end=12, new_end=9),
        insert("a", 9, 13, start=9, end=13),
        insert("a", 9, 13, start=9, end=13),
    ]


def test_without_bounds_a_session_that_grows_moves_ends() -> None:
    left = run(
        session(3, over=LETTERS, columns=None),
        insert("a", start=4, end=5),
        insert("b", start=6, end=7),
        insert("c", start=2, end=3),
    )
    assert elements_of(left[1]) == [
        adjust("a", start=4, end=7, new_end=9),
        insert("b", start=4, end=9),
    ]
    # An earlier start is another event.
    assert sorted(elements_of(left[2]), key=repr) == [
        adjust("a", start=4, end=9, new_end=4),
        adjust("b", start=4, end=9, new_end=4),
        insert("a", start=2, end=9),
        insert("b", start=2, end=9),
        insert("c", start=2, end=9),
    ]


def test_a_point_that_moves_within_its_session_changes_nothing() -> None:
    moved = (
        insert("a", start=4, end=5),
        insert("b", start=1, end=2),
        insert("b", start=7, end=8),
        adjust("a", start=4, end=5, new_end=4),
        insert("a", start=5, end=6),
    )
    stream = PhysicalStream(LETTERS.schema, moved)
    whole = assert_agrees(session(5, over=LETTERS), stream.batches(3))
    assert len(whole[1]) == 0
    # With a smaller gap the session falls apart.
    apart = assert_agrees(session(4, over=LETTERS), stream.batches(3))
    assert len(apart[1]) == 6


def test_one_open_session_holds_back_the_promise_but_not_the_state() -> None:
    """A group that is never silent: what others leave behind is forgotten all the same."""
    runner = LocalRunner(session(3, "k", over=LETTERS))
    held = []
    for at in range(0, 400, 2):
        elements: tuple[Element, ...] = (
            insert("always", start=at, end=at + 1),
            *(insert(f"{at}:{n}", start=at, end=at + 1) for n in range(5)),
            stable(at),
        )
        out = runner.step({"S": PhysicalStream(LETTERS.schema, elements).batches()[0]})
        assert out.stable == 0
        held.append(runner.state_rows() - at // 2)
    # Runs are merged when they are similar in size, so there are peaks.
    assert max(held[100:]) <= 2 * max(held[20:100])
    out = runner.step({"S": EventBatch.empty(LETTERS.schema, Time(401))})
    assert out.stable == 401


def test_a_session_that_grows_back_and_forth_stays_one() -> None:
    """Many revisions of one session leave many rows that take each other away."""
    elements: list[Element] = [insert("a", start=100, end=101), stable(50)]
    for _ in range(40):
        elements += [
            insert("b", start=102, end=103),
            insert("a", start=98, end=99),
            adjust("b", start=102, end=103, new_end=102),
            adjust("a", start=98, end=99, new_end=98),
        ]
    left = run(session(4, over=LETTERS), *elements, stable(101))
    assert left[-1].stable == 100
    assert LogicalStream.of_batches(left) == LogicalStream.of([(("a", 100, 104), 100, 104)])


def test_many_sessions_that_were_withdrawn_hold_nothing_back() -> None:
    """The earliest rows of the trace may all take each other away."""
    node = session(50, "k", over=LETTERS)
    runner, state = LocalRunner(node), PhysicalState.empty()
    gone = [(f"{n}", n) for n in range(300)]
    steps: list[tuple[Element, ...]] = [
        (*(insert(k, start=t, end=t + 1) for k, t in gone), insert("z", start=299, end=300)),
        tuple(adjust(k, start=t, end=t + 1, new_end=t) for k, t in gone[100:]),
        tuple(adjust(k, start=t, end=t + 1, new_end=t) for k, t in gone[:100]),
    ]
    for elements in steps:
        out = runner.step({"S": PhysicalStream(LETTERS.schema, elements).batches()[0]})
        assert not list(violations(elements_of(out), state))
    out = runner.step({"S": EventBatch.empty(LETTERS.schema, Time(310))})
    assert out.stable == 299


def test_a_withdrawal_of_nothing_is_refused() -> None:
    wrong = adjust("a", start=4, end=5, new_end=4)
    for before in ((), (insert("b", start=4, end=5),), (insert("a", start=3, end=4),)):
        batch = PhysicalStream(LETTERS.schema, (*before, wrong)).batches()[0]
        with pytest.raises(StreamError, match="never inserted") as raised:
            LocalRunner(session(3, over=LETTERS)).step({"S": batch})
        assert "at instant 4" in str(raised.value)


def test_two_groups_under_one_id_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ids(columns: Any, length: int) -> Any:
        return np.zeros(length, np.uint64)

    monkeypatch.setattr(
        keys,
        "stable_hash",
        lambda columns, length, salt=0: (
            np.arange(length, dtype=np.uint64) if salt else ids(columns, length)
        ),
    )
    two = (insert("a", start=4, end=5), insert("b", start=4, end=5))
    batch = PhysicalStream(LETTERS.schema, two).batches()[0]
    with pytest.raises(EngineError, match="same 64-bit hash"):
        LocalRunner(session(3, "k", over=LETTERS)).step({"S": batch})


def test_groups_that_are_together_stay_so() -> None:
    node = aggregate(session(3, "k"), ("k", *BOUNDS), "n")
    text = explain_stages(compile_plan(node))
    assert text.splitlines()[0] == "Stage 0-session-window (by k)"
    assert text.count("Stage ") == 1
    assert "one shard" in explain_stages(compile_plan(session(3)))
