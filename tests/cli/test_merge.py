"""`anabranch merge`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.merging import files
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Insert, batch_of
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Time
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part

RUNNER = CliRunner()
PHY1 = """{"insert": {"p": "B"}, "start": 8}
{"insert": {"p": "A"}, "start": 6, "end": 12}
{"adjust": {"p": "B"}, "start": 8, "end": "forever", "new_end": 10}
{"stable": 11}
{"stable": "forever"}
"""
PHY2 = """{"insert": {"p": "A"}, "start": 6, "end": 7}
{"insert": {"p": "B"}, "start": 8, "end": 15}
{"adjust": {"p": "A"}, "start": 6, "end": 7, "new_end": 12}
{"adjust": {"p": "B"}, "start": 8, "end": 15, "new_end": 10}
{"stable": "forever"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.jsonl").write_text(PHY1)
    (tmp_path / "b.jsonl").write_text(PHY2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def meaning(path: str) -> LogicalStream:
    return LogicalStream.of_batches(list(read_batches(path)))


@pytest.mark.parametrize("piece", [1, 2, 100_000])
@pytest.mark.parametrize("case", [None, "r3", "R4"])
@pytest.mark.parametrize(
    "policy",
    [[], ["--inserts", "quorum(2)"], ["--adjusts", "eager"], ["--lag", "3"]],
    ids=["usual", "quorum", "eager", "lag"],
)
def test_copies_become_one_stream(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    piece: int,
    case: str | None,
    policy: list[str],
) -> None:
    monkeypatch.setattr(files, "PIECE_ROWS", piece)
    words = ["merge", "a.jsonl", "b.jsonl", "--to", "out.jsonl", *policy]
    done = RUNNER.invoke(app, words + (["--case", case] if case else []))
    assert done.exit_code == 0, done.stderr
    assert meaning("out.jsonl").difference(meaning("a.jsonl")) == ""
    assert RUNNER.invoke(app, ["check", "out.jsonl"]).exit_code == 0
    assert (folder / "out.jsonl").read_text().endswith('{"stable": "forever"}\n')


def test_it_says_what_it_did(folder: Path) -> None:
    done = RUNNER.invoke(app, ["merge", "a.jsonl", "b.jsonl"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1] == {"stable": "forever"}
    assert done.stderr == (
        "standard output: 2 inserts, 0 adjusts out of 7 elements; stable point forever\n"
    )


@pytest.mark.parametrize(
    ("case", "what"),
    [
        ("r0", "adjusts, but is declared insert-only"),
        ("r2", "adjusts, but is declared insert-only"),
    ],
)
def test_a_case_that_does_not_hold_is_refused_with_input_and_element(
    folder: Path, case: str, what: str
) -> None:
    done = RUNNER.invoke(app, ["merge", "b.jsonl", "a.jsonl", "--case", case, "--to", "out.jsonl"])
    assert done.exit_code == 2
    assert what in done.stderr
    assert "input 'a.jsonl'" in done.stderr or "input 'b.jsonl'" in done.stderr
    assert "element ('" in done.stderr
    assert not (folder / "out.jsonl").exists()


def test_disorder_is_refused_where_order_is_declared(folder: Path) -> None:
    (folder / "c.jsonl").write_text(
        '{"insert": {"p": "B"}, "start": 8, "end": 9}\n'
        '{"insert": {"p": "A"}, "start": 6, "end": 7}\n'
    )
    done = RUNNER.invoke(app, ["merge", "c.jsonl", "--case", "r0"])
    assert done.exit_code == 2
    assert "input 'c.jsonl' goes back in time, after 8" in done.stderr
    assert "element ('A') [6, 7), merged as r0" in done.stderr


@pytest.mark.parametrize("case", ["r3", "r4"])
def test_copies_that_contradict_each_other_are_refused(folder: Path, case: str) -> None:
    (folder / "c.jsonl").write_text(PHY2.replace('"new_end": 12', '"new_end": 11'))
    words = ["merge", "a.jsonl", "c.jsonl", "--case", case, "--to", "out.jsonl"]
    done = RUNNER.invoke(app, words)
    assert done.exit_code == 2
    assert "contradicts what is settled" in done.stderr
    assert "('A') from 6" in done.stderr
    assert not (folder / "out.jsonl").exists()
    done = RUNNER.invoke(app, [*words, "--divergence", "quarantine"])
    assert done.exit_code == 0, done.stderr
    assert meaning("out.jsonl").difference(meaning("a.jsonl")) == ""


def test_copies_have_the_same_columns(folder: Path) -> None:
    (folder / "c.jsonl").write_text('{"insert": {"q": 1}, "start": 8, "end": 9}\n')
    done = RUNNER.invoke(app, ["merge", "a.jsonl", "c.jsonl"])
    assert done.exit_code == 2
    assert "'c.jsonl' has columns that differ from those of 'a.jsonl'" in done.stderr


def test_a_restarted_copy_repeats_itself_and_does_no_harm(folder: Path) -> None:
    (folder / "c.jsonl").write_text(PHY1 + PHY1)
    done = RUNNER.invoke(app, ["merge", "c.jsonl", "b.jsonl", "--to", "out.jsonl"])
    assert done.exit_code == 0, done.stderr
    assert meaning("out.jsonl").difference(meaning("a.jsonl")) == ""
    assert "c.jsonl: 3 elements before its own stable point" in done.stderr


def test_a_log_that_begins_in_the_middle_does_not_take_back_what_it_lacks(folder: Path) -> None:
    schema = pa.schema([("p", pa.string())])
    whole = [("A", 1, 3), ("B", 2, 9), ("C", 5, 7), ("D", 8, 12)]
    for name, since, events in (("whole", None, whole), ("late", 4, whole[1:])):
        log = LogFolder(str(folder / name))
        log.create(schema, query=name, clock=INTEGERS, since=since)
        batch = batch_of([Insert({"p": p}, s, e) for p, s, e in events], schema)
        log.commit(
            0, 20 if name == "late" else 6, [write_part(log.path, 0, 0, batch, clock=INTEGERS)]
        )
    done = RUNNER.invoke(app, ["merge", "whole", "late", "--to", "out.jsonl"])
    assert done.exit_code == 0, done.stderr
    assert "contradicts" not in done.stderr
    assert (
        meaning("out.jsonl").events()
        == LogicalStream.of(((p,), Time(s), Time(e)) for p, s, e in whole).events()
    )
    alone = RUNNER.invoke(app, ["merge", "late", "--to", "other.jsonl"])
    assert alone.exit_code == 0, alone.stderr
    assert "complete for events that end at 4 or later" in alone.stderr
