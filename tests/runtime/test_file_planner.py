from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.errors import EngineError, StreamError
from anabranch.runtime.sources.files import listing
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import FileSplit, read_split
from anabranch.runtime.sources.files.units import Position, Unit, share_units
from anabranch.runtime.sources.spec import FileSource, Limits, Promise, Shape
from anabranch.runtime.store.folder import Folder

LINES = pa.schema([("a", pa.int64())])
ROWS = pa.schema([("a", pa.int64()), ("t", pa.int64())])


def lines(path: Path, *, ends: bool = False, rows: int | None = None) -> FileSource:
    return FileSource(
        promise=Promise(source="s"),
        path=str(path),
        form="lines",
        schema=LINES,
        stored=LINES,
        shape=None,
        ends=ends,
        limits=Limits(rows),
    )


def tables(path: Path, **options: Any) -> FileSource:
    return FileSource(
        promise=Promise(source="s"),
        path=str(path),
        form=options.pop("form", "parquet"),
        schema=ROWS,
        stored=ROWS,
        shape=Shape(start="t"),
        ends=options.pop("ends", False),
        limits=Limits(**options),
    )


def planner(source: FileSource, tmp_path: Path, parts: int = 2) -> FilePlanner:
    return FilePlanner([source], Folder.at(str(tmp_path / "plan")), parts)


def element(value: int) -> str:
    return f'{{"insert": {{"a": {value}}}, "start": {value}}}\n'


def values(plan: FilePlanner, source: FileSource, start: int, end: int) -> list[list[int]]:
    """The values that each part between two offsets reads."""
    return [
        [
            value
            for split in part.splits
            for piece in read_split(source, split, ["a"])
            for value in piece.batch.payload.column("a").to_pylist()
        ]
        for part in plan.parts(start, end)
    ]


def drain(plan: FilePlanner, source: FileSource, start: int = 0) -> list[list[list[int]]]:
    found = []
    while (end := plan.latest(start)) > start:
        found.append(values(plan, source, start, end))
        start = end
    return found


def test_a_growing_file_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(element(1) + element(2) + '{"insert": {"a"')
    source = lines(file)
    plan = planner(source, tmp_path)
    assert drain(plan, source) == [[[1, 2]]]
    assert plan.latest(1) == 1
    with file.open("a") as out:
        out.write(': 3}, "start": 3}\n' + element(4))
    assert drain(plan, source, 1) == [[[3, 4]]]


def test_a_last_line_without_its_end_counts_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(element(1) + element(2).rstrip("\n"))
    source = lines(file)
    plan = planner(source, tmp_path)
    assert drain(plan, source) == [[[1, 2]]]
    with file.open("a") as out:
        out.write("\n" + element(3))
    assert drain(plan, source, 1) == [[[3]]]


def test_messages_count_lines_from_the_start_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(element(1) + "\n" + element(2) + "{}\n")
    source = lines(file, rows=3)
    plan = planner(source, tmp_path)
    assert values(plan, source, 0, plan.latest(0)) == [[1, 2]]
    with pytest.raises(StreamError, match="no 'insert'") as raised:
        values(plan, source, 1, plan.latest(1))
    assert "line 4" in raised.value.where


def test_batches_have_at_most_so_many_lines(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text("".join(map(element, range(7))))
    source = lines(file, rows=3)
    assert drain(planner(source, tmp_path), source) == [[[0, 1, 2]], [[3, 4, 5]], [[6]]]


@given(
    first=st.lists(st.integers(0, 9), max_size=20),
    rest=st.lists(st.integers(0, 9), max_size=20),
    rows=st.integers(1, 6),
    restart=st.integers(0, 5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_or_doubled_by_growth_and_restarts(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[int],
    rest: list[int],
    rows: int,
    restart: int,
) -> None:
    tmp_path = tmp_path_factory.mktemp("it")
    file = tmp_path / "s.jsonl"
    file.write_text("".join(map(element, first)))
    source = lines(file, rows=rows)
    seen = drain(planner(source, tmp_path), source)
    offset = len(seen)
    with file.open("a") as out:
        out.write("".join(map(element, rest)))
    # A new process, and some batches again.
    plan = planner(source, tmp_path)
    again = max(0, offset - restart)
    assert [values(plan, source, i, i + 1) for i in range(again, offset)] == seen[again:]
    seen += drain(plan, source, offset)
    assert [v for batch in seen for part in batch for v in part] == [*first, *rest]


def test_parquet_is_cut_at_row_groups(tmp_path: Path) -> None:
    table = pa.table({"a": range(10), "t": range(10)}, schema=ROWS)
    pq.write_table(table, tmp_path / "b.parquet", row_group_size=2)
    pq.write_table(table.slice(0, 1), tmp_path / "a.parquet")
    source = tables(tmp_path / "*.parquet", rows=5)
    found = drain(planner(source, tmp_path), source)
    assert [sorted(v for part in batch for v in part) for batch in found] == [
        [0, 0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert all(len(batch) <= 2 for batch in found)


def test_a_row_group_larger_than_the_limit_is_a_batch_of_its_own(tmp_path: Path) -> None:
    table = pa.table({"a": range(6), "t": range(6)}, schema=ROWS)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    source = tables(tmp_path / "a.parquet", rows=1)
    assert drain(planner(source, tmp_path), source) == [[[0, 1, 2]], [[3, 4, 5]]]


def test_files_are_taken_by_name_and_so_many_at_a_time(tmp_path: Path) -> None:
    for name, value in (("c", 3), ("a", 1), ("b", 2), ("_hidden", 9), (".hidden", 9)):
        (tmp_path / f"{name}.csv").write_text(f"a,t\n{value},{value}\n")
    (tmp_path / "about.txt").write_text("not a table")
    source = tables(tmp_path, form="csv", files=2)
    assert drain(planner(source, tmp_path, parts=1), source) == [[[1, 2]], [[3]]]


def test_numbers_in_names_count_as_numbers(tmp_path: Path) -> None:
    for value in (1, 2, 9, 10, 11, 100):
        (tmp_path / f"day-{value}.csv").write_text(f"a,t\n{value},{value}\n")
    source = tables(tmp_path, form="csv")
    assert drain(planner(source, tmp_path, parts=1), source) == [[[1, 2, 9, 10, 11, 100]]]
    pattern = tables(tmp_path / "day-*.csv", form="csv", files=4)
    plan = FilePlanner([pattern], Folder.at(str(tmp_path / "other")), 1)
    assert drain(plan, pattern) == [[[1, 2, 9, 10]], [[11, 100]]]


def test_a_checkpoint_of_the_old_order_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.1 read `10` before `2`: what it has planned stays, and nothing is read twice."""
    for value in (1, 2, 3, 10, 11):
        (tmp_path / f"{value}.csv").write_text(f"a,t\n{value},{value}\n")
    source = tables(tmp_path, form="csv", files=1)
    with monkeypatch.context() as earlier:
        earlier.setattr(listing, "by_name", lambda file: file)
        plan = planner(source, tmp_path, parts=1)
        assert [plan.latest(0), plan.latest(1)] == [1, 2]
    again = planner(source, tmp_path, parts=1)
    assert values(again, source, 0, 2) == [[1], [10]]
    assert drain(again, source, 2) == [[[2]], [[3]], [[11]]]


@given(st.sets(st.text("ab019-_.", min_size=1, max_size=6)), st.randoms())
def test_the_order_of_files_is_that_of_their_names_alone(
    names: set[str], draw: random.Random
) -> None:
    files = sorted(Path("folder", name) for name in names)
    wanted = sorted(files, key=listing.by_name)
    draw.shuffle(files)
    assert sorted(files, key=listing.by_name) == wanted


def test_what_comes_after_freezing_waits_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(element(1))
    source = lines(tmp_path / "in")
    plan = planner(source, tmp_path)
    plan.freeze()
    (tmp_path / "in" / "b.jsonl").write_text(element(2))
    with (tmp_path / "in" / "a.jsonl").open("a") as out:
        out.write(element(3))
    assert drain(plan, source) == [[[1]]]
    assert drain(planner(source, tmp_path), source, 1) == [[[3], [2]]]


def test_a_source_that_ends_says_so_with_its_last_batch(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(element(1) + element(2))
    plan = planner(lines(file, ends=True, rows=1), tmp_path)
    assert [plan.latest(0), plan.latest(1), plan.latest(2)] == [1, 2, 2]
    assert [[part.ends for part in plan.parts(i, i + 1)] for i in range(2)] == [[False], [True]]


def test_a_source_can_end_without_anything_new(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(element(1))
    assert planner(lines(file), tmp_path).latest(0) == 1
    plan = planner(lines(file, ends=True), tmp_path)
    assert plan.latest(1) == 2
    assert [(part.splits, part.ends) for part in plan.parts(1, 2)] == [((), True)]
    assert planner(lines(file, ends=True), tmp_path).latest(2) == 2


def test_the_log_of_plans_stays_short(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.touch()
    source = lines(file)
    plan = planner(source, tmp_path)
    counts = []
    for number in range(90):
        with file.open("a") as out:
            out.write(element(number))
        assert plan.latest(number) == number + 1
        plan.commit(number + 1)
        counts.append(len(list((tmp_path / "plan").iterdir())))
    assert max(counts) < 50
    again = planner(source, tmp_path)
    assert again.latest(90) == 90
    assert values(again, source, 89, 90) == [[89]]


def test_a_missing_entry_is_named(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(element(1))
    plan = planner(lines(file), tmp_path)
    plan.latest(0)
    (tmp_path / "plan" / "1.json").unlink()
    with pytest.raises(EngineError, match="entry 1"):
        plan.parts(0, 1)


def test_an_unfinished_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not yet")
    with pytest.raises(StreamError, match="not a complete Parquet file") as raised:
        planner(tables(tmp_path / "a.parquet"), tmp_path).latest(0)
    assert "a.parquet" in raised.value.where


def test_few_rows_are_read_by_one_task() -> None:
    files = [f"{place}.parquet" for place in range(6)]
    units = [Unit(file, (FileSplit(file, 0, 1),), 40, Position(1)) for file in files]
    assert [len(share_units(units, 4, by_file=False, least=n)) for n in (1, 60, 100, 999)] == [
        4,
        4,
        2,
        1,
    ]
