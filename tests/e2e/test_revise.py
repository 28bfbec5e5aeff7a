"""Corrections that are handed in to a query on Spark, running or stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import anabranch as ab
from anabranch.cli.app import app
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.runtime.query.run import Run

pytestmark = pytest.mark.spark

RUNNER = CliRunner()
QUERY = "SELECT k, SUM(n) AS s, MAX(n) AS m FROM Bid WINDOW(RANGE 10 SLIDE 10) GROUP BY k"


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    part = folder / f".{name}"
    part.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    part.rename(folder / name)


def start(spark: SparkSession, folder: Path, name: str = "out") -> Run:
    engine = ab.Engine(spark)
    engine.sql(
        f"CREATE STREAM Bid (k BIGINT, n BIGINT, t BIGINT) SOURCE '{folder}/in/*.json' "
        "ORDERED BY t DELAY 5 LATE REVISE"
    )
    run: Run = engine.sql(QUERY).start(
        to=f"{folder}/{name}.jsonl", checkpoint=f"{folder}/{name}-ck"
    )
    return run


def meaning(path: Path) -> LogicalStream:
    return LogicalStream.of_batches(list(read_batches(path)))


def test_answers_are_those_of_corrected_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"k": i % 3, "n": i, "t": i} for i in range(60)]
    write(tmp_path / "in", "a.json", rows)
    run = start(spark, tmp_path)
    run.drain()
    found = run.revise(
        "Bid",
        [
            {"replace": {"k": 0}, "with": {"n": 100}, "start": 3},
            {"replace": {"k": 0}, "with": {"n": 101}, "start": 3},
            {"delete": {"k": 1}, "start": 13},
            {"delete": {}, "start": 58},
            {"insert": {"k": 7, "n": 70}, "start": 22},
            {"insert": {"k": 7, "n": 71}, "start": 57},
            {"delete": {"n": 30}, "start": 30},
            {"insert": {"k": 0, "n": 30}, "start": 41},
            {"delete": {"k": 9}, "start": 3},
        ],
    )
    assert [each.line for each in found.quarantined] == [9]
    run.drain()
    # What came late can be corrected, too.
    assert not run.revise("Bid", [{"delete": {"k": 7}, "start": 22}]).quarantined
    run.drain()
    states = [each["state"] for each in run.revisions()]
    assert sorted(states) == ["committed", "committed", "quarantined"]
    run.stop()

    # A stopped query takes corrections when it starts again, from any process.
    late = tmp_path / "late.jsonl"
    late.write_text('{"replace": {"k": 2}, "with": {"n": 5}, "start": 20}\n')
    done = RUNNER.invoke(app, ["revise", f"{tmp_path}/out-ck", "Bid", str(late)])
    assert done.exit_code == 0, done.stderr
    write(tmp_path / "in", "b.json", [{"k": 0, "n": 1, "t": 100}])
    run = start(spark, tmp_path)
    run.drain()
    run.stop()
    shown = RUNNER.invoke(app, ["revisions", f"{tmp_path}/out-ck", "--json"]).stdout.splitlines()
    assert [json.loads(line)["handed_in"] for line in shown] == [[1], [1], [2], [3]]
    assert RUNNER.invoke(app, ["check", f"{tmp_path}/out.jsonl"]).exit_code == 0

    right = {row["t"]: row for row in rows}
    right[3] = {"k": 0, "n": 101, "t": 3}
    right[20] = {"k": 2, "n": 5, "t": 20}
    moved = {**right.pop(30), "t": 41}
    del right[13], right[58]
    clean = tmp_path / "clean"
    clean.mkdir()
    added = [{"k": 7, "n": 71, "t": 57}, moved, {"k": 0, "n": 1, "t": 100}]
    ordered = sorted([*right.values(), *added], key=lambda row: row["t"])
    write(clean / "in", "a.json", ordered)
    run = start(spark, clean)
    run.drain()
    run.stop()
    difference = meaning(tmp_path / "out.jsonl").difference(meaning(clean / "out.jsonl"))
    assert not difference, difference
