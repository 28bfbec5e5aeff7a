"""A shard that rests is not looked at, and nobody can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.split import Split
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.errors import StreamError
from anabranch.kernels.contract.column_names import ID, TIME
from anabranch.kernels.contract.kernel import Arrived, Need, Progress, SortedRun, Trace
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.resting import StageRest, idle_step, rested, stage_rest
from anabranch.kernels.plan.stage import Observe, Stage, StageState
from anabranch.kernels.trace.rest import runs_rest
from anabranch.kernels.trace.runs import add_run, with_times
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.runtime.thresholds import thresholds
from anabranch.testing import elements_of, schedules, streams
from anabranch.testing.oracle import sources_of
from tests.kernels.operators import OPERATORS, POINTS, SHORT
from tests.kernels.plans import SCHEMA, SOURCE, aggregate, plans

SETTINGS = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


class Resting(tuple[Trace, ...]):
    """State that was left alone since a step, and how far time has come meanwhile."""

    rest: StageRest
    stables: tuple[Time, ...]

    @staticmethod
    def of(state: StageState) -> tuple[StageRest, tuple[Time, ...]] | None:
        return (state.rest, state.stables) if isinstance(state, Resting) else None


@contextmanager
def shards_may_rest() -> Iterator[list[str]]:
    """Steps without rows are left out while the state rests; gives the stages that rested."""
    real, skipped = Stage.step, list[str]()

    def step(
        self: Stage,
        state: StageState,
        arrived: Arrived,
        progress: Progress,
        observe: Observe | None = None,
        needs: Sequence[Need] = (),
    ) -> tuple[StageState, EventBatch]:
        if not any(side.num_rows for side in arrived):
            with patch.object(Stage, "step", real):
                idle = idle_step(self, arrived, progress)
            rest, was = Resting.of(state) or (
                stage_rest(self, state),
                tuple(trace.stable for trace in state),
            )
            if idle is not None and all(
                before <= now <= until and until > BEGINNING
                for before, now, until in zip(was, idle.stables, rest.until, strict=True)
            ):
                held = Resting(state)
                held.rest, held.stables = rest, idle.stables
                skipped.append(self.name)
                return held, EventBatch.empty(self.schema, Time(min(idle.output, rest.promise)))
        if isinstance(state, Resting):
            state = rested(self, tuple(state), state.stables)
        return real(self, state, arrived, progress, observe, needs)

    with patch.object(Stage, "step", step):
        yield skipped


def with_quiet_steps(
    draw: Callable[..., Any], steps: list[dict[str, EventBatch]]
) -> list[dict[str, EventBatch]]:
    """Rows first, then what is promised behind them, in several steps that bring no rows."""
    found: list[dict[str, EventBatch]] = []
    stables: dict[str, Time] = {}
    for step in steps:
        before = {name: stables.get(name, BEGINNING) for name in step}
        found.append({name: rows.with_stable(before[name]) for name, rows in step.items()})
        stables |= {name: Time(max(before[name], rows.stable)) for name, rows in step.items()}
        for name, rows in step.items():
            low, high = max(int(before[name]), -99), min(int(stables[name]), 99)
            between = []
            if low < high:
                between = sorted(draw(st.lists(st.integers(low, high), max_size=3)))
            for stable in (*between, int(stables[name])):
                nothing = EventBatch.empty(rows.schema, Time(max(stable, int(before[name]))))
                found.append({name: nothing})
    return found


def outcome(
    node: Node, emit: Emission, steps: list[dict[str, EventBatch]]
) -> tuple[list[tuple[Time, list[object]]], str]:
    """What leaves in each step, and the error that ends it."""
    found: list[tuple[Time, list[object]]] = []
    runner = LocalRunner(node, emit=emit)
    try:
        for step in steps:
            out = runner.step(step)
            found.append((out.stable, list(elements_of(out))))
    except StreamError as problem:
        return found, str(problem)
    return found, ""


def assert_nobody_can_tell(
    node: Node, emit: Emission, steps: list[dict[str, EventBatch]]
) -> list[str]:
    expected = outcome(node, emit, steps)
    with shards_may_rest() as skipped:
        assert outcome(node, emit, steps) == expected
    return skipped


def legal_steps(draw: Callable[..., Any], node: Node, longest: int) -> list[dict[str, EventBatch]]:
    drawn = {
        source.name: streams(
            SCHEMA, max_size=10, only_points=source.only_points, longest=longest, odd_floats=False
        )
        for source in sources_of(node)
    }
    return with_quiet_steps(draw, draw(schedules(**drawn)))


@pytest.mark.parametrize("name", OPERATORS)
@SETTINGS
@given(data=st.data(), emit=st.sampled_from(["speculative", "final"]), few=st.booleans())
def test_steps_that_are_left_out_are_not_missed(
    name: str, data: st.DataObject, emit: Emission, few: bool
) -> None:
    node = data.draw(OPERATORS[name])
    steps = legal_steps(data.draw, node, 12 if name in SHORT else FOREVER)
    with thresholds(**({"MERGE_ALL_UP_TO_ROWS": 2} if few else {})):
        assert_nobody_can_tell(node, emit, steps)


@SETTINGS
@given(data=st.data(), emit=st.sampled_from(["speculative", "final"]))
def test_nor_are_those_of_drawn_plans(data: st.DataObject, emit: Emission) -> None:
    node = data.draw(plans())
    assert_nobody_can_tell(node, emit, legal_steps(data.draw, node, FOREVER))


@pytest.mark.parametrize(
    "node",
    [
        aggregate(SOURCE, ("k",), "n", "s"),
        Distinct(input=SOURCE),
        SessionWindow(input=POINTS, gap=Duration(3)),
        Split(input=SOURCE, length=Duration(50)),
        Cleanse(input=SOURCE, cut=False),
    ],
    ids=lambda node: node.label,
)
@pytest.mark.parametrize("emit", ["speculative", "final"])
def test_most_steps_without_rows_are_left_out(node: Node, emit: Emission) -> None:
    rows = EventBatch.empty(SCHEMA).payload
    payload = pa.RecordBatch.from_pylist([{"k": "a", "v": 1, "x": 1.0}], rows.schema)
    start = np.array([10])
    points = any(source.only_points for source in sources_of(node))
    event = EventBatch(payload, start, start, start + (1 if points else 90), Time(0))
    quiet = [{"S": EventBatch.empty(SCHEMA, Time(at))} for at in range(120)]
    steps = [{"S": event}, *quiet]
    skipped = assert_nobody_can_tell(node, emit, steps)
    stages = len(LocalRunner(node, emit=emit).plan.stages)
    # What is open leaves in pieces, with every step of the stable point.
    least = 25 if emit == "final" else 110
    assert len(skipped) >= least * stages


events = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=40)


@given(
    lists=st.lists(events, min_size=1, max_size=4),
    stable=st.integers(-1, 41),
    anchors=st.booleans(),
    few=st.sampled_from([2, 20, 4_096]),
)
def test_runs_rest_until_they_would_be_merged(
    lists: list[list[tuple[int, int]]], stable: int, anchors: bool, few: int
) -> None:
    runs = tuple(_run(rows) for rows in lists)
    nothing = no_rows(runs[0].rows.schema)

    def merged(at: int) -> bool:
        called: list[int] = []

        def merge(some: Any, whole: bool) -> pa.RecordBatch:
            called.append(len(some))
            return nothing

        add_run(runs, nothing, Time(at), merge, anchors=anchors)
        return bool(called)

    with thresholds(MERGE_ALL_UP_TO_ROWS=few):
        until = runs_rest(runs, Time(stable), anchors=anchors)
        times = sorted({time for rows in lists for _, time in rows})
        # A merge that was due at the stable point is done; the next is due where more has expired.
        first = next((at + 1 for at in times if at >= stable and merged(at + 1)), None)
        assert until == (FOREVER - 1 if first is None else first - 1)
        assert merged(FOREVER)


def test_runs_of_nothing_rest_for_ever() -> None:
    assert runs_rest((), BEGINNING, anchors=True) == FOREVER


def _run(rows: list[tuple[int, int]]) -> SortedRun:
    ids, times = (np.array(each) for each in zip(*sorted(rows), strict=True))
    batch = pa.RecordBatch.from_pydict({ID: pa.array(ids, pa.uint64()), TIME: pa.array(times)})
    return SortedRun(with_times(batch, times))
