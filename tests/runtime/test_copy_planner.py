"""Which copies of a stream there are, and what a batch takes of each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.copies import append_lines, append_log, copies_source, point

from anabranch.kernels.contract.command import Command
from anabranch.model.elements import Stable
from anabranch.runtime.sources.files.planned_parts import CopyNews
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import read_split
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder

Batch = dict[str, list[int]]


@pytest.fixture
def places(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def planner(source: FileSource, places: Path, parts: int = 2) -> FilePlanner:
    return FilePlanner([source], Folder.at(str(places.parent / "plan")), parts)


def values(plan: FilePlanner, source: FileSource, start: int) -> Batch:
    """What a batch reads of each copy, by name."""
    found: Batch = {}
    for part in plan.parts(start, start + 1):
        for split in part.splits:
            assert split.copy is not None
            own = found.setdefault(part.copies[split.copy].name, [])
            if split.path:
                pieces = read_split(source, split, ["a"])
                own += [v for piece in pieces for v in piece.batch.payload["a"].to_pylist()]
    return found


def drain(plan: FilePlanner, source: FileSource, start: int = 0) -> list[Batch]:
    found = []
    while (end := plan.latest(start)) > start:
        found.append(values(plan, source, start))
        start = end
    return found


def said(plan: FilePlanner, start: int) -> dict[int, CopyNews]:
    """What parts say of copies."""
    return {n: copy for part in plan.parts(start, start + 1) for n, copy in part.copies.items()}


def commands(plan: FilePlanner, start: int) -> list[Command]:
    return [command for part in plan.parts(start, start + 1) for command in part.commands]


def test_log_folders_and_stream_files_are_copies(places: Path) -> None:
    append_log(places / "a", [point(1), Stable(2)])
    append_lines(places / "b.jsonl", [point(1)])
    table = pa.table({"kind": ["insert"], "start": [1], "end": [2], "a": [1]})
    pq.write_table(table, places / "c.parquet")
    (places / "about.txt").write_text("no copy")
    (places / "_hidden.jsonl").write_text("no copy")
    (places / "folder").mkdir()
    for path in (places, places / "*"):
        source = copies_source(path)
        plan = FilePlanner([source], Folder.at(str(places.parent / f"plan-{path.name}")), 2)
        assert drain(plan, source) == [{"a": [1], "b.jsonl": [1], "c.parquet": [1]}]


def test_copies_are_called_by_what_a_pattern_leaves_open(places: Path) -> None:
    append_log(places / "x" / "out", [point(1)])
    append_log(places / "y" / "out", [point(1)])
    source = copies_source(places / "*" / "out")
    assert drain(planner(source, places), source) == [{"x/out": [1], "y/out": [1]}]


def test_copies_are_numbered_as_they_come_and_keep_their_number(places: Path) -> None:
    source = copies_source(places)
    plan = planner(source, places)
    assert plan.latest(0) == 0
    append_lines(places / "b.jsonl", [point(1)])
    assert plan.latest(0) == 1
    append_lines(places / "a.jsonl", [point(1)])
    plan = planner(source, places)
    assert plan.latest(1) == 2
    assert said(plan, 0) == {0: CopyNews("b.jsonl", "")}
    assert said(plan, 1) == {1: CopyNews("a.jsonl", "")}
    for number in range(2, 45):
        append_lines(places / "a.jsonl", [point(number)])
        assert plan.latest(number) == number + 1
        plan.commit(number + 1)
    # Their first entries are gone; a base knows them.
    assert Folder.at(str(places.parent / "plan")).read("1.json") is None
    append_lines(places / "0.jsonl", [point(1)])
    append_lines(places / "b.jsonl", [point(2)])
    again = planner(source, places)
    assert again.latest(45) == 46
    assert {n: copy.name for n, copy in said(again, 45).items()} == {0: "b.jsonl", 2: "0.jsonl"}


def test_a_copy_stays_in_one_part_in_its_own_order(places: Path) -> None:
    for name in "ab":
        for value in range(1, 7):
            append_log(places / name, [point(value), Stable(value)])
    plan = planner(copies_source(places), places, parts=5)
    plan.latest(0)
    parts = plan.parts(0, 1)
    assert [{split.copy for split in part.splits} for part in parts] == [{0}, {1}]
    stables = [[s.stable for s in part.splits if s.stable is not None] for part in parts]
    assert stables == [[1, 2, 3, 4, 5, 6]] * 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    rows=st.integers(1, 9),
    restart=st.integers(0, 4),
    logs=st.booleans(),
)
def test_every_copy_gets_its_share_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    rows: int,
    restart: int,
    logs: bool,
) -> None:
    places = tmp_path_factory.mktemp("it") / "in"
    for number, size in enumerate(sizes):
        for value in range(1, size + 1):
            if logs and number % 2:
                append_log(places / f"{number}", [point(value)])
            else:
                append_lines(places / f"{number}.jsonl", [point(value)])
    places.mkdir(exist_ok=True)
    source = copies_source(places, rows=rows)
    found = drain(planner(source, places), source)
    for number, batch in enumerate(found):
        left = [name for name in found[0] if any(name in later for later in found[number:])]
        assert set(left) <= set(batch), "a copy that has more waits while others are served"
        assert sum(map(len, batch.values())) <= max(rows, len(batch))
    for number, size in enumerate(sizes):
        names = (f"{number}", f"{number}.jsonl")
        got = [v for batch in found for name in names for v in batch.get(name, [])]
        assert got == list(range(1, size + 1))
    again = max(0, len(found) - restart)
    plan = planner(source, places)
    assert [values(plan, source, i) for i in range(again, len(found))] == found[again:]
    assert plan.latest(len(found)) == len(found)


def test_a_copy_that_is_gone_or_broken_stops_nobody(places: Path) -> None:
    append_log(places / "a", [point(1)])
    append_lines(places / "b.jsonl", [point(1)])
    source = copies_source(places)
    plan = planner(source, places)
    plan.latest(0)
    shutil.move(places / "a", places.parent / "kept")
    append_lines(places / "b.jsonl", [point(2)])
    (places / "c").mkdir()
    (places / "c" / "_log").mkdir()
    (places / "c" / "_log" / "stream.json").write_text("{")
    assert drain(plan, source, 1) == [{"b.jsonl": [2]}]
    about = said(plan, 1)
    assert about[0] == CopyNews("a", "it no longer exists")
    assert "is damaged" in (about[2].problem or "")
    # It comes back as it was, and goes on.
    shutil.move(places.parent / "kept", places / "a")
    append_log(places / "a", [point(2)])
    plan = planner(source, places)
    assert drain(plan, source, 2) == [{"a": [2]}]
    assert said(plan, 2) == {0: CopyNews("a", "")}
    assert commands(plan, 2) == []


@pytest.mark.parametrize("form", ["lines", "log"])
def test_a_copy_that_is_made_anew_begins_again(places: Path, form: str) -> None:
    name = "a.jsonl" if form == "lines" else "a"

    def write(*numbers: int, query: str = "q", since: int | None = None) -> None:
        elements = [point(number) for number in numbers]
        if form == "lines":
            append_lines(places / name, elements)
        else:
            about = {} if since is None else {"since": since}
            append_log(places / name, [*elements], query=query, about=about)

    source = copies_source(places)
    write(1, 2, 3)
    plan = planner(source, places)
    plan.latest(0)
    shutil.rmtree(places / name) if form == "log" else (places / name).unlink()
    write(7, query="another", since=7)
    plan = planner(source, places)
    assert drain(plan, source, 1) == [{name: [7]}]
    assert said(plan, 1)[0].restart is True
    since = 7 if form == "log" else None
    assert commands(plan, 1) == [Command(verb="attach", source="s", copy=name, value=since)]
    assert planner(source, places).latest(2) == 2


def test_a_copy_that_begins_later_is_announced(places: Path) -> None:
    append_log(places / "a", [point(1)], about={"since": 5})
    append_log(places / "b", [point(1)])
    plan = planner(copies_source(places), places)
    plan.latest(0)
    assert commands(plan, 0) == [Command(verb="attach", source="s", copy="a", value=5)]


def test_a_copy_with_other_columns_is_not_read(places: Path) -> None:
    append_lines(places / "a.jsonl", [point(1)])
    pq.write_table(pa.table({"kind": ["insert"], "start": [1], "a": ["x"]}), places / "b.parquet")
    source = copies_source(places)
    plan = planner(source, places)
    assert drain(plan, source) == [{"a.jsonl": [1]}]
    assert said(plan, 0)[1].problem == "its column 'a' is string, not int64"
    assert plan.latest(1) == 1


def test_what_comes_after_freezing_waits_for_the_next_run(places: Path) -> None:
    append_log(places / "a", [point(1)])
    source = copies_source(places)
    plan = planner(source, places)
    plan.freeze()
    append_log(places / "a", [point(2)])
    append_log(places / "b", [point(1)])
    assert drain(plan, source) == [{"a": [1]}]
    assert drain(planner(source, places), source, 1) == [{"a": [2], "b": [1]}]
