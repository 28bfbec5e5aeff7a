"""A query on Spark that estimates corrections of input that is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import anabranch as ab
from anabranch.cli.app import app
from anabranch.runtime.query.run import Run

pytestmark = pytest.mark.spark

RUNNER = CliRunner()


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def query(
    spark: SparkSession, folder: Path, *, keep: str = "KEEP 50 CHRONONS", what: str = "AVG(n)"
) -> Any:
    engine = ab.Engine(spark)
    engine.sql(
        f"CREATE STREAM Bid (k TEXT, n BIGINT, t BIGINT) SOURCE '{folder}/in/*.json' "
        f"ORDERED BY t DELAY 5 LATE REVISE {keep} WITH (max_files_per_batch = 1)"
    )
    return engine.sql(f"SELECT k, {what} AS x FROM Bid WINDOW(RANGE 20 SLIDE 20) GROUP BY k")


def run(spark: SparkSession, folder: Path, **options: Any) -> Run:
    started: Run = query(spark, folder, **options).start(
        f"{folder}/out.jsonl",
        checkpoint=f"{folder}/ck",
        available_now=True,
        estimate=None if "keep" in options else 8,
    )
    started.await_end()
    return started


def test_what_cannot_be_replayed_is_estimated(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        rows = [{"k": "ab"[t % 2], "n": t, "t": t} for t in range(100 * number, 100 * number + 100)]
        write(tmp_path / "in", f"{number}.json", rows)
    run(spark, tmp_path)
    done = RUNNER.invoke(app, ["archive", f"{tmp_path}/ck", "--cut"])
    assert done.exit_code == 0, done.output
    lines = [
        {"insert": {"k": "a", "n": 500}, "start": 25},
        {"replace": {"k": "b", "n": 391}, "with": {"n": 0}, "start": 391},
    ]
    write(tmp_path, "lines.jsonl", lines)
    done = RUNNER.invoke(app, ["revise", f"{tmp_path}/ck", "Bid", f"{tmp_path}/lines.jsonl"])
    assert done.exit_code == 0, done.output
    again = run(spark, tmp_path)
    (note,) = again.revisions()
    assert note["state"] == "estimated"
    assert "archived from" in note["reason"]
    first, *others = note["estimates"]
    assert (first["group"], first["start"], first["end"]) == (["a"], 39, 59)
    # a has 20, 22, ... 38; buckets are [16, 24), [24, 32), [32, 40).
    value, low, high = first["before"]
    assert low <= 29 <= high
    assert low < value < high
    value, low, high = first["after"]
    assert low <= (290 + 500) / 11 <= high
    assert note["error"] == pytest.approx(max(high - value, value - low), rel=0.5)
    assert note["estimated"] == 1 + len(others)
    shown = RUNNER.invoke(app, ["revisions", f"{tmp_path}/ck"])
    assert "a [39, 59): " in shown.stdout
    assert " to " in shown.stdout
    assert RUNNER.invoke(app, ["check", f"{tmp_path}/out.jsonl"]).exit_code == 0

    with pytest.raises(ab.PlanError, match="keeps all its rows"):
        query(spark, tmp_path, keep="").start("memory", estimate=8)
    with pytest.raises(ab.PlanError, match="cannot be estimated") as refused:
        query(spark, tmp_path, what="MAX(n)").start("memory", estimate=8)
    assert "MAX" in str(refused.value.where).upper()
