"""A kernel means what its node says: compared after every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.split import Split
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator, Lifetimed
from anabranch.algebra.modules.event_identity import keeps_events
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union, columns_of
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time, format_time
from anabranch.testing.physical import (
    Element,
    KitStable,
    PhysicalState,
    PhysicalStream,
    elements_of,
    violations,
)

Step: TypeAlias = Mapping[str, EventBatch]


def meaning(
    node: Node,
    streams: Mapping[str, LogicalStream],
    histories: Mapping[str, Sequence[Lifetimed]] | None = None,
    stable: int = BEGINNING,
) -> LogicalStream:
    """What a plan means, given what its sources mean: every operator's `denote`, bottom up.

    Modules see events: those that sources have, changed one by one or not, and those that other
    operators define.

    Args:
        node: The plan.
        streams: What the sources mean.
        histories: Their events; None: those of the canonical form.
        stable: How far time had come before it ended.
    """
    if isinstance(node, Source):
        return node.denote(streams[node.name])
    if isinstance(node, ApplyOperator):
        events = _events(node.input, streams, histories, stable)
        return LogicalStream.of(node.apply(events, stable))
    return node.denote(*(meaning(each, streams, histories, stable) for each in node.inputs))


def _events(
    node: Node,
    streams: Mapping[str, LogicalStream],
    histories: Mapping[str, Sequence[Lifetimed]] | None,
    stable: int,
) -> list[Lifetimed]:
    """The events that come out of a plan, as `algebra/modules/event_identity.py` defines them."""
    if isinstance(node, Source) and histories is not None:
        return list(histories[node.name])
    if node.properties.only_points:
        return _cut(meaning(node, streams, histories, stable), 1)
    if not keeps_events(node):
        return meaning(node, streams, histories, stable).events()
    match node:
        case ApplyOperator():
            return node.apply(_events(node.input, streams, histories, stable), stable)
        case Split(length=length):
            return _cut(meaning(node, streams, histories, stable), length)
        case CountWindow() | SessionWindow():
            return node.events(meaning(node.input, streams, histories, stable))
        case TimeWindow() | Filter() | Map() | Shift() | Union() | Granularity() | Clip():
            inputs = [_events(each, streams, histories, stable) for each in node.inputs]
            if len(inputs) > 1:
                return [event for events in inputs for event in events]
            alone = [node.denote(LogicalStream.of([event])) for event in inputs[0]]
            return [event for one in alone for event in one.events()]
    return meaning(node, streams, histories, stable).events()


def _cut(rows: LogicalStream, length: int) -> list[Lifetimed]:
    """Lifetimes in pieces of one length, of which each has a whole number."""
    return [
        (payload, piece, piece + length)
        for payload, start, end in rows.events()
        for piece in range(start, end, length)
    ]


def history_of(batches: Sequence[EventBatch]) -> list[Lifetimed]:
    """The events that some batches amount to."""
    counts: Counter[Lifetimed] = Counter()
    for batch in batches:
        for move in elements_of(batch):
            if move.end > move.start:
                counts[move.payload, move.start, move.end] -= 1
            if move.new_end > move.start:
                counts[move.payload, move.start, move.new_end] += 1
    return [event for event, count in counts.items() for _ in range(count)]


def promise_of(node: Node, stables: Mapping[str, int]) -> Time:
    """How far the output of a plan is settled, given the stable points of its sources."""
    if isinstance(node, Source):
        return Time(stables[node.name])
    return node.promise(*(promise_of(each, stables) for each in node.inputs))


def assert_agrees(
    node: Node,
    *streams: PhysicalStream | Sequence[EventBatch],
    batch_size: int | None = None,
    batches: Sequence[Step] | None = None,
    emit: Emission = "speculative",
) -> list[EventBatch]:
    """Run a plan over streams and compare with its meaning after every batch.

    After every batch, every element that left must be legal after what left before it; the
    snapshots must be those of `denote`, before the output's stable point, and with speculative
    emission at all instants; and the output must be as stable as the least stable input. Where an
    operator of the plan holds back, only what is before the output's own stable point counts, and
    that may be less.

    Args:
        node: The plan.
        *streams: One per source, in the order of the sources from left to right; a stream, or
            the batches it comes in.
        batch_size: So many elements per batch; all at once if not given.
        batches: Instead of streams: the batches of some sources for every step.
        emit: See `LocalRunner`.

    Returns:
        What left, batch by batch.

    Raises:
        AssertionError: with the batch, the first instant that differs, and what came and left.
    """
    sources = sources_of(node)
    steps = _schedule(sources, streams, batch_size) if batches is None else batches
    runner = LocalRunner(node, emit=emit)
    arrived: dict[str, list[EventBatch]] = {source.name: [] for source in sources}
    stables: dict[str, int] = {source.name: int(BEGINNING) for source in sources}
    left: list[EventBatch] = []
    state = PhysicalState.empty()
    finite = int(BEGINNING)
    for number, step in enumerate(steps, start=1):
        given = {
            source.name: step.get(source.name, EventBatch.empty(source.schema))
            for source in sources
        }
        for name, batch in given.items():
            arrived[name].append(batch)
            stables[name] = max(stables[name], batch.stable)
        out = runner.step(given)
        left.append(out)
        least = min(stables.values(), default=int(BEGINNING))
        finite = max(finite, least) if least < FOREVER else finite
        wrong = _compare(node, arrived, stables, left, state, emit, finite)
        if wrong:
            raise AssertionError(
                "\n".join(
                    [f"after batch {number} of {len(steps)}: {wrong}", _story(node, arrived, left)]
                )
            )
    return left


def sources_of(node: Node) -> list[Source]:
    """The sources of a plan from left to right, each once."""
    found = {each.name: each for each in node.walk() if isinstance(each, Source)}
    return list(found.values())


def _schedule(
    sources: Sequence[Source],
    streams: Sequence[PhysicalStream | Sequence[EventBatch]],
    batch_size: int | None,
) -> list[Step]:
    assert len(sources) == len(streams), f"the plan has {len(sources)} sources"
    cut = [
        (stream.batches() if batch_size is None else stream.in_batches_of(batch_size))
        if isinstance(stream, PhysicalStream)
        else stream
        for stream in streams
    ]
    names = [source.name for source in sources]
    return [
        {name: batch for name, batch in zip(names, row) if batch is not None}
        for row in zip_longest(*cut)
    ]


def _compare(
    node: Node,
    given: Mapping[str, Sequence[EventBatch]],
    stables: Mapping[str, int],
    left: Sequence[EventBatch],
    state: PhysicalState,
    emit: str,
    finite: int,
) -> str:
    out = left[-1]
    if columns_of(out.schema) != columns_of(node.schema):
        return f"the output has columns {out.schema}, not {node.schema}"
    illegal = next(violations(elements_of(out), state), None)
    if illegal is not None:
        return f"an illegal element left: {illegal}"
    promised = promise_of(node, stables)
    late = any(each.holds_back for each in node.walk())
    if out.stable > promised or (out.stable < promised and not late):
        return (
            f"the output is stable at {format_time(out.stable)}, "
            f"but the inputs at {format_time(promised)}"
        )
    state.take(KitStable(out.stable))
    means = {name: LogicalStream.of_batches(batches) for name, batches in given.items()}
    histories = {name: history_of(batches) for name, batches in given.items()}
    wanted = meaning(node, means, histories, finite)
    got = LogicalStream.of(event for event, count in state.events.items() for _ in range(count))
    before = FOREVER if emit == "speculative" and not late else out.stable
    return got.difference(wanted, before)


def _story(
    node: Node, given: Mapping[str, Sequence[EventBatch]], left: Sequence[EventBatch]
) -> str:
    lines = ["the plan:", *_indent(explain_tree(node).split("\n"))]
    for name, batches in given.items():
        lines += [f"what came from {name}:", *_indent(_show(batches))]
    lines += ["what left:", *_indent(_show(left))]
    return "\n".join(lines)


def _show(batches: Sequence[EventBatch]) -> list[str]:
    return [
        f"batch {number}: {', '.join(map(repr, _elements(batch))) or 'nothing'}"
        for number, batch in enumerate(batches, start=1)
    ]


def _elements(batch: EventBatch) -> list[Element]:
    promise: list[Element] = [KitStable(batch.stable)] if batch.stable > BEGINNING else []
    return [*elements_of(batch), *promise]


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
