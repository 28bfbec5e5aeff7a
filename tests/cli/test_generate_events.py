"""`anabranch generate events`."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.workloads.nexmark_events import BID

RUNNER = CliRunner()


def generate(*words: str) -> str:
    done = RUNNER.invoke(app, ["generate", "events", *words])
    assert done.exit_code == 0, done.stderr
    return done.stderr


def test_every_stream_gets_a_folder(tmp_path: Path) -> None:
    assert generate("--to", str(tmp_path), "--events", "1000").startswith("wrote 1,000 events to ")
    assert pq.read_table(tmp_path / "bid").schema == BID
    rows = [pq.read_table(tmp_path / each).num_rows for each in ("person", "auction", "bid")]
    assert rows == [20, 60, 920]


def test_files_of_an_earlier_run_give_way(tmp_path: Path) -> None:
    generate("--to", str(tmp_path), "--events", "1000", "--files", "5")
    generate("--to", str(tmp_path), "--events", "100", "--files", "2")
    assert len(list((tmp_path / "bid").iterdir())) == 2
    assert pq.read_table(tmp_path / "bid").num_rows == 92


def test_with_corrections_the_streams_are_elements(tmp_path: Path) -> None:
    generate("--to", str(tmp_path), "--events", "2000", "--corrections", "0.1", "--files", "1")
    for name in ("bid", "open_auction"):
        file = tmp_path / name / "part-00000.parquet"
        assert RUNNER.invoke(app, ["check", str(file)]).exit_code == 0
    kinds = pq.read_table(tmp_path / "bid").column("kind").to_pylist()
    assert 150 < kinds.count("adjust") < 220


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = RUNNER.invoke(app, ["generate", "events", "--to", str(tmp_path / "file" / "x")])
    assert done.exit_code != 0
