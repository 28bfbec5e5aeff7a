"""Logs with revisions are merged while they are written: each revision leaves once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.e2e.revised_queries import assert_legal
from tests.e2e.test_replicas import PATIENCE, SCRIPT, Shop

from anabranch import Engine, LogicalStream
from anabranch.merging.logs import merge_logs
from anabranch.model.files.stream_file import read_batches
from anabranch.runtime.sources.files.log_folder import LogFolder

pytestmark = pytest.mark.spark


def write(folder: Path, number: int, times: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    part = folder / f".{number}"
    rows = ({"k": t % 2, "v": 10 * number + t, "t": t} for t in times)
    part.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    part.rename(folder / f"{number}.json")


def write_copy(engine: Engine, folder: Path, name: str) -> None:
    """Run a copy of the query to the end of what is there."""
    rows = engine.stream(
        folder / "rows", name=name, start="t", delay=5, late="revise", max_files_per_batch=1
    )
    query = rows.window(10, slide=5).group_by("k").agg(n="COUNT(*)", s="SUM(v)")
    query.start(folder / "copies" / name, available_now=True, share=False).await_end()


def merge(engine: Engine, folder: Path) -> None:
    merge_logs(engine, folder / "copies", folder / "merged", available_now=True).await_end()
    assert_legal(folder / "merged")


def revisions(log: Path) -> list[tuple[int, int, int]]:
    return [(each.number, each.first, each.last) for each in LogFolder(str(log)).revisions()]


def meaning(log: Path) -> LogicalStream:
    return LogicalStream.of_batches(LogFolder(str(log)).read())


def test_every_revision_of_copies_leaves_once(engine: Engine, tmp_path: Path) -> None:
    for number in range(4):
        write(
            tmp_path / "rows", number, [*range(20 * number, 20 * number + 20), *[3][: number - 1]]
        )
    write_copy(engine, tmp_path, "a")
    merge(engine, tmp_path)
    merged, first = tmp_path / "merged", tmp_path / "copies" / "a"
    assert revisions(merged) == revisions(first) != []
    # The second copy brings what is known already; then both have one more.
    write_copy(engine, tmp_path, "b")
    merge(engine, tmp_path)
    assert revisions(merged) == revisions(first)
    write(tmp_path / "rows", 4, [90, 44, 120])
    for name in ("b", "a"):
        write_copy(engine, tmp_path, name)
    merge(engine, tmp_path)
    assert revisions(merged) == revisions(first)
    assert len(revisions(first)) > 1
    stable = LogFolder(str(merged)).stable()
    assert stable == LogFolder(str(first)).stable()
    assert not meaning(merged).difference(meaning(first), stable)


@pytest.mark.slow
@pytest.mark.commands
def test_replicated_queries_are_corrected_once(tmp_path: Path) -> None:
    """Two copies, as processes, and a late bid: each has its revision, their merge has one."""
    shop = Shop(tmp_path)
    script = SCRIPT.replace("DELAY 10", "DELAY 10 LATE REVISE")
    (tmp_path / "highest.sql").write_text(script)
    logs = [tmp_path / "highest" / name for name in ("merged", "copies/highest-1")]
    logs.append(tmp_path / "highest/copies/highest-2")
    last = shop.bid()
    words = ["--copies", "2", "--to", "highest", "--trigger", "100 milliseconds"]
    with shop.process("replicate", "highest.sql", *words):
        shop.await_("highest/merged", last)
        late = {"item": 1, "price": 1000, "at": 30}
        (tmp_path / "bids/late.jsonl").write_text(f"{json.dumps(late)}\n")
        deadline = time.monotonic() + PATIENCE
        while not all(map(revisions, logs)):
            assert time.monotonic() < deadline, (tmp_path / "processes.log").read_text()[-3000:]
            time.sleep(0.1)
        last = shop.bid()
        for log in logs:
            shop.await_(str(log), last)
    assert revisions(logs[0]) == revisions(logs[1]) == revisions(logs[2]) == [(1, 39, 89)]
    assert_legal(logs[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        Engine().sql(script).run_local(to=tmp_path / "right.jsonl")
    right = LogicalStream.of_batches(list(read_batches(tmp_path / "right.jsonl")))
    stable = LogFolder(str(logs[0])).stable()
    assert not meaning(logs[0]).difference(right, stable)
