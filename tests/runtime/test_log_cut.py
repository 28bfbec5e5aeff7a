"""The beginning of a log can be removed, and what is left is a stream."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model.revised_streams import (
    SCHEMA,
    Part,
    insert,
    meaning,
    revised_streams,
    revision,
    withdrawal,
)
from tests.runtime.revised_logs import answer_of, append_parts, written_log
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.cli.streams import opened
from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Stable, batch_of
from anabranch.model.legality import LegalityChecker, Violation
from anabranch.model.logical import LogicalStream
from anabranch.model.settled import withdrawn_payloads
from anabranch.runtime.sources.files.copies import measure
from anabranch.runtime.sources.files.log_cut import cut_log
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.units import START, Position, log_size, new_log_units
from anabranch.runtime.store.folder import LocalFolder

RUNNER = CliRunner()
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def batch(*elements: Element) -> EventBatch:
    return batch_of(elements, SCHEMA)


def violations(log: LogFolder) -> list[Violation]:
    """What `anabranch check` finds."""
    with opened(log.path) as [source]:
        form = source.describe()
        pieces = list(source.pieces(form))
    checker = LegalityChecker(
        withdrawn=withdrawn_payloads(pieces), since=form.since, revised=form.revised
    )
    return [broken for piece in pieces for broken in checker.feed(piece, 9)]


def from_on(stream: LogicalStream, since: int) -> LogicalStream:
    """The snapshots from an instant on."""
    events = ((payload, max(start, since), end) for payload, start, end in stream.events())
    return LogicalStream.of(event for event in events if event[1] < event[2])


def said(log: LogFolder, since: int) -> LogicalStream:
    """What commands say of the snapshots from an instant on."""
    with opened(log.path) as [source]:
        return from_on(LogicalStream.of_batches(source.moves(source.describe())), since)


@given(
    first=revised_streams(most=20),
    cuts=st.lists(st.integers(0, 20), min_size=1, max_size=3),
)
@settings(suppress_health_check=SLOW, deadline=None)
def test_what_is_left_is_a_legal_stream_with_the_same_snapshots(
    tmp_path_factory: pytest.TempPathFactory, first: list[Part], cuts: list[int]
) -> None:
    log = written_log(tmp_path_factory.mktemp("log"), first)
    stable = log.stable()
    for before in cuts:
        entries = log.entries()
        since = cut_log(log.path, before)
        if since is None:
            assert all(not -(2**63) < entry.stable <= before for entry in entries[:-1])
        else:
            assert since <= before
            about = log.record()
            assert about is not None
            assert about.since == since
        assert violations(log) == []
        known = log.record()
        begins = known.since if known and known.since is not None else -1
        assert said(log, begins) == from_on(meaning(first), begins)
        assert log.stable() == stable


FIRST: list[Part] = [
    batch(insert("x", 1, 40), insert("y", 1, 5), Stable(10)),
    revision(1, 2, 3, withdrawal("y", 2, 3)),
    batch(insert("z", 12, 13), Stable(20)),
    batch(Adjust({"a": "x"}, 1, 40, 30), insert("z", 21, 29), Stable(25)),
    revision(2, 15, 24, withdrawal("x", 15, 24)),
    batch(Stable(28)),
]


def test_events_that_are_not_over_are_kept_as_announced(tmp_path: Path) -> None:
    log = written_log(tmp_path, FIRST)
    assert cut_log(str(tmp_path), 22) == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "_log",
        "base-000001.parquet",
        "part-000002-000.parquet",
        "revision-000002.parquet",
    ]
    assert sorted(path.name for path in (tmp_path / "_log").iterdir()) == [
        "2.json",
        "3.json",
        "stream.json",
    ]
    begin = next(log.parts())
    assert isinstance(begin, EventBatch)
    assert (begin.start.tolist(), begin.new_end.tolist(), begin.stable) == ([1], [40], 20)
    about = log.record()
    assert about is not None
    assert (about.format, about.since, about.revised) == (2, 20, 1)
    assert measure(tmp_path).since == 20
    assert violations(log) == []


def test_nothing_is_removed_before_it_is_settled(tmp_path: Path) -> None:
    log = written_log(tmp_path, FIRST)
    before = sorted(tmp_path.rglob("*"))
    assert cut_log(str(tmp_path), 9) is None
    assert sorted(tmp_path.rglob("*")) == before
    assert cut_log(str(tmp_path), 100) == 25
    # The newest entry stays: its batch may be committed once more.
    assert [entry.batch for entry in log.entries()] == [3]
    assert cut_log(str(tmp_path), 100) is None
    with pytest.raises(StreamError, match="not a log folder"):
        cut_log(str(tmp_path / "x"), 3)


def test_a_log_goes_on_after_it_was_cut(tmp_path: Path) -> None:
    log = written_log(tmp_path, FIRST)
    cut_log(str(tmp_path), 25)
    more: list[Part] = [
        revision(3, 10, 27, insert("q", 10, 27)),
        batch(Adjust({"a": "x"}, 1, 30, 33), Stable(31)),
    ]
    append_parts(log, more)
    assert violations(log) == []
    assert said(log, 25) == from_on(meaning([*FIRST, *more]), 25)
    log.create(SCHEMA, query="q", clock=log.about()[1])
    assert log.stable() == 31


def test_commands_say_since_when_a_log_is_complete(tmp_path: Path) -> None:
    written_log(tmp_path / "whole", FIRST)
    log = written_log(tmp_path / "log", FIRST)
    cut_log(log.path, 22)
    shown = RUNNER.invoke(app, ["show", log.path])
    assert shown.stdout.splitlines() == [
        "a  start  end  final",
        "x      1   20  yes",
        "z     21   29",
        "x     24   30",
    ]
    assert shown.stderr == "3 events; stable point 28; complete from 20 on\n"
    at = RUNNER.invoke(app, ["show", log.path, "--at", "19"])
    assert at.exit_code == 2
    assert "the snapshot at 19 is no longer in the log" in at.stderr
    assert "hint: it is complete from 20 on" in at.stderr
    assert RUNNER.invoke(app, ["show", log.path, "--at", "20"]).exit_code == 0
    known = RUNNER.invoke(app, ["show", log.path, "--at", "20", "--known", "0"])
    assert known.stdout == "a\nx\n"
    assert RUNNER.invoke(app, ["check", log.path]).exit_code == 0
    same = RUNNER.invoke(app, ["diff", log.path, str(tmp_path / "whole")])
    assert same.stderr == "equal: the same snapshot at every instant from 20 on\n"


def test_a_new_query_begins_with_the_base(tmp_path: Path) -> None:
    written_log(tmp_path / "log", FIRST)
    cut_log(str(tmp_path / "log"), 22)
    answer, _ = answer_of(tmp_path / "log", tmp_path)
    assert from_on(answer, 20) == from_on(meaning(FIRST, known=0), 20)


def test_a_reader_that_was_further_goes_on(tmp_path: Path) -> None:
    written_log(tmp_path, FIRST)
    expected = [unit.splits for unit in new_log_units(tmp_path, 4, Position(2))]
    cut_log(str(tmp_path), 22)
    assert [unit.splits for unit in new_log_units(tmp_path, 4, Position(2))] == expected
    assert [unit.after.offset for unit in new_log_units(tmp_path, 4, START)] == [2, 3, 4]
    with pytest.raises(StreamError, match="batch 1 of the log was removed before it was read"):
        list(new_log_units(tmp_path, log_size(tmp_path), Position(1)))


class PowerCutError(Exception):
    """The process dies here."""


@pytest.mark.parametrize("after", range(9))
def test_a_cut_that_is_interrupted_changes_nothing_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    log = written_log(tmp_path / "log", FIRST)
    shutil.copytree(tmp_path / "log", tmp_path / "finished")
    cut_log(str(tmp_path / "finished"), 22)
    expected = from_on(meaning(FIRST), 20)
    left = after
    write, remove = LocalFolder.write, LocalFolder.remove

    def counted() -> None:
        nonlocal left
        if not left:
            raise PowerCutError
        left -= 1

    def dying_write(self: LocalFolder, name: str, data: bytes, *, mark: str = "") -> None:
        counted()
        write(self, name, data, mark=mark)

    def dying_remove(self: LocalFolder, name: str) -> None:
        counted()
        remove(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFolder, "write", dying_write)
        patch.setattr(LocalFolder, "remove", dying_remove)
        with suppress(PowerCutError):
            cut_log(log.path, 22)
    assert said(log, 20) == expected
    assert violations(log) == []
    answer, _ = answer_of(log.path, tmp_path)
    assert from_on(answer, 20) == from_on(meaning(FIRST, known=0), 20)
    cut_log(log.path, 22)
    names = [
        sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        for root in (tmp_path / "log", tmp_path / "finished")
    ]
    assert names[0] == names[1]
    abouts = [
        json.loads((tmp_path / n / "_log/stream.json").read_text()) for n in ("log", "finished")
    ]
    assert abouts[0] == abouts[1]
