"""Changes that are asked for at odd moments, or that are not possible: the query runs on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.changed_queries import answers, counting, declare, feed, instants, snapshot
from tests.e2e.revised_queries import assert_legal
from typer.testing import CliRunner

import anabranch as ab
from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.errors import PlanError, QueryError
from anabranch.migrate.migration import Migration
from anabranch.model.time import BEGINNING
from anabranch.runtime.store.migrations import How

pytestmark = pytest.mark.spark

PATIENCE = 120.0
LOCK = threading.Lock()


def refused(migration: Migration) -> PlanError:
    with pytest.raises(PlanError) as raised:
        migration.await_switched(PATIENCE)
    return raised.value


@pytest.mark.parametrize("how", ["clip", "replay"])
def test_a_function_that_cannot_be_written_down_is_refused_and_the_query_runs_on(
    engine: Engine, tmp_path: Path, how: How
) -> None:
    # A function of a module is referred to by its name; this one is written down with its lock.
    lock = LOCK

    @ab.udf
    def locked(price: int) -> int:
        with lock:
            return price

    declare(engine, tmp_path)
    engine.register(locked)
    run = counting(engine, 700).start(tmp_path / "out")
    feed(run, tmp_path, range(2), rows=200)
    changed = engine.sql(
        "SELECT item, COUNT(*) AS n, SUM(CAST(locked(price) AS INT)) AS total "
        "FROM Bid WINDOW(RANGE 400) GROUP BY item"
    )
    problem = refused(run.migrate(changed, how=how))
    assert "cannot be written to the checkpoint (cannot pickle" in problem.what
    assert "open it inside the function" in problem.what
    listed = CliRunner().invoke(app, ["migrations", str(tmp_path / "out"), "--json"])
    assert json.loads(listed.stdout)["error"].splitlines()[-1].startswith("  hint: a function")
    feed(run, tmp_path, range(2, 3), rows=200)
    assert run.status == "running"
    # Nothing of the change is left: another one begins.
    migration = run.migrate(counting(engine, 400), how="replay").await_finished(PATIENCE)
    assert migration.at is not None
    run.stop()
    for instant in instants(int(run.stable), migration.at):
        size = 700 if instant < migration.at else 400
        assert snapshot(run, instant) == answers(tmp_path, instant, size), instant
    assert_legal(tmp_path / "out")


def test_a_query_that_has_read_nothing_changes_from_the_beginning(
    engine: Engine, tmp_path: Path
) -> None:
    declare(engine, tmp_path)
    seen: list[Any] = []
    # Nothing of the output can be read again, so there is no other way than by clip.
    run = counting(engine, 700).start(
        foreach=lambda _, frame: seen.append(frame), checkpoint=tmp_path / "home"
    )
    migration = run.migrate(counting(engine, 400, least=500)).await_finished(PATIENCE)
    assert (migration.how, migration.at) == ("clip", BEGINNING)
    assert migration.reason == "nothing was read before"
    feed(run, tmp_path, range(2), rows=200)
    assert run.status == "running"
    run.stop()


def test_a_query_that_does_not_run_is_not_asked_to_change(engine: Engine, tmp_path: Path) -> None:
    declare(engine, tmp_path)
    run = counting(engine, 700).start(tmp_path / "out")
    feed(run, tmp_path, range(1), rows=200)
    for at in ("forever", 2**63 - 1):
        with pytest.raises(PlanError, match="would never count"):
            run.migrate(counting(engine, 400), at=at)
    run.stop()
    with pytest.raises(PlanError, match="does not run: it has ended") as raised:
        run.migrate(counting(engine, 400))
    assert "start it again" in raised.value.hint


def test_names_tell_queries_from_each_other(engine: Engine, tmp_path: Path) -> None:
    declare(engine, tmp_path)
    run = counting(engine, 700).start(tmp_path / "out")
    feed(run, tmp_path, range(1), rows=200)
    select = "SELECT DISTINCT item FROM Bid WINDOW(RANGE 50)"
    engine.sql(f"ADD QUERY Dear AS {select}")
    for taken in ("Dear", "dear"):
        with pytest.raises(PlanError, match=f"'{taken}' runs already") as raised:
            run.add(select, name=taken)
        assert "Dear" in raised.value.hint
    # Names can be written in any case, and are free when a query has left.
    engine.sql("DROP QUERY dear")
    engine.sql(f"ADD QUERY dear AS {select}")
    engine.sql("ALTER QUERY DEAR AS SELECT DISTINCT item FROM Bid WINDOW(RANGE 20)")
    with pytest.raises(QueryError, match="no running query 'dea'"):
        engine.sql("DROP QUERY dea")
    feed(run, tmp_path, range(1, 2), rows=200)
    assert run.status == "running"
    run.stop()
