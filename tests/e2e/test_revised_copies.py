"""Logs with revisions are merged while they are written: each revision leaves once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.revised_queries import assert_legal

from anabranch import Engine, LogicalStream
from anabranch.merging.logs import merge_logs
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
