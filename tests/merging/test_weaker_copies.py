"""Copies that promise less than a merge relies on are planned with a command, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import anabranch as ab
from anabranch.algebra.analysis.merge_case import CASES
from anabranch.kernels.contract.command import WEAKEN, Command
from anabranch.merging.logs import _relying
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.runtime.sources.files.planned_batch import read_entry
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.spec import FileSource, Limits
from anabranch.runtime.store.folder import Folder
from anabranch.stream import Stream
from tests.runtime.copies import SCHEMA

KEYED = LogProperties(keyed=True)
IN_ORDER = LogProperties(insert_only=True, keyed=True, order="start")


def write(path: Path, known: LogProperties | None, *batches: Sequence[Element]) -> None:
    """Add batches to a log that says this of itself."""
    log = LogFolder(str(path))
    log.create(SCHEMA, query=path.name, clock=INTEGERS, properties=known)
    first = len(log.entries())
    for number, elements in enumerate(batches, first):
        rows = batch_of(list(elements), SCHEMA)
        file = write_part(str(path), number, 0, rows, clock=INTEGERS)
        log.commit(number, int(rows.stable), [file])


def copies(folder: Path, known: LogProperties, *, weakens: bool = True) -> Stream:
    """The copies in a folder, as a merge reads them that began with copies of which that holds."""
    stream = _relying(ab.Engine().stream(str(folder), name="copies", copies=True), known)
    source = replace(stream.sources["copies"], weakens=weakens, limits=Limits(rows=1))
    return replace(stream, sources={"copies": source})


def planned(stream: Stream, plan: Path) -> tuple[FilePlanner, list[tuple[Command, ...]]]:
    """Everything there is as batches, and the commands of each."""
    source = stream.sources["copies"]
    assert isinstance(source, FileSource)
    folder = Folder.at(str(plan))
    planner = FilePlanner([source], folder, 1)
    found: list[tuple[Command, ...]] = []
    at = planner.latest(0)
    while at > len(found):
        entry = read_entry(folder, at)
        assert entry is not None
        found.append(tuple(each for each in entry.announced if each.verb == WEAKEN))
        at = planner.latest(at)
    return planner, found


def event(number: int) -> Insert:
    return Insert({"a": number % 7}, number, number + 5)


def test_the_batch_that_brings_a_weaker_copy_says_so_once(tmp_path: Path) -> None:
    folder, plan = tmp_path / "copies", tmp_path / "plan"
    write(folder / "a", IN_ORDER, [event(1), Stable(1)], [event(2), Stable(2)])
    stream = copies(folder, IN_ORDER)
    _, told = planned(stream, plan)
    assert [each for each in told if each] == []
    write(folder / "b", KEYED, [event(1), Stable(1)], [event(2), Stable(2)])
    _, told = planned(stream, tmp_path / "plan2")
    r3 = Command(verb=WEAKEN, source="copies", value=CASES.index("r3"))
    assert [each for each in told if each] == [(r3,)]
    # One of which nothing is known: nothing is weaker.
    write(folder / "c", None, [event(1), Stable(1)], [event(2), Stable(2)])
    _, told = planned(stream, tmp_path / "plan3")
    r4 = Command(verb=WEAKEN, source="copies", value=CASES.index("r4"))
    assert [each for each in told if each] == [(r4,)]


def test_operators_behind_a_merge_rely_on_its_case_and_the_copy_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    write(folder / "a", KEYED, [event(1), Stable(1)])
    write(folder / "b", None, [event(1), Stable(1)])
    planner, told = planned(copies(folder, KEYED, weakens=False), tmp_path / "plan")
    assert [each for each in told if each] == []
    problems = {name: copy.problem for name, copy in planner._books["copies"].copies.items()}
    assert problems == {
        "a": "",
        "b": "it may have two events of one payload and start, and the merge relies on that",
    }


@pytest.mark.parametrize("known", [KEYED, IN_ORDER])
def test_a_weaker_copy_takes_over(tmp_path: Path, known: LogProperties) -> None:
    """The first copy ends in the middle; the other one goes on, with other ends in between."""
    folder, dice = tmp_path / "copies", Random(7)
    history = [event(number) for number in range(60)]
    strong: list[list[Element]] = [[each, Stable(each.start)] for each in history[:35]]
    write(folder / "a", known, *strong)
    weak: list[list[Element]] = []
    for insert in history:
        wrong = insert.start + 1 + dice.randrange(9)
        moved: list[Element] = [Insert(insert.payload, insert.start, wrong)]
        if wrong != insert.end:
            moved.append(Adjust(insert.payload, insert.start, wrong, insert.end))
        # Twice, and one of them is taken back: no two are alike in the end.
        moved.append(Insert(insert.payload, insert.start, insert.end))
        moved.append(Adjust(insert.payload, insert.start, insert.end, insert.start))
        weak.append([*moved, Stable(insert.start + 1)])
    write(folder / "b", None, *weak)
    merged = copies(folder, known).merge()
    case = "r2" if known == IN_ORDER else "r3"
    assert f"Merge copies by {case}" in merged.explain()
    merged.run_local(to=tmp_path / "merged.jsonl")
    found = LogicalStream.of_batches(list(read_batches(tmp_path / "merged.jsonl")))
    expected = LogicalStream.of_batches([batch_of([*history, Stable(60)], SCHEMA)])
    assert found.difference(expected, 60) == ""
