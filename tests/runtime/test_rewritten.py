from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.runtime.messages.counters import RewrittenFile
from anabranch.runtime.query.notes import rewritten_note
from anabranch.runtime.sources.files import rewritten
from anabranch.runtime.sources.files.planned_batch import newest_entry, positions_after, read_entry
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.rewritten import FileWatch, rewritten_files
from anabranch.runtime.sources.files.units import Position
from anabranch.runtime.sources.spec import FileForm, FileSource, Limits, Promise, Shape
from anabranch.runtime.store.folder import Folder

ROWS = pa.schema([("a", pa.int64()), ("t", pa.int64())])
SECOND = 1_000_000_000


def source(path: Path, form: FileForm = "parquet", **options: Any) -> FileSource:
    return FileSource(
        promise=Promise(source="s"),
        path=str(path),
        form=form,
        schema=ROWS,
        stored=ROWS,
        shape=Shape(start="t"),
        ends=options.pop("ends", False),
        limits=Limits(**options),
    )


class Plans:
    """A planner whose clock goes on by a second with every plan, and what it plans."""

    def __init__(self, source: FileSource, folder: Path) -> None:
        self.source = source
        self.folder = Folder.at(str(folder / "plan"))
        self.time = 0
        self.at = newest_entry(self.folder)
        self.planner = FilePlanner([source], self.folder, 1, clock=self._clock)

    def _clock(self) -> int:
        self.time += SECOND
        return self.time

    def told(self) -> list[str]:
        """The files that the next batches tell of, until there are no more."""
        return [Path(each.file).name for each in self.told_fully()]

    def told_fully(self) -> list[RewrittenFile]:
        found: list[RewrittenFile] = []
        while (after := self.planner.latest(self.at)) > self.at:
            parts = self.planner.parts(self.at, after)
            found += [each for part in parts for each in part.rewritten]
            self.at = after
        return found

    def rows(self) -> list[int]:
        """How many rows are in the batches that are new."""
        first = self.at
        self.told()
        entries = [read_entry(self.folder, n) for n in range(first + 1, self.at + 1)]
        return [entry.rows or 0 for entry in entries if entry is not None]


def write(file: Path, values: Sequence[int], age: int | None = None) -> None:
    """Write rows, as if so many seconds ago."""
    file.parent.mkdir(exist_ok=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.table({"a": values, "t": values}), file)
    elif file.suffix == ".csv":
        file.write_text("a,t\n" + "".join(f"{each},{each}\n" for each in values))
    else:
        file.write_text("".join(json.dumps({"a": each, "t": each}) + "\n" for each in values))
    if age is not None:
        aged(file, age)


def aged(file: Path, age: int) -> None:
    then = file.stat().st_mtime_ns - age * SECOND
    os.utime(file, ns=(then, then))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_that_is_written_again_is_told_once(tmp_path: Path, suffix: FileForm) -> None:
    for day in ("1", "2", "3"):
        write(tmp_path / f"in/{day}.{suffix}", [1, 2, 3], age=100)
    plans = Plans(source(tmp_path / "in", suffix), tmp_path)
    assert plans.told() == []
    write(tmp_path / f"in/2.{suffix}", [1, 2, 33333])
    (told,) = plans.told_fully()
    assert told.file == str(tmp_path / f"in/2.{suffix}")
    assert told.bytes == (tmp_path / f"in/2.{suffix}").stat().st_size
    write(tmp_path / f"in/2.{suffix}", [1, 2])
    assert plans.told() == []


def test_the_same_length_and_another_time_count(tmp_path: Path) -> None:
    write(tmp_path / "in/1.csv", [1, 2, 3], age=100)
    plans = Plans(source(tmp_path / "in", "csv"), tmp_path)
    plans.told()
    write(tmp_path / "in/1.csv", [1, 2, 4])
    assert plans.told() == ["1.csv"]


def test_it_is_told_after_a_restart_and_not_again_after_the_next(tmp_path: Path) -> None:
    write(tmp_path / "in/1.parquet", [1, 2, 3], age=100)
    first = Plans(source(tmp_path / "in"), tmp_path)
    first.told()
    write(tmp_path / "in/1.parquet", [1, 2, 4])
    second = Plans(source(tmp_path / "in"), tmp_path)
    second.planner.freeze()
    assert second.told() == ["1.parquet"]
    third = Plans(source(tmp_path / "in"), tmp_path)
    third.planner.freeze()
    assert third.told() == []
    positions = positions_after(third.folder, newest_entry(third.folder))
    assert rewritten_files(positions) == {"s": [str(tmp_path / "in/1.parquet")]}


def test_it_is_remembered_when_the_plan_is_compacted(tmp_path: Path) -> None:
    plans = Plans(source(tmp_path / "in"), tmp_path)
    (tmp_path / "in").mkdir()
    for number in range(20):
        write(tmp_path / f"in/{number}.parquet", [number], age=100)
        plans.told()
        plans.planner.commit(plans.at)
    assert f"base-{plans.at}.json" in plans.folder.names()
    write(tmp_path / "in/7.parquet", [70])
    assert Plans(source(tmp_path / "in"), tmp_path).told() == ["7.parquet"]


def test_a_checkpoint_that_knows_no_sizes_tells_nothing(tmp_path: Path) -> None:
    write(tmp_path / "in/1.parquet", [1, 2, 3], age=100)
    plans = Plans(source(tmp_path / "in"), tmp_path)
    plans.told()
    name = "1.json"
    entry = plans.folder.read_json(name)
    assert entry is not None
    for path, position in entry["after"]["s"].items():
        entry["after"]["s"][path] = position[:2]
    plans.folder.write_json(name, entry)
    write(tmp_path / "in/1.parquet", [1, 2, 4])
    assert Plans(source(tmp_path / "in"), tmp_path).told() == []


def test_files_that_were_read_may_be_removed_and_come_back(tmp_path: Path) -> None:
    write(tmp_path / "in/1.parquet", [1, 2, 3], age=100)
    plans = Plans(source(tmp_path / "in"), tmp_path)
    plans.told()
    (tmp_path / "in/1.parquet").unlink()
    assert plans.told() == []
    write(tmp_path / "in/1.parquet", [1, 2, 4])
    assert plans.told() == ["1.parquet"]


def test_lines_may_be_appended(tmp_path: Path) -> None:
    file = tmp_path / "in/1.jsonl"
    write(file, [1, 2, 3], age=100)
    plans = Plans(source(tmp_path / "in", "json"), tmp_path)
    assert plans.rows() == [3]
    with file.open("a") as more:
        more.write('{"a": 4, "t": 4}\n')
    assert plans.rows() == [1]
    # Written again from the beginning with what was there: the same file, longer.
    write(file, [1, 2, 3, 4, 5])
    assert plans.rows() == [1]


def test_lines_that_are_replaced_by_others_are_told_and_not_read(tmp_path: Path) -> None:
    file = tmp_path / "in/1.jsonl"
    write(file, [1, 2, 3], age=100)
    plans = Plans(source(tmp_path / "in", "json"), tmp_path)
    plans.told()
    write(file, [100, 200, 300, 400])
    assert plans.told() == ["1.jsonl"]
    with file.open("a") as more:
        more.write('{"a": 5, "t": 5}\n')
    assert plans.rows() == []


def test_lines_that_have_become_fewer_are_told(tmp_path: Path) -> None:
    file = tmp_path / "in/1.jsonl"
    write(file, [1, 2, 3], age=100)
    plans = Plans(source(tmp_path / "in", "json"), tmp_path)
    plans.told()
    write(file, [1, 2])
    assert plans.told() == ["1.jsonl"]
    write(file, [1, 2, 3, 4])
    assert plans.rows() == []


def test_a_change_of_lines_in_place_is_told_when_nobody_writes(tmp_path: Path) -> None:
    file = tmp_path / "in/1.jsonl"
    write(file, [*range(100, 120)], age=100)
    plans = Plans(source(tmp_path / "in", "json"), tmp_path)
    plans.told()
    write(file, [101, *range(101, 120)])
    # A writer that appends changes the time before the length.
    assert plans.told() == []
    aged(file, 5)
    assert plans.told() == ["1.jsonl"]
    # The lines in front of the position are those that were read: what is appended is read.
    with file.open("a") as more:
        more.write('{"a": 120, "t": 120}\n')
    assert plans.rows() == [1]
    aged(file, 50)
    assert plans.told() == []


def test_a_batch_tells_of_so_many_files_and_the_next_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewritten, "MOST_TOLD", 2)
    monkeypatch.setattr(rewritten, "GROUP", 2)
    names = [f"{number}.parquet" for number in range(5)]
    for name in names:
        write(tmp_path / "in" / name, [1], age=100)
    plans = Plans(source(tmp_path / "in"), tmp_path)
    plans.told()
    for name in names:
        write(tmp_path / "in" / name, [2, 3])
    before = plans.at
    assert sorted(plans.told()) == names
    assert plans.at - before == 3
    for is_frozen in (True, False):
        again = Plans(source(tmp_path / "in"), tmp_path)
        if is_frozen:
            again.planner.freeze()
        assert again.told() == []


def test_files_that_are_done_with_are_looked_at_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}.parquet" for number in range(8)]
    for name in names:
        write(tmp_path / "in" / name, [1])
    monkeypatch.setattr(rewritten, "GROUP", 3)
    times = iter(range(0, 1_000_000 * SECOND, SECOND // 5))
    watch = FileWatch(source(tmp_path / "in"), lambda: next(times))
    looked: list[str] = []
    look = FileWatch._look_at

    def noted(self: FileWatch, paths: Any, *rest: Any) -> None:
        found = [*paths]
        looked.extend(Path(path).name for path in found)
        look(self, found, *rest)

    monkeypatch.setattr(FileWatch, "_look_at", noted)
    positions = {str(tmp_path / "in" / name): Position(-1, 2, 1, 1) for name in names}
    told: set[str] = set()
    for _ in range(3):
        told |= watch.look([], positions).keys()
    # The clock has gone on by more than a look may take: one group each time, the newest first.
    assert looked == names[::-1]
    assert told == positions.keys()


def test_looks_are_seldom(tmp_path: Path) -> None:
    write(tmp_path / "in/1.parquet", [1])
    now = 0
    watch = FileWatch(source(tmp_path / "in"), lambda: now)
    path = str(tmp_path / "in/1.parquet")
    right = (tmp_path / "in/1.parquet").stat()
    good = {path: Position(-1, 2, right.st_size, right.st_mtime_ns)}
    assert watch.look([], good) == {}
    now = rewritten.PAUSE - 1
    assert watch.look([], {path: Position(-1, 2, 1, 1)}) == {}
    now = rewritten.PAUSE
    assert watch.look([], {path: Position(-1, 2, 1, 1)}).keys() == {path}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["append", "again", "plan", "restart"]), st.integers(0, 3)),
        max_size=12,
    ),
    rows=st.integers(1, 4),
)
def test_what_is_appended_is_never_told_and_read_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("drawn")
    file = folder / "in/1.jsonl"
    (folder / "in").mkdir()
    count, read = 1, 0
    write(file, [0])
    plans = Plans(source(folder / "in", "json", rows=rows), folder)
    for step, many in [*steps, ("plan", 0)]:
        if step == "append":
            with file.open("a") as more:
                for value in range(count, count + many):
                    more.write(json.dumps({"a": value, "t": value}) + "\n")
            count += many
        elif step == "again":
            # As a whole, through a file beside it: as pandas users append.
            beside = folder / "in/_beside"
            write(beside, [*range(count)])
            beside.replace(file)
        elif step == "restart":
            plans = Plans(source(folder / "in", "json", rows=rows), folder)
        else:
            first = plans.at
            assert plans.told() == []
            entries = [read_entry(plans.folder, n) for n in range(first + 1, plans.at + 1)]
            read += sum(entry.rows or 0 for entry in entries if entry is not None)
            assert read == count


def test_rows_of_this_process_are_the_same_file_again(tmp_path: Path) -> None:
    kept = tmp_path / "anabranch-rows-7"
    write(kept / "abc.parquet", [1, 2], age=100)
    plans = Plans(source(kept / "abc.parquet", ends=True), tmp_path)
    plans.told()
    write(kept / "abc.parquet", [1, 2])
    assert Plans(source(kept / "abc.parquet", ends=True), tmp_path).told() == []


@pytest.mark.parametrize("pause", [0, 1_000 * SECOND])
def test_a_local_run_tells_of_files_that_change_while_it_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, pause: int
) -> None:
    # Between two batches, or not before the end.
    monkeypatch.setattr(rewritten, "PAUSE", pause)
    for day in (1, 2):
        write(tmp_path / f"in/{day}.parquet", [day], age=100)

    @ab.udf
    def changed(value: int) -> int:
        write(tmp_path / "in/1.parquet", [7, 8])
        return value

    engine = ab.Engine()
    engine.register(changed)
    rows = engine.stream(str(tmp_path / "in"), start="t", max_files_per_batch=1)
    with caplog.at_level(logging.WARNING, logger="anabranch"):
        run = rows.select("changed(a) AS a").run_local()
    assert run.metrics()[-1]["rewritten"] == 1
    assert "1 file written again" in repr(run)
    (message,) = [each.getMessage() for each in caplog.records if "again" in each.getMessage()]
    assert str(tmp_path / "in/1.parquet") in message
    assert "LATE REVISE" in message


def test_the_note_says_what_where_and_what_to_do() -> None:
    files = [
        RewrittenFile(
            file=f"in/{n}.csv", bytes_before=1_000, bytes=n, modified="2026-11-18T10:00:00Z"
        )
        for n in range(7)
    ]
    note = rewritten_note("Order", files[:1], revised=True)
    assert str(note).splitlines() == [
        "source 'Order': a file of it was written again after being read; results are those of the "
        "rows that were read first",
        "  in/0.csv: 1,000 bytes when it was read, 0 since 2026-11-18T10:00:00Z",
        "  hint: hand in the rows that differ: anabranch revise CHECKPOINT Order "
        "corrections.jsonl, or run.revise('Order', [...]); without ARCHIVE 'folder' put the old "
        "file back first, since the archive refers to it",
    ]
    note = rewritten_note("Order", files, revised=False)
    assert "7 files of it were written again" in note.what
    assert note.where.splitlines()[-1] == "  and 2 more files"
    assert "late='revise'" in note.hint
