"""A file that is written again after it was read is told, on Spark."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.waiting import until
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine
from anabranch.runtime.query.run import Run
from anabranch.stream import Stream

pytestmark = pytest.mark.spark

QUERY = """
    CREATE STREAM Sale (item TEXT, price DOUBLE, at BIGINT) SOURCE 'sales'
      ORDERED BY at DELAY 0 LATE REVISE ARCHIVE 'kept';
    SELECT item, SUM(price) AS total FROM Sale WINDOW(RANGE 100) GROUP BY item
"""


def write(day: int, price: float) -> None:
    rows = {"item": ["a", "b"], "price": [price, 1.0], "at": [day * 10, day * 10 + 1]}
    pq.write_table(pa.table(rows), f"sales/{day}.parquet")


def started(engine: Engine, *, now: bool = False) -> Run:
    query = engine.sql(QUERY)
    assert isinstance(query, Stream)
    return query.start(to="totals", available_now=now)


def test_a_file_that_is_written_again_is_told_while_the_query_runs_and_once(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sales").mkdir()
    write(1, 5.0)
    write(2, 6.0)
    with caplog.at_level(logging.WARNING, logger="anabranch"), started(engine) as run:
        run.drain()
        write(1, 50.0)
        until(lambda: run.totals["sources"]["Sale"].get("rewritten") == 1)
        write(3, 7.0)
        run.drain()
        # Neither is the file read again, nor is anything else lost.
        assert {row["item"]: row["total"] for row in run.snapshot(31).collect()} == {
            "a": 18.0,
            "b": 3.0,
        }
        assert "1 file written again" in repr(run)
        assert "1 file written again" in run.progress
        (batch,) = [each for each in run.metrics() if each.get("rewritten")]
        assert (batch["rewritten"], batch["rows_in"]) == (1, 0)
        (told,) = batch["sources"]["Sale"]["rewritten"]
        assert told["file"].endswith("sales/1.parquet")
    messages = [
        each.getMessage() for each in caplog.records if "written again" in each.getMessage()
    ]
    assert len(messages) == 1
    assert "sales/1.parquet" in messages[0]
    assert "anabranch revise CHECKPOINT Sale" in messages[0]
    shown = CliRunner().invoke(app, ["state", "totals"])
    assert "source Sale: 1 file written again after being read: " in shown.stderr

    # After a restart it is known, and a file that was changed meanwhile is told.
    caplog.clear()
    write(1, 51.0)
    write(2, 61.0)
    Path("corrections.jsonl").write_text(
        json.dumps({"replace": {"item": "a"}, "with": {"price": 50.0}, "start": 10}) + "\n"
    )
    handed = CliRunner().invoke(app, ["revise", "totals", "Sale", "corrections.jsonl"])
    assert handed.exit_code == 0, handed.output
    with caplog.at_level(logging.WARNING, logger="anabranch"), started(engine, now=True) as run:
        run.await_end()
        assert run.totals["sources"]["Sale"]["rewritten"] == 1
        assert {row["item"]: row["total"] for row in run.snapshot(31).collect()} == {
            "a": 63.0,
            "b": 3.0,
        }
    (message,) = [each.getMessage() for each in caplog.records if "again" in each.getMessage()]
    assert "sales/2.parquet" in message
    assert "sales/1.parquet" not in message
