"""What has to leave after every batch, window by window: more than what is settled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from anabranch.algebra.modules.apply_operator import ApplyOperator, Call, Lifetimed
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch, concat_rows
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing.oracle import history_of
from anabranch.testing.physical import KitStable, Move, PhysicalState, elements_of, violations
from tests.kernels.modules import PLAIN
from tests.sharing import of_all_shards

_BOUNDS = ("from_here", "to_there")


def told(
    node: ApplyOperator, events: Sequence[Lifetimed], stable: int, seen: int, settled: int
) -> list[Lifetimed]:
    """What is told while time goes on: windows with events that have ended, or begun if wanted.

    What was settled of a window stays there, also if the window ends later than it did. Empty
    windows are told of once nothing can come into them.
    """
    both = replace(node, columns=_BOUNDS)
    width = len(node.group_by)
    shows_open = node.open_windows or node.timestamps == "time_bound"
    listing = (Call(PLAIN, (Expression.parse("v", node.input.schema),), ("said",)),)
    every = replace(both, calls=listing, timestamps="align", empty=False, errors="fail")
    held = {payload[: width + 2] for payload, _, _ in every.apply(events, seen + 1)}
    found = [
        event
        for event in replace(both, empty=False).apply(events, seen + 1)
        if event[0][width if shows_open else width + 1] <= seen or event[0][width] < settled
    ]
    if node.empty:
        found += [
            event
            for event in both.apply(events, stable)
            if event[0][: width + 2] not in held and event[0][width + 1] <= stable
        ]
    if node.columns is not None:
        return found
    return [((*said[:width], *said[width + 2 :]), start, end) for said, start, end in found]


def assert_told(node: ApplyOperator, batches: Sequence[EventBatch]) -> LocalRunner:
    """Run a plan; after every batch exactly that is there what has to be, and all is legal."""
    runner = LocalRunner(node)
    name = next(iter(runner.plan.sources))
    came: list[EventBatch] = []
    state = PhysicalState.empty()
    stable = finite = seen = int(BEGINNING)
    for number, batch in enumerate(batches, start=1):
        came.append(batch)
        settled = state.stable
        out = runner.step({name: batch})
        stable = max(stable, batch.stable)
        finite = stable if stable < FOREVER else finite
        seen = max(seen, stable, *(move.start for move in _moves(batch)))
        illegal = next(violations(elements_of(out), state), None)
        assert illegal is None, f"batch {number}: {illegal}"
        assert out.stable <= stable
        state.take(KitStable(out.stable))
        got = LogicalStream.of(event for event, count in state.events.items() for _ in range(count))
        events = history_of(came)
        final = LogicalStream.of(node.apply(events, finite))
        assert not got.difference(final, out.stable), f"batch {number}"
        if stable < FOREVER:
            wanted = LogicalStream.of(told(node, events, stable, seen, settled))
            assert not got.difference(wanted, FOREVER), f"batch {number}"
        else:
            kept = sum(
                len(run)
                for trace in runner.traces
                for name, runs in trace.runs.items()
                if name != "failures"
                for run in runs
            )
            assert kept == 0
    return runner


def _moves(batch: EventBatch) -> list[Move]:
    return [move for move in elements_of(batch) if move.end != move.new_end]


def on_shards(
    node: ApplyOperator, batches: Sequence[EventBatch], shards: int
) -> Iterator[EventBatch]:
    """What leaves, if groups are shared out; as settled as the least settled shard."""
    (stage,) = compile_plan(node).stages
    states = [stage.start()] * shards
    stable = BEGINNING
    for batch in batches:
        stable = Time(max(stable, batch.stable))
        parts = of_all_shards(stage.prepare(0, batch), shards)
        outputs = []
        for place, part in enumerate(parts):
            progress = stage.progress([stable])
            states[place], out = stage.step(states[place], (concat_rows([part]),), progress)
            outputs.append(out)
        least = Time(min(out.stable for out in outputs))
        yield EventBatch.concat(outputs).with_stable(least)
