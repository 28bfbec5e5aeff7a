"""`anabranch revise` and `anabranch revisions`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.revisions.checkpoints import checkpoint
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.model.clock import MICROSECONDS
from anabranch.runtime.revisions.records import CorrectionFolder, CorrectionRecord, EmittedStep
from anabranch.runtime.revisions.submissions import SubmissionFolder
from anabranch.runtime.store.folder import Folder

RUNNER = CliRunner()


def corrections(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "corrections.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines))
    return str(file)


def test_corrections_take_effect_in_the_next_batch(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    file = corrections(tmp_path, '{"delete": {"k": 2}, "start": 5}')
    done = RUNNER.invoke(app, ["revise", path, "Bid", file])
    assert done.exit_code == 0
    assert done.stderr == (
        "submission 1: 1 correction of source Bid takes effect in the next batch\n"
    )


def test_quarantine_is_told_and_is_exit_code_1(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    file = corrections(
        tmp_path, '{"delete": {"k": 2}, "start": 5}', '{"delete": {"v": "a"}, "start": 6}'
    )
    done = RUNNER.invoke(app, ["revise", path, "Bid", file])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[0] == "line 2 is in quarantine: there is no such row"
    again = RUNNER.invoke(app, ["revise", path, "Bid", file, "--json"])
    answer = json.loads(again.stdout)
    assert (answer["number"], answer["rows"], len(answer["quarantined"])) == (2, 0, 2)
    shown = RUNNER.invoke(app, ["revisions", path])
    assert shown.exit_code == 0
    assert "line 2 of submission 1: there is no such row" in shown.stdout


def test_a_source_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["revise", checkpoint(tmp_path), "Bids", corrections(tmp_path)])
    assert done.exit_code == 2
    assert "did you mean 'Bid'" in done.stderr


def test_times_may_be_timestamps(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, clock=MICROSECONDS)
    file = corrections(tmp_path, '{"delete": {"k": 2}, "start": "1970-01-01T00:00:00.000005"}')
    assert RUNNER.invoke(app, ["revise", path, "Bid", file]).exit_code == 0
    (note,) = map(json.loads, RUNNER.invoke(app, ["revisions", path, "--json"]).stdout.splitlines())
    assert note["span"] == ["1970-01-01T00:00:00.000005", "1970-01-01T00:00:00.000006"]
    assert note["state"] == "received"


def test_revisions_tell_what_was_needed_and_what_changed(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    file = corrections(tmp_path, '{"delete": {"k": 2}, "start": 5}')
    RUNNER.invoke(app, ["revise", path, "Bid", file])
    SubmissionFolder(f"{path}/revisions").committed(1, 4)
    step = EmittedStep(
        serial=1,
        upto=9,
        numbers=(3,),
        rows=(2,),
        committed=5,
        strategy="RW",
        answers=(5, 6),
        inputs={"Bid": (0, 10)},
        replayed=3,
        seconds=0.25,
    )
    record = CorrectionRecord(
        id=1,
        source="Bid",
        batch=4,
        rows=1,
        first=5,
        last=6,
        bound=9,
        status="committed",
        done=9,
        emissions=(step,),
        known_at=1,
    )
    CorrectionFolder(Folder.at(f"{path}/revisions")).write(record)
    head, line = RUNNER.invoke(app, ["revisions", path]).stdout.splitlines()
    assert "strategy" in head
    for part in ("[5, 6)", "[0, 10)", "RW", "committed", "revision 3 (2)", "0.25"):
        assert part in line
    (note,) = map(json.loads, RUNNER.invoke(app, ["revisions", path, "--json"]).stdout.splitlines())
    assert (note["handed_in"], note["changed"]) == ([1], [{"revisions": [3], "rows": 2}])


def test_a_query_without_corrections_has_none(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["revisions", checkpoint(tmp_path)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "no corrections\n"
