"""Plans of operators that rewrite lifetimes: they agree, and have the properties they claim."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.clip import Clip
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.errors import StreamError
from anabranch.kernels.lifetimes import split
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.testing import LocalRunner, assert_agrees, batchings, schedules, streams
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

pytestmark = pytest.mark.usefixtures("eagerness")

SPANS = st.one_of(st.integers(1, 6), st.sampled_from([40, 2**62])).map(Duration)
STEPS: Final[dict[str, Callable[[st.DrawFn, Node], Node]]] = {
    "granularity": lambda draw, node: Granularity(input=node, granule=draw(SPANS)),
    "shift": lambda draw, node: Shift(input=node, by=draw(st.integers(-6, 6))),
    "clip from": lambda draw, node: Clip(input=node, start=Time(draw(st.integers(-3, 9)))),
    "clip to": lambda draw, node: Clip(input=node, end=Time(draw(st.integers(-3, 9)))),
    "split": lambda draw, node: Split(input=node, length=draw(SPANS)),
    "istream": lambda _, node: ToStream(input=node, kind="insertions"),
    "dstream": lambda _, node: ToStream(input=node, kind="deletions"),
    "dstream at": lambda _, node: ToStream(input=node, kind="deletions", anchor="first_invalid"),
    "rstream": lambda _, node: ToStream(input=node, kind="snapshots"),
    "signed": lambda _, node: FromSigned(input=ToSigned(input=node)),
    "edges": lambda _, node: ToSigned(input=node, column=f"sign{len(node.schema)}"),
    "cleanse": lambda draw, node: Cleanse(input=node, cut=draw(st.booleans())),
    "duration": lambda draw, node: AlterLifetime(input=node, duration=draw(SPANS)),
    "extend": lambda draw, node: AlterLifetime(input=node, extend=draw(SPANS)),
    "at most": lambda draw, node: AlterLifetime(input=node, at_most=draw(SPANS)),
}
OTHERS: Final[dict[str, Callable[[st.DrawFn, Node], Node]]] = {
    "window": lambda draw, node: TimeWindow(input=node, size=Duration(draw(st.integers(1, 4)))),
    "coalesce": lambda _, node: Coalesce(input=node),
    "distinct": lambda _, node: Distinct(input=node),
}


@pytest.fixture(autouse=True)
def few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "MOST_PIECES", 300)


@st.composite
def chains(draw: st.DrawFn, over: Node = SOURCE, most: int = 3) -> Node:
    """One operator above the other."""
    steps = STEPS | OTHERS
    for name in draw(st.lists(st.sampled_from(sorted(steps)), min_size=1, max_size=most)):
        over = steps[name](draw, over)
    return over


@contextlib.contextmanager
def may_be_refused() -> Iterator[None]:
    """Very long lifetimes are not cut into short pieces, windows over them not unfolded."""
    try:
        yield
    except StreamError as refused:
        if not any(word in refused.what for word in ("pieces", "layers", "too many instants")):
            raise


@given(chains(), streams(SCHEMA).flatmap(batchings), st.sampled_from(["speculative", "final"]))
def test_chains(node: Node, batches: list[EventBatch], emit: str) -> None:
    with may_be_refused():
        assert_agrees(node, batches, emit="final" if emit == "final" else "speculative")


@given(chains(), streams(SCHEMA, longest=9).flatmap(batchings))
def test_chains_over_short_lifetimes(node: Node, batches: list[EventBatch]) -> None:
    with may_be_refused():
        assert_agrees(node, batches)


@given(
    chains(most=2),
    chains(Source(name="T", schema=SCHEMA), most=2),
    schedules(S=streams(SCHEMA, longest=9), T=streams(SCHEMA, longest=9)),
)
def test_two_chains_together(one: Node, other: Node, steps: list[dict[str, EventBatch]]) -> None:
    if one.schema == other.schema:
        with may_be_refused():
            assert_agrees(Distinct(input=Union(inputs=(one, other))), batches=steps)


@pytest.mark.parametrize("step", STEPS)
@given(data=st.data(), insert_only=st.booleans(), points=st.booleans())
def test_claimed_properties_hold(
    step: str, data: st.DataObject, insert_only: bool, points: bool
) -> None:
    source = Source(name="S", schema=SCHEMA, insert_only=insert_only, only_points=points)
    drawn = streams(SCHEMA, insert_only=insert_only, only_points=points)
    batches = data.draw(drawn.flatmap(batchings))
    over = [source, Distinct(input=source), aggregate(source, (), "n")]
    below: Node = data.draw(st.sampled_from(over))
    node = data.draw(st.composite(STEPS[step])(below))
    runner, known = LocalRunner(node), node.properties
    left: list[EventBatch] = []
    with may_be_refused():
        for batch in batches:
            left.append(runner.step({"S": batch}))
            check_claims(left, known)


def check_claims(left: list[EventBatch], known: Properties) -> None:
    out = left[-1]
    if known.insert_only:
        assert (out.end == out.start).all()
    if known.only_points:
        for end in (out.end, out.new_end):
            assert ((end == out.start) | (end == out.start + 1)).all()
    rows = LogicalStream.of_batches(left)
    if known.no_duplicates:
        assert max((n for steps in rows.steps.values() for _, n in steps), default=0) <= 1
    if known.single:
        assert all(now.total() == 1 for _, _, now in rows.segments())


@given(chains(), streams(SCHEMA).flatmap(batchings))
def test_promises_never_go_back(node: Node, batches: list[EventBatch]) -> None:
    runner, before = LocalRunner(node), BEGINNING
    with may_be_refused():
        for batch in batches:
            after = runner.step({"S": batch}).stable
            assert after >= before
            before = after
        assert runner.step({"S": EventBatch.empty(SCHEMA, FOREVER)}).stable == FOREVER
