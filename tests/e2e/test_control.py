"""Commands for queries on Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.errors import PlanError
from anabranch.runtime.spark.session import PLAIN_JOBS

pytestmark = pytest.mark.spark


def test_a_query_that_waits_for_a_dead_source_is_told_to_go_on(
    engine: Engine, tmp_path: Path
) -> None:
    for name, rows in (("live", [1, 5, 9]), ("dead", [2])):
        (tmp_path / name).mkdir()
        table = pa.table({"k": [1] * len(rows), "t": rows})
        pq.write_table(table, tmp_path / name / "0.parquet")
    live, dead = (
        engine.stream(tmp_path / name, name=name, start="t", delay=0) for name in ("live", "dead")
    )
    counts = live.union(dead).window(3).group_by("k").agg(n="COUNT(*)")
    # Only its own DataFrame tells Spark what it computes.
    engine.spark.conf.set(PLAIN_JOBS, "false")
    with counts.start(tmp_path / "out.jsonl") as run:
        engine.spark.conf.unset(PLAIN_JOBS)
        run.drain()
        assert run.stable == 2
        with pytest.raises(PlanError, match="did you mean 'dead'"):
            run.control.advance("ded", 9)
        run.control.advance("dead", 9)
        run.drain()
        assert run.stable == 9
        # Spark's own progress, which its listeners get, says so as well.
        progress = run._query.lastProgress
        assert progress is not None
        assert progress.observedMetrics["anabranch"]["stable"] == 9
        assert run.metrics()[-1]["control"] == [{"verb": "advance", "source": "dead", "value": 9}]
    out = str(tmp_path / "out.jsonl")
    told = CliRunner().invoke(app, ["control", out, "advance", "dead", "20"])
    assert told.exit_code == 0, (told.output, told.exception)
    assert told.stderr == "advance dead 20: takes effect in the next batch\n"
    listed = CliRunner().invoke(app, ["control", out, "--json"])
    assert [json.loads(line)["status"] for line in listed.stdout.splitlines()] == [
        "taken",
        "waiting",
    ]
    with counts.start(tmp_path / "out.jsonl") as run:
        run.drain()
        assert run.stable == 9
        run.control.advance("live", 15)
        run.drain()
        assert run.stable == 15
