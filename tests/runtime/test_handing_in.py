"""Corrections that are handed in: found in the archive, kept, and put into a batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.revisions.checkpoints import SCHEMA, add, checkpoint

from anabranch.errors import PlanError, StreamError
from anabranch.kernels.contract.command import FEED, Command
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Insert, batch_of, elements_of
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.revisions.archived_sources import (
    ArchivedSource,
    ArchivedSources,
    StoredFiles,
)
from anabranch.runtime.revisions.handing_in import hand_in
from anabranch.runtime.revisions.overview import correction_notes
from anabranch.runtime.revisions.submissions import SubmissionFolder
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece
from anabranch.runtime.sources.files.planned_parts import HANDED_IN, HANDED_IN_FOLDER, SourcePart
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit, read_split
from anabranch.runtime.sources.spec import ArchiveSpec, FileSource, Promise, Shape
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder


def fed(path: str, number: int) -> list[str]:
    folder = SubmissionFolder(f"{path}/revisions")
    (own,) = [each for each in folder.read() if each.number == number]
    return [str(each) for rows in folder.rows(own, SCHEMA) for each in elements_of(rows)]


def commands(path: str) -> list[Any]:
    return [note.content for note in ControlFolder(Folder.at(f"{path}/control")).notes()]


def test_what_names_one_row_becomes_elements_and_a_command(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    found = hand_in(path, "Bid", [{"replace": {"k": 2}, "with": {"v": "c"}, "start": 5}])
    assert (found.number, found.lines, found.rows, found.first, found.last) == (1, 1, 2, 5, 6)
    assert sorted(fed(path, 1)) == [
        'adjust {"k": 2, "v": "a"} from [5, 6) to [5, 5)',
        'insert {"k": 2, "v": "c"} [5, 6)',
    ]
    assert commands(path) == [{"verb": "feed", "source": "Bid", "value": 1}]


def test_the_rest_of_a_file_goes_on(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    lines = [
        '{"delete": {"v": "a"}, "start": 5}',
        "",
        "no JSON",
        '{"delete": {"k": 1}, "start": 7}',
        '{"insert": {"k": 9}, "start": 3, "end": "forever"}',
    ]
    file = tmp_path / "corrections.jsonl"
    file.write_text("\n".join(lines))
    found = hand_in(path, "Bid", str(file))
    assert [(each.line, each.text) for each in found.quarantined] == [(1, lines[0]), (3, lines[2])]
    assert "2 rows are like that" in found.quarantined[0].reason
    assert (found.lines, found.rows) == (4, 2)


def test_rows_that_were_delivered_twice_are_corrected_together(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    add(path, 1, batch_of([Insert((8, "x"), 5, 6), Insert((8, "x"), 5, 6)], SCHEMA))
    replace = {"replace": {"k": 8}, "with": {"v": "y"}, "start": 5}
    (refused,) = hand_in(path, "Bid", [replace]).quarantined
    assert refused.reason == (
        '2 rows are equal: add "all": true to replace all of them, or withdraw one with an adjust'
    )
    found = hand_in(path, "Bid", [{**replace, "all": True}])
    assert (found.lines, found.quarantined) == (1, ())
    assert sorted(fed(path, found.number)) == [
        'adjust {"k": 8, "v": "x"} from [5, 6) to [5, 5)',
        'adjust {"k": 8, "v": "x"} from [5, 6) to [5, 5)',
        'insert {"k": 8, "v": "y"} [5, 6)',
        'insert {"k": 8, "v": "y"} [5, 6)',
    ]
    deleted = hand_in(path, "Bid", [{"delete": {}, "start": 5, "all": True}])
    assert (deleted.quarantined, deleted.rows) == ((), 4)
    again = hand_in(path, "Bid", [{"delete": {"k": 8}, "start": 5, "all": True}])
    assert again.quarantined[0].reason == "there is no such row"


def test_all_is_true_or_false_and_not_for_inserts(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    lines = [{"delete": {"k": 1}, "start": 5, "all": 2}, {"insert": {}, "start": 5, "all": True}]
    reasons = [each.reason for each in hand_in(path, "Bid", lines).quarantined]
    assert reasons[0] == "'all' is 2, not true or false"
    assert reasons[1].startswith("'all' does not belong to 'insert'")


def test_all_in_quarantine_is_no_command(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    found = hand_in(path, "Bid", [{"delete": {"k": 5}, "start": 5}])
    assert (found.rows, len(found.quarantined)) == (0, 1)
    assert commands(path) == []
    (note,) = correction_notes(path)
    assert (note.state, note.line, note.reason) == ("quarantined", 1, "there is no such row")


def test_elements_and_tables_are_corrections(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    hand_in(path, "Bid", [Insert((4, "d"), 2, 3), Adjust((1, "a"), 5, 6, 5)])
    assert len(fed(path, 1)) == 2
    table = pa.table({"kind": ["insert"], "start": [4], "end": [9], "k": [7], "v": ["x"]})
    hand_in(path, "Bid", table)
    assert fed(path, 2) == ['insert {"k": 7, "v": "x"} [4, 9)']
    pq.write_table(table, tmp_path / "more.parquet")
    hand_in(path, "Bid", tmp_path / "more.parquet")
    assert fed(path, 3) == fed(path, 2)


def test_what_was_handed_in_counts_before_it_is_archived_and_once_afterwards(
    tmp_path: Path,
) -> None:
    path = checkpoint(tmp_path)
    delete = [{"delete": {"k": 1}, "start": 5}]
    assert not hand_in(path, "Bid", delete).quarantined
    assert hand_in(path, "Bid", delete).quarantined
    folder = SubmissionFolder(f"{path}/revisions")
    folder.committed(1, 1)
    # The batch is committed, but not in the archive yet.
    assert hand_in(path, "Bid", delete).quarantined
    add(path, 1, batch_of([Adjust((1, "a"), 5, 6, 5)], SCHEMA))
    assert hand_in(path, "Bid", delete).quarantined
    assert not hand_in(path, "Bid", [{"insert": {"k": 1, "v": "a"}, "start": 5}]).quarantined
    assert not hand_in(path, "Bid", delete).quarantined


def test_archives_by_reference_are_read_through_the_source(tmp_path: Path) -> None:
    path = str(tmp_path / "ck")
    file = tmp_path / "rows.json"
    file.write_text('{"k": 1, "v": "a", "t": 5}\n{"k": 2, "v": "a", "t": 5}\n')
    schema = pa.schema([*SCHEMA, ("t", pa.int64())])
    source = FileSource(
        promise=Promise(source="Bid", late="revise"),
        path=str(file),
        form="json",
        schema=schema,
        stored=schema,
        shape=Shape(start="t"),
    )
    stored = ArchivedSource(
        promise=source.promise, only_points=True, files=StoredFiles.of(source), start="t"
    )
    ArchivedSources(sources={"Bid": stored}).write(f"{path}/revisions")
    archive = Archive(Folder.at(f"{path}/archive/Bid"), source, ArchiveSpec())
    archive.create("Bid", schema, INTEGERS, copied=False)
    split = FileSplit(str(file), 0, file.stat().st_size)
    archive.add(ArchivedBatch(batch=0, pieces=(Piece(split, 5, 6, 2),), promised=5))
    found = hand_in(path, "Bid", [{"replace": {"k": 1}, "with": {"t": 9}, "start": 5}])
    assert not found.quarantined
    name = f"{path}/revisions/{HANDED_IN_FOLDER}/1.parquet"
    fed_file = FileSplit(name, 0, WHOLE, change="corrections")
    (moves,) = read_split(source, fed_file, ["k", "t"])
    assert sorted(map(str, elements_of(moves.batch))) == [
        'adjust {"k": 1, "t": 5} from [5, 6) to [5, 5)',
        'insert {"k": 1, "t": 9} [9, 10)',
    ]
    # The archive refers to the file, and later corrections see what it says.
    archive.add(ArchivedBatch(batch=1, pieces=(Piece(fed_file, 5, 10, 2),), promised=5))
    SubmissionFolder(f"{path}/revisions").committed(1, 1)
    again = hand_in(path, "Bid", [{"delete": {"k": 1}, "start": 9}, {"delete": {}, "start": 5}])
    assert not again.quarantined


def test_who_cannot_be_corrected_is_told(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, late="drop")
    with pytest.raises(PlanError, match="LATE DROP"):
        hand_in(path, "Bid", [])
    with pytest.raises(PlanError, match="did you mean 'Bid'"):
        hand_in(path, "Bit", [])
    with pytest.raises(PlanError, match="does not keep its past"):
        hand_in(str(tmp_path), "Bid", [])
    with pytest.raises(StreamError, match="cannot be read"):
        hand_in(checkpoint(tmp_path / "two"), "Bid", "nowhere.jsonl")


def planner(tmp_path: Path, path: str) -> FilePlanner:
    source = FileSource(
        promise=Promise(source="Other"),
        path=str(tmp_path / "none"),
        form="json",
        schema=SCHEMA,
        stored=SCHEMA,
        shape=Shape(start="k"),
    )
    return FilePlanner(
        [source],
        Folder.at(str(tmp_path / "plan")),
        2,
        control=ControlFolder(Folder.at(f"{path}/control")),
        others=["Bid"],
        corrections=f"{path}/revisions/{HANDED_IN_FOLDER}",
    )


def _handed_in(parts: Sequence[SourcePart]) -> list[SourcePart]:
    return [part for part in parts if part.handed_in]


def test_a_batch_that_is_planned_again_has_the_same_corrections(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    hand_in(path, "Bid", [{"insert": {"k": 9}, "start": 3}])
    hand_in(path, "Bid", [{"insert": {"k": 8}, "start": 3}])
    plan = planner(tmp_path, path)
    assert plan.latest(0) == 1
    parts = _handed_in(plan.parts(0, 1))
    assert [part.number for part in parts] == [HANDED_IN, HANDED_IN + 1]
    assert [Path(part.splits[0].path).name for part in parts] == ["1.parquet", "2.parquet"]
    # Whoever plans after a crash finds the batch as it was, and nothing else to do.
    again = planner(tmp_path, path)
    assert _handed_in(again.parts(0, 1)) == parts
    assert again.latest(1) == 1


def test_commands_to_feed_are_not_for_users(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    control = ControlFolder(Folder.at(f"{path}/control"))
    control.put(Command(verb=FEED, source="Nobody", value=1))
    assert planner(tmp_path, path).latest(0) == 0
    (note,) = control.notes()
    assert note.status == "refused"
    assert json.dumps(note.content)
