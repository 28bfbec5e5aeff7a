"""A stream that several queries read is edited: all of them change at one T, others do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.changed_group import NEW, OLD, OUTS, script, wanted
from tests.e2e.changed_queries import DECLARED, declare, feed, instants, snapshot
from tests.e2e.revised_queries import assert_legal
from tests.e2e.waiting import PATIENCE, until
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.errors import PlanError
from anabranch.kernels.plan.combining_plans import remembers
from anabranch.migrate import large_replay
from anabranch.runtime.query.run import Run

pytestmark = pytest.mark.spark

ROWS = 600


def start(engine: Engine, folder: Path) -> list[Run]:
    declare(engine, folder)
    outs = [folder / name for name in OUTS]
    return engine.start_all(engine.script(script(*OLD)), outs, checkpoint=folder / "home")


def states(run: Run) -> int:
    plan = run.execution.assembly.work.plan
    return sum(remembers(stage) for stage in plan.stages)


def assert_changed(runs: list[Run], folder: Path, at: int) -> None:
    for run, name in zip(runs, OUTS, strict=True):
        for instant in instants(int(run.stable), at):
            right = wanted(folder, name, instant, is_new=instant >= at)
            assert snapshot(run, instant) == right, (name, instant)
        assert_legal(folder / name)


def test_an_edited_stream_changes_all_queries_over_it(engine: Engine, tmp_path: Path) -> None:
    runs = start(engine, tmp_path)
    feed(runs[0], tmp_path, range(3), ROWS)
    before, at_first = runs[0].execution.query.runId, states(runs[0])
    edited = tmp_path / "new.sql"
    edited.write_text(f"{DECLARED.format(folder=tmp_path)};\n{script(*NEW)}")
    words = ["migrate", str(tmp_path / "home"), str(edited), "--how", "clip", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["state"], said["output"], said["others"]) == ("switched", 0, [1])
    # The stream runs once before T, and once from T on. The command sees the record of the change,
    # which is written before the query goes over to the new plan.
    until(lambda: states(runs[0]) == at_first + 1)
    feed(runs[0], tmp_path, range(3, 8), ROWS)
    assert states(runs[0]) == at_first
    assert runs[0].execution.query.runId == before
    runs[0].stop()
    assert_changed(runs, tmp_path, said["at"])
    # The same script again: nothing of it differs from what runs.
    again = engine.start_all(
        Engine(engine.spark)._read_apart(edited.read_text(), None),
        [tmp_path / name for name in OUTS],
        checkpoint=tmp_path / "home",
    )
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert (
        "no query of the script differs from those that run" in json.loads(result.stdout)["error"]
    )
    again[0].stop()


def test_several_queries_are_replayed_together_by_tasks(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if there were many rows: they are read by tasks, in several batches.
    monkeypatch.setattr(large_replay, "REPLAY_IN_TASKS_FROM_ROWS", 1)
    monkeypatch.setattr(large_replay, "REPLAYED_BATCH_ROWS", 1_000)
    runs = start(engine, tmp_path)
    feed(runs[0], tmp_path, range(3), ROWS)
    with Engine(engine.spark, shards=2) as apart:
        declare(apart, tmp_path)
        new = apart.script(script(*NEW))
        with pytest.raises(PlanError, match="2 runs cannot become 1 queries"):
            engine.migrate_all(runs[:2], new[:1])
        migration = engine.migrate_all(runs[:2], new[:2], how="replay")
        migration.await_finished(PATIENCE)
    assert migration.at is not None
    feed(runs[0], tmp_path, range(3, 5), ROWS)
    # The same queries by the plans that are chosen now.
    again = engine.migrate_all(runs).await_switched(PATIENCE)
    # The third has that plan already.
    assert again.record.outputs == (0, 1)
    assert again.record.reoptimize
    feed(runs[0], tmp_path, range(5, 9), ROWS)
    again.await_finished(PATIENCE)
    runs[0].stop()
    assert_changed(runs, tmp_path, migration.at)


def test_runs_that_do_not_run_together_are_refused(engine: Engine, tmp_path: Path) -> None:
    declare(engine, tmp_path)
    query = engine.sql("SELECT item, COUNT(*) AS n FROM Bid WINDOW(RANGE 90) GROUP BY item")
    runs = [query.start(tmp_path / name, share=False) for name in ("a", "b")]
    with pytest.raises(PlanError, match="the queries do not run together"):
        engine.migrate_all(runs, [query, query])
    with pytest.raises(PlanError, match="the queries do not run together"):
        engine.migrate_all([])
    for run in runs:
        run.stop()
