"""`anabranch archive`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.runtime.revised_logs import written_log
from tests.runtime.test_log_cut import FIRST
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.time import FOREVER, Duration
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.archive.finding import archive_of_source
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit
from anabranch.runtime.sources.spec import ArchiveSpec
from anabranch.runtime.store.folder import Folder

RUNNER = CliRunner()
SCHEMA = pa.schema([("k", pa.string())])


def rows(start: int, count: int) -> EventBatch:
    at = np.arange(start, start + count)
    payload = pa.RecordBatch.from_arrays([pa.array(["x"] * count)], schema=SCHEMA)
    return EventBatch(payload, at, at, at + 1)


def filled(folder: Folder, spec: ArchiveSpec | None = None, clock: Clock = INTEGERS) -> Archive:
    archive = Archive(folder, None, spec)
    archive.create("Quote", SCHEMA, clock, copied=True)
    for batch in range(3):
        piece = write_bucket(folder, rows(batch * 10, 4), batch=batch, part=0, clock=clock)
        archive.add(ArchivedBatch(batch=batch, pieces=(piece,), promised=batch * 10 + 4))
    return archive


def test_an_archive_is_shown_with_its_times_and_sizes(tmp_path: Path) -> None:
    archive = filled(Folder.at(str(tmp_path / "quotes")))
    archive.add_correction(1, 2, rows(5, 1))
    done = RUNNER.invoke(app, ["archive", str(tmp_path / "quotes")])
    assert done.exit_code == 0
    head, line = done.stdout.splitlines()
    assert head.split()[:8] == [
        "source",
        "kind",
        "batches",
        "buckets",
        "rows",
        "from",
        "until",
        "oldest",
    ]
    assert line.split()[:7] == ["Quote", "copied", "3", "3", "12", "0", "24"]
    assert line.split()[7] == "1"
    shown = json.loads(RUNNER.invoke(app, ["archive", str(tmp_path / "quotes"), "--json"]).stdout)
    size = sum(file.stat().st_size for file in (tmp_path / "quotes").rglob("*.parquet"))
    assert shown["bytes"] == size
    assert (shown["rows"], shown["first"], shown["last"], shown["oldest"]) == (12, 0, 24, None)
    assert shown["index_files"] == 3


def test_every_bucket_is_shown(tmp_path: Path) -> None:
    filled(Folder.at(str(tmp_path)), clock=MICROSECONDS)
    done = RUNNER.invoke(app, ["archive", str(tmp_path), "--buckets"])
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["batch", "0", "1", "2"]
    assert done.stdout.splitlines()[1].endswith("part-00000000-0000-0000.parquet")
    lines = RUNNER.invoke(app, ["archive", str(tmp_path), "--buckets", "--json"]).stdout
    first = json.loads(lines.splitlines()[0])
    assert first["first"] == "1970-01-01T00:00:00"
    assert (first["batch"], first["rows"]) == (0, 4)
    assert first["bytes"] == (tmp_path / first["file"]).stat().st_size


@pytest.mark.parametrize("ended", [False, True])
def test_cut_drops_what_need_not_be_kept(tmp_path: Path, ended: bool) -> None:
    archive = filled(Folder.at(str(tmp_path)), ArchiveSpec(keep_age=Duration(12)))
    if ended:
        archive.add(ArchivedBatch(batch=3, pieces=(), promised=int(FOREVER)))
    done = RUNNER.invoke(app, ["archive", str(tmp_path), "--cut", "--json"])
    assert done.stderr == "Quote: dropped 1 buckets with 4 rows\n"
    shown = json.loads(done.stdout)
    assert (shown["rows"], shown["oldest"], shown["keep_age"]) == (8, 4, 12)
    assert len([*tmp_path.glob("*.parquet")]) == 2
    again = RUNNER.invoke(app, ["archive", str(tmp_path), "--cut"])
    assert again.stderr == "Quote: dropped 0 buckets with 0 rows\n"


@pytest.mark.parametrize("output", ["", "/_checkpoint", ".checkpoint"])
def test_the_archives_of_a_query_are_found_by_its_checkpoint(tmp_path: Path, output: str) -> None:
    checkpoint = f"{tmp_path}/out{output}"
    filled(archive_of_source(checkpoint, "Quote", str(tmp_path / "elsewhere")))
    near = Archive(archive_of_source(checkpoint, "Bid/2"), None)
    near.create("Bid/2", SCHEMA, INTEGERS, copied=False)
    piece = Piece(FileSplit("/data/bids.parquet", 0, WHOLE), 3, 9, 100)
    near.add(ArchivedBatch(batch=0, pieces=(piece,), promised=5))
    done = RUNNER.invoke(app, ["archive", f"{tmp_path}/out"])
    assert done.exit_code == 0
    _, first, second = done.stdout.splitlines()
    assert first.split()[:7] == ["Bid/2", "reference", "1", "1", "100", "3", "9"]
    assert second.split()[:5] == ["Quote", "copied", "3", "3", "12"]
    shown = RUNNER.invoke(app, ["archive", f"{tmp_path}/out", "--buckets"]).stdout
    assert shown.startswith("Bid/2:\nbatch  rows  from  until  bytes  file\n")
    assert "/data/bids.parquet" in shown


def test_where_there_is_no_archive_nothing_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "bids.jsonl").write_text('{"stable": 1}')
    done = RUNNER.invoke(app, ["archive", str(tmp_path / "bids.jsonl")])
    assert done.exit_code == 2
    assert done.stderr.startswith("StreamError: there is no archive\n")
    assert "hint: name the folder" in done.stderr


def test_an_index_takes_little_for_many_rows(tmp_path: Path) -> None:
    archive = Archive(Folder.at(str(tmp_path)), None)
    archive.create("Quote", SCHEMA, INTEGERS, copied=False)
    for batch in range(200):
        split = FileSplit(f"/data/a/rather/long/path/part-{batch}.parquet", 0, WHOLE)
        piece = Piece(split, batch * 1_234_567, batch * 1_300_000 + 10**9, 10_000)
        archive.add(ArchivedBatch(batch=batch, pieces=(piece,), promised=batch, known_at=batch))
    assert archive.stats().index_bytes_per_million_rows < 20_000


def test_a_log_folder_loses_what_was_settled(tmp_path: Path) -> None:
    log = written_log(tmp_path / "out", FIRST)
    words = ["archive", log.path, "--cut", "--before"]
    done = RUNNER.invoke(app, [*words, "22"])
    assert done.exit_code == 0, done.output
    assert "complete from 20 on" in done.stderr
    assert "nothing to drop" in RUNNER.invoke(app, [*words, "22"]).stderr
    assert RUNNER.invoke(app, ["check", log.path]).exit_code == 0
    early = RUNNER.invoke(app, ["show", log.path, "--at", "12"])
    assert "is no longer in the log" in early.stderr
    for path, before, problem in [
        (str(tmp_path), "5", "not a log folder"),
        (log.path, "soon", "option --before"),
    ]:
        done = RUNNER.invoke(app, ["archive", path, "--cut", "--before", before])
        assert done.exit_code == 2
        assert problem in done.stderr
