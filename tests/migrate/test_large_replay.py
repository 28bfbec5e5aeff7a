"""What tasks read again: the pieces that matter, in batches, behind what was promised before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.time_window import TimeWindow
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate import large_replay
from anabranch.migrate.handover import opening_moves
from anabranch.migrate.replay import ReplayedPlan
from anabranch.model.clock import INTEGERS
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, Duration, Time
from anabranch.runtime.sinks.sinks import Begin, Sink
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.workers.file_task import FileJob
from tests.migrate.test_preparing import points, read_by_now
from tests.runtime.conftest import ShardedRunner
from tests.runtime.late_sources import leaf

INDEPENDENT = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def run_planned(
    plan: PhysicalPlan, files: Sequence[FileSource], sinks: Sequence[Sink], home: str
) -> None:
    """What Spark does, in this process."""
    promises = {source.name: source.promise for source in files}
    runner = ShardedRunner(plan, Path(home), shards=1, promises=promises)
    job = FileJob(sources=tuple(files), plan_folder=f"{home}/planned", parts=2, least=1, job=b"")
    planner = job.planner()
    (sink,) = sinks
    sink.open(Begin(plan.schema, "q", INTEGERS, True))
    while planner.latest(runner.batch) > (batch := runner.batch):
        parts = planner.parts(batch, batch + 1)
        runner.step({}, sent=[row for one in parts for row in job.send(one, batch, runner.job)])
        sink.commit(batch, BEGINNING, runner.results)


@given(
    starts=st.lists(st.lists(st.integers(0, 60), max_size=5), min_size=1, max_size=6),
    data=st.data(),
)
@INDEPENDENT
def test_tasks_and_the_driver_read_what_the_driver_alone_reads(
    starts: list[list[int]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("large")
    source = points(folder / "in", starts, data.draw(st.sampled_from([0, 5, 100]), label="delay"))
    size = Duration(data.draw(st.integers(1, 30), label="size"))
    source_node = replace(leaf(source), only_points=True)
    node = Distinct(input=TimeWindow(input=source_node, size=size))
    plan = compile_plan(node)
    rounds = read_by_now(source, folder / "planned")
    first = data.draw(st.sampled_from(rounds), label="read by tasks")
    since = Time(data.draw(st.integers(0, 70), label="since"))
    alone, both = (ReplayedPlan([node], plan, {"s": source}, since) for _ in range(2))
    alone.read(rounds[-1])
    most = data.draw(st.integers(1, 4), label="rows of a batch")
    with patch.object(large_replay, "REPLAYED_BATCH_ROWS", most):
        assert both.read_in_tasks(first, str(folder / "home" / "replay"), 2, run_planned)
    both.read(rounds[-1])
    promised = data.draw(st.integers(0, 80), label="promised")
    (_, (right,)), (_, (found,)) = (each.finished({"s": promised}) for each in (alone, both))
    assert LogicalStream.of_batches([opening_moves(found, node, since)]) == (
        LogicalStream.of_batches([opening_moves(right, node, since)])
    )
    assert not (folder / "home" / "replay").exists()
