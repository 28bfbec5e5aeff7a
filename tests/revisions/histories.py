"""Histories with late rows, run in this process with their revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, final

import numpy as np
from hypothesis import strategies as st

from anabranch.algebra.analysis.reach import way_of_change
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.swap import guards
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.revisions.choice import StrategyChoice
from anabranch.runtime.revisions.in_process import ReviserInProcess
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.runtime.sources.event_names import Names, event_names, moved_in_time
from anabranch.runtime.sources.late import judge
from anabranch.runtime.sources.spec import Promise
from anabranch.testing.oracle import history_of, meaning
from anabranch.testing.physical import KitStable, PhysicalStream
from anabranch.testing.strategies import batchings, instants

Step = Mapping[str, EventBatch]
NONE: Final[Names] = np.empty(0, np.uint64)
WAYS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "tasks": st.sampled_from([1, 1, 2, 3]),
        "patience": st.lists(st.sampled_from([0, 0, 1, 2, 4]), min_size=1, max_size=3),
    }
)
"""How a history may be run; see `run_revised`."""


def without_promises(stream: PhysicalStream) -> PhysicalStream:
    moves = tuple(each for each in stream.elements if not isinstance(each, KitStable))
    return PhysicalStream(stream.schema, moves)


@st.composite
def broken_promises(
    draw: st.DrawFn, /, **named: st.SearchStrategy[PhysicalStream]
) -> list[dict[str, EventBatch]]:
    """Batches of streams that promise anything at any time, and may not keep it."""
    steps: list[dict[str, EventBatch]] = []
    waiting = {
        name: draw(stream.map(without_promises).flatmap(batchings))
        for name, stream in named.items()
    }
    promised = dict.fromkeys(named, BEGINNING)
    while any(waiting.values()):
        left = [name for name, batches in waiting.items() if batches]
        chosen = draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
        step = {}
        for name in sorted(chosen):
            batch = waiting[name].pop(0)
            if draw(st.booleans()):
                promised[name] = Time(max(promised[name], draw(instants())))
            step[name] = batch.with_stable(promised[name])
        steps.append(step)
    if draw(st.booleans()):
        steps.append(
            {name: EventBatch.empty(step[name].schema, FOREVER) for step in steps for name in step}
        )
    return steps


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What left, batch by batch: revisions in front of the rows of their batch."""

    batches: list[EventBatch]
    revisions: list[list[Revision]]
    came: dict[str, list[EventBatch]]
    waiting: int
    corrected: Time

    def snapshots(self) -> LogicalStream:
        changes = [each.changes for batch in self.revisions for each in batch]
        return LogicalStream.of_batches([*self.batches, *changes])


def names_of(node: Node) -> frozenset[str]:
    return frozenset(each.name for each in node.walk() if isinstance(each, Source))


def is_swapped(node: Node) -> bool:
    """Whether a correction of a source changes the state of the plan."""
    return any(way_of_change(node, name).way == "swap" for name in names_of(node))


def judged(
    batch: EventBatch, promised: Time, tasks: int, held: Names, *, swaps: bool
) -> tuple[EventBatch, EventBatch]:
    """The rows in time and the late ones, read by so many tasks that do not know of each other."""
    promise = Promise(source="S", late="revise")
    pieces = [batch.where(np.arange(len(batch)) % tasks == task) for task in range(tasks)]
    while True:
        found = [
            judge(promise, promised, _arrivals(each), where="", in_order=False, held=held)
            for each in pieces
        ]
        in_time = [each.batch for each in found]
        late = [each.batch.where(np.zeros(len(each.batch), np.bool_)) for each in found]
        late += [each.withheld for each in found if each.withheld is not None]
        moved = np.concatenate([moved_in_time(each, promised) for each in in_time])
        both = np.intersect1d(moved, event_names(EventBatch.concat(late)))
        if not swaps or not len(both):
            return EventBatch.concat(in_time).with_stable(batch.stable), EventBatch.concat(late)
        held = np.union1d(held, both)


def _arrivals(batch: EventBatch) -> Arrivals:
    none = np.empty(0, np.int64)
    return Arrivals(
        batch=batch,
        position=np.arange(len(batch)),
        is_adjust=batch.end != batch.start,
        stables=none,
        stable_positions=none,
    )


def run_revised(
    node: Node,
    steps: Sequence[Step],
    *,
    emit: Emission = "speculative",
    strategy: StrategyChoice = "RW",
    tasks: int = 1,
    patience: Sequence[int] = (0,),
) -> Outcome:
    """Run a plan over batches whose late rows are revisions.

    Args:
        node: The plan.
        steps: The batches.
        emit: See `compile_plan`.
        strategy: What is replayed.
        tasks: So many tasks read a batch.
        patience: Where state is exchanged, so many batches come while the past is replayed, for one
            exchange after the other, again and again.
    """
    swaps = is_swapped(node)
    cut: frozenset[str] = frozenset() if swaps else names_of(node)
    runner = LocalRunner(compile_plan(node, emit=emit, guarded=swaps, late=cut))
    reviser = ReviserInProcess(Replayer.of([node], strategy=strategy), swaps=swaps)
    sources = runner.plan.sources
    promised = dict.fromkeys(sources, BEGINNING)
    came: dict[str, list[EventBatch]] = {name: [] for name in sources}
    batches: list[EventBatch] = []
    revisions: list[list[Revision]] = []
    stable = BEGINNING
    waits, left = cycle(patience), 0
    for number, step in enumerate(steps):
        own = {name: batch for name, batch in step.items() if name in sources}
        on_time, late = {}, {}
        for name, batch in own.items():
            held = reviser.held(name) if swaps else NONE
            on_time[name], late[name] = judged(batch, promised[name], tasks, held, swaps=swaps)
            came[name].append(batch)
        if not reviser.is_replaying:
            reviser.begin_exchange(runner.plan, promised)
            left = next(waits)
        exchanged, guarded = reviser.exchange(runner, promised, stable) if not left else ([], {})
        left = max(left - 1, 0)
        sent = reviser.take(number, own, late, promised, frozenset(own))
        revisions.append([*exchanged, *reviser.ready(stable)])
        (output,) = runner.step_all(on_time, late=sent, guarded=guarded)
        revisions[-1] += reviser.below(runner)
        batches.append(output)
        reviser.answered([output])
        stable = output.stable
        for name, batch in own.items():
            promised[name] = Time(max(promised[name], batch.stable))
    while True:
        exchanged, guarded = reviser.exchange(runner, promised, stable)
        revisions.append([*exchanged, *reviser.ready(stable)])
        batches += runner.step_all({}, guarded=guarded)
        stable = batches[-1].stable
        revisions[-1] += reviser.below(runner)
        if not swaps or not reviser.waiting:
            break
    # A late event may open a window below the stable point of the output: what is above the guard
    # tells of it when the window has ended, and promises no more than where the window begins.
    told = [runner.told(index).stable for index in guards(runner.plan)]
    corrected = Time(min([reviser.corrected, *told]))
    return Outcome(batches, revisions, came, reviser.waiting, corrected)


def assert_revised(
    node: Node,
    steps: Sequence[Step],
    *,
    emit: Emission = "speculative",
    strategy: StrategyChoice = "RW",
    tasks: int = 1,
    patience: Sequence[int] = (0,),
) -> Outcome:
    """The output with its revisions is the meaning of the plan over all that came."""
    found = run_revised(node, steps, emit=emit, strategy=strategy, tasks=tasks, patience=patience)
    streams = {name: LogicalStream.of_batches(batches) for name, batches in found.came.items()}
    histories = {name: history_of(batches) for name, batches in found.came.items()}
    promises = [int(batch.stable) for batches in found.came.values() for batch in batches]
    finite = max((each for each in promises if each < FOREVER), default=int(BEGINNING))
    wanted = meaning(node, streams, histories, finite)
    stable, number = BEGINNING, 0
    seen: list[EventBatch] = []
    for revisions, batch in zip(found.revisions, found.batches, strict=True):
        for revision in revisions:
            number += 1
            assert revision.number == number
            assert revision.last <= stable
            seen.append(revision.changes)
        LogicalStream.of_batches(seen)  # no payload holds less than never
        moved = batch.where(batch.end != batch.new_end)
        assert not (np.minimum(moved.end, moved.new_end) < stable).any(), "a promise is broken"
        assert batch.stable >= stable, "a promise is taken back"
        seen.append(batch)
        stable = batch.stable
    # What waits for the output to be settled is missing where it is not.
    at_once = emit == "speculative" and not any(each.holds_back for each in node.walk())
    before = FOREVER if at_once and not found.waiting else stable
    before = Time(min(before, found.corrected))
    difference = found.snapshots().difference(wanted, before)
    assert not difference, difference
    if emit == "speculative" and is_swapped(node):
        # Also what is not settled yet follows from the input and the promises alone.
        for pieces in (1, 3):
            difference = found.snapshots().difference(in_time(node, found.came, pieces), FOREVER)
            assert not difference, f"in {pieces} batches: {difference}"
    return found


def in_time(node: Node, came: Mapping[str, Sequence[EventBatch]], pieces: int) -> LogicalStream:
    """What a query shows to which all rows come in time, in order, and with the same promises."""
    runner = LocalRunner(compile_plan(node, guarded=True))
    steps: list[dict[str, EventBatch]] = [{} for _ in range(pieces + 1)]
    for name, batches in came.items():
        schema = runner.plan.sources[name].schema
        events = sorted(history_of(batches), key=lambda event: event[1])
        promises = [int(BEGINNING), *(int(batch.stable) for batch in batches)]
        # How far time had come before it ended says how far empty windows go.
        finite = max(each for each in promises if each < FOREVER)
        size = -(-len(events) // pieces)
        for number, step in enumerate(steps[:-1]):
            own, left = events[number * size : (number + 1) * size], events[(number + 1) * size :]
            stable = min([finite, *(start for _, start, _ in left)])
            rows = batch_of([Insert(*event) for event in own], schema)
            step[name] = rows.with_stable(Time(stable))
        steps[-1][name] = EventBatch.empty(schema, Time(max(promises)))
    return LogicalStream.of_batches([runner.step_all(step)[0] for step in steps])
