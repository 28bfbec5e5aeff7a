"""Log folders carry revisions, and queries read them as late rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.model.revised_streams import (
    Part,
    insert,
    meaning,
    revised_streams,
    revision,
    withdrawal,
)
from tests.model.test_revision_lines import as_values
from tests.runtime.revised_logs import answer_of, append_parts, written_log
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.errors import StreamError
from anabranch.merging.jumpstart import _alive, _newest_revision
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Stable, batch_of
from anabranch.model.files.stream_file import write_stream
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.runtime.sources.files.log_folder import LogFolder, write_revision
from anabranch.runtime.sources.files.units import START, Position, new_log_units

RUNNER = CliRunner()
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def batch(*elements: object) -> EventBatch:
    return batch_of(elements, revision(1, 0, 1).changes.schema)  # type: ignore[arg-type]


X = insert("x", 15, 40)
FIRST = revision(1, 20, 30, withdrawal("x", 20, 30), insert("y", 20, 30))
SECOND = revision(2, 5, 7, insert("z", 5, 7))
PARTS: list[Part] = [
    batch(X, Stable(30)),
    FIRST,
    SECOND,
    batch(insert("w", 33, 34), Stable(35)),
]


@given(parts=revised_streams())
@settings(suppress_health_check=SLOW, deadline=None)
def test_what_is_committed_is_read(
    tmp_path_factory: pytest.TempPathFactory, parts: list[Part]
) -> None:
    log = written_log(tmp_path_factory.mktemp("log"), parts)
    assert as_values(list(log.parts())) == as_values(parts)
    assert LogicalStream.of_batches(log.read()) == meaning(parts)
    found = [part for part in parts if isinstance(part, Revision)]
    assert [each.number for each in log.revisions()] == [each.number for each in found]


def test_revisions_stand_in_front_of_the_rows_of_their_batch(tmp_path: Path) -> None:
    log = written_log(tmp_path, PARTS)
    assert as_values(list(log.parts())) == as_values(PARTS)
    _, second = log.read()
    assert second.start.tolist() == [20, 20, 5, 33]
    assert second.stable == 35
    assert [entry.rows for entry in log.entries()] == [1, 1]
    assert len(log.files()) == 2


def test_a_revision_that_is_committed_again_counts_once(tmp_path: Path) -> None:
    log = written_log(tmp_path, PARTS)
    names = sorted(path.name for path in tmp_path.iterdir())
    again = [write_revision(str(tmp_path), 1, each, clock=INTEGERS) for each in (SECOND, FIRST)]
    log.commit(1, 35, log.entries()[1].files, again)
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert as_values(list(log.parts())) == as_values(PARTS)


def test_only_entries_with_revisions_have_the_new_format(tmp_path: Path) -> None:
    written_log(tmp_path, PARTS)
    first, second = (json.loads((tmp_path / "_log" / f"{n}.json").read_text()) for n in (0, 1))
    assert (first["format"], second["format"]) == (1, 2)
    assert "revisions" not in first
    assert json.loads((tmp_path / "_log" / "stream.json").read_text())["format"] == 1


@pytest.mark.parametrize("name", ["1.json", "stream.json"])
def test_a_later_format_is_refused(tmp_path: Path, name: str) -> None:
    log = written_log(tmp_path, PARTS)
    file = tmp_path / "_log" / name
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 3, "colour": "red"}))
    for read in (lambda: list(log.parts()), lambda: list(new_log_units(tmp_path, 2, START))):
        with pytest.raises(StreamError, match="the log has format 3") as no:
            read()
        assert no.value.where == str(file)
        assert "a later one" in (no.value.hint or "")


def test_a_reader_finds_revisions_before_the_rows_of_their_batch(tmp_path: Path) -> None:
    written_log(tmp_path, PARTS)
    _, unit = new_log_units(tmp_path, 2, START)
    assert [Path(split.path).name for split in unit.splits] == [
        "revision-000001.parquet",
        "revision-000002.parquet",
        "part-000001-000.parquet",
        "",
    ]
    assert (unit.rows, unit.after) == (4, Position(2))


def both(tmp_path: Path) -> list[Path]:
    """The same stream as a log, as lines and as Parquet."""
    written_log(tmp_path / "log", PARTS)
    for name in ("s.jsonl", "s.parquet"):
        write_stream(tmp_path / name, PARTS)
    return [tmp_path / "log", tmp_path / "s.jsonl", tmp_path / "s.parquet"]


def test_a_query_leaves_changes_out_if_it_drops_late_rows(tmp_path: Path) -> None:
    for source in both(tmp_path):
        assert answer_of(source, tmp_path) == (meaning(PARTS, known=0), 3)


def test_a_query_takes_nothing_of_changes_below_the_stable_point(tmp_path: Path) -> None:
    for source in both(tmp_path):
        assert answer_of(source, tmp_path, "adjust") == (meaning(PARTS, known=0), 3)


def test_a_query_that_must_not_have_late_rows_fails(tmp_path: Path) -> None:
    for source in both(tmp_path):
        with pytest.raises(StreamError, match="too late, after a stable point"):
            answer_of(source, tmp_path, "fail")


def test_commands_read_a_log_as_they_read_a_file(tmp_path: Path) -> None:
    log, lines, _ = map(str, both(tmp_path))

    def shown(*words: str) -> tuple[str, str]:
        done = RUNNER.invoke(app, [*words])
        return done.stdout, done.stderr.replace(log, "s").replace(lines, "s")

    for options in ([], ["--known", "1"], ["--at", "25"], ["--at", "6", "--known", "1"]):
        assert shown("show", log, *options) == shown("show", lines, *options)
    assert shown("check", log) == shown("check", lines)
    assert "legal; 2 inserts, 0 adjusts, 2 stables, 2 revisions" in shown("check", log)[1]
    assert RUNNER.invoke(app, ["diff", log, lines]).exit_code == 0
    done = RUNNER.invoke(app, ["show", log, "--known", "3"])
    assert "revision 3 does not exist" in done.stderr


def test_a_log_that_is_not_legal_is_found(tmp_path: Path) -> None:
    log = written_log(tmp_path, PARTS)
    append_parts(log, [revision(3, 1, 2, withdrawal("x", 1, 2))])
    done = RUNNER.invoke(app, ["check", str(tmp_path)])
    assert done.exit_code == 1
    assert "this payload does not hold at 1" in done.stdout


def test_a_reader_begins_at_the_first_entry_that_is_there(tmp_path: Path) -> None:
    log = LogFolder(str(tmp_path))
    log.create(FIRST.changes.schema, query="q", clock=INTEGERS)
    log.commit(4, 30, [])
    log.commit(5, 31, [])
    assert [unit.after for unit in new_log_units(tmp_path, 6, START)] == [Position(5), Position(6)]


def test_a_reader_that_finds_a_gap_says_so(tmp_path: Path) -> None:
    log = LogFolder(str(tmp_path))
    log.create(FIRST.changes.schema, query="q", clock=INTEGERS)
    for number in (0, 1, 3):
        log.commit(number, 30, [])
    units = new_log_units(tmp_path, 4, Position(1))
    assert next(units).after == Position(2)
    with pytest.raises(
        StreamError, match="batch 2 of the log was removed before it was read"
    ) as no:
        next(units)
    assert no.value.where == f"{tmp_path}; the next one that is there is 3"
    assert "new checkpoint" in (no.value.hint or "")


def test_a_jumpstart_takes_events_as_announced_and_counts_on(tmp_path: Path) -> None:
    log = written_log(tmp_path, PARTS)
    stable, events = _alive(log, 1)
    assert (stable, events.start.tolist(), events.new_end.tolist()) == (35, [15], [40])
    assert [_newest_revision(log, last) for last in (0, 1)] == [0, 2]
