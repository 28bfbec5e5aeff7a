"""`show`, `diff` and `check` of streams with revisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anabranch.cli.app import app
from anabranch.model.files.stream_file import read_parts, write_stream

RUNNER = CliRunner()
STREAM = """{"insert": {"k": 1, "n": 3}, "start": 15, "end": 40}
{"stable": 30}
{"revise": 1, "from": 20, "to": 30, "changes": [
 {"adjust": {"k": 1, "n": 3}, "start": 20, "end": 30, "new_end": 20},
 {"insert": {"k": 1, "n": 4}, "start": 20, "end": 30}]}
{"insert": {"k": 2, "n": 9}, "start": 35, "end": 36}
{"revise": 2, "from": 5, "to": 7, "changes": [{"insert": {"k": 0, "n": 1}, "start": 5, "end": 7}]}
"""


def anabranch(*words: str | Path) -> Result:
    return RUNNER.invoke(app, [str(word) for word in words])


@pytest.fixture(params=["s.jsonl", "s.parquet"])
def stream(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(STREAM.replace("[\n", "[").replace(",\n ", ", "))
    write_stream(tmp_path / request.param, read_parts(lines))
    return Path(tmp_path / request.param)


def test_the_history_is_that_after_all_revisions(stream: Path) -> None:
    done = anabranch("show", stream)
    assert done.stdout == (
        "k  n  start  end  final\n"
        "0  1      5    7  yes\n"
        "1  3     15   20  yes\n"
        "1  4     20   30\n"
        "1  3     30   40\n"
        "2  9     35   36\n"
    )
    assert done.stderr == "5 events; stable point 30\n"


def test_what_was_known_earlier_can_be_shown(stream: Path) -> None:
    def shown(known: int) -> str:
        return anabranch("show", stream, "--known", str(known)).stdout

    assert shown(0) == "k  n  start  end  final\n1  3     15   40\n2  9     35   36\n"
    assert len(shown(1).splitlines()) == 5
    assert shown(2) == anabranch("show", stream).stdout
    assert anabranch("show", stream, "--at", "25").stdout == "k  n\n1  4\n"
    assert anabranch("show", stream, "--at", "25", "--known", "0").stdout == "k  n\n1  3\n"


def test_json_of_the_history_is_a_stream_without_revisions(stream: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_text(anabranch("show", stream, "--json").stdout)
    assert "revise" not in plain.read_text()
    assert anabranch("check", plain).exit_code == 0
    assert anabranch("diff", stream, plain).stderr == "equal: the same snapshot at every instant\n"
    at = anabranch("show", stream, "--at", "25", "--known", "1", "--json")
    assert at.stdout == '{"k": 1, "n": 4}\n'


def test_a_revision_that_does_not_exist_is_named(stream: Path) -> None:
    name = str(stream)
    for command in (["show", name], ["show", name, "--at", "3"], ["diff", name, name]):
        done = anabranch(*command, "--known", "3")
        assert done.exit_code == 2
        assert done.stderr == (
            f"StreamError: revision 3 does not exist\n  option --known, {stream}\n"
            "  hint: the newest is revision 2; 0 is before any\n"
        )
    assert anabranch("show", stream, "--known", "-1").exit_code == 2


def test_a_stream_without_revisions_has_no_first_one(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"insert": {"k": 1}, "start": 15}\n')
    assert anabranch("show", path, "--known", "0").exit_code == 0
    done = anabranch("show", path, "--known", "1")
    assert "hint: the stream has no revisions; 0 is before any" in done.stderr


def test_streams_are_compared_after_their_revisions(stream: Path, tmp_path: Path) -> None:
    before = tmp_path / "before.jsonl"
    before.write_text(anabranch("show", stream, "--known", "1", "--json").stdout)
    done = anabranch("diff", stream, before, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["instant"] == 5
    assert anabranch("diff", stream, stream, "--known", "1").exit_code == 0


def test_revisions_are_checked(stream: Path) -> None:
    done = anabranch("check", stream)
    assert done.exit_code == 0
    assert done.stderr == (
        f"{stream}: legal; 2 inserts, 0 adjusts, 1 stables, 2 revisions; stable point 30; "
        "2 events may still change\n"
    )
    assert json.loads(anabranch("check", stream, "--json").stdout)["revisions"] == 2


def test_a_revision_that_takes_away_too_much_is_found(stream: Path) -> None:
    wrong = stream.with_name("wrong.jsonl")
    lines = (stream.with_name("lines.jsonl")).read_text().replace('"start": 20', '"start": 14')
    wrong.write_text(lines.replace('"new_end": 20', '"new_end": 14').replace("20, ", "14, "))
    done = anabranch("check", wrong)
    assert done.exit_code == 1
    assert done.stdout == (
        f'{wrong}, line 3: adjust {{"k": 1, "n": 3}} from [14, 30) to [14, 14)\n'
        "  a revision takes away what is there; this payload does not hold at 14\n"
    )
    found = json.loads(anabranch("check", wrong, "--json").stdout)
    assert found["rule"] == "unknown-withdrawal"
    shown = anabranch("show", wrong)
    assert shown.exit_code == 2
    assert "hint: 'anabranch check' finds the revision that breaks a promise" in shown.stderr


def test_a_revision_of_what_is_open_is_found(stream: Path) -> None:
    wrong = stream.with_name("wrong.jsonl")
    wrong.write_text(
        (stream.with_name("lines.jsonl")).read_text().replace('"stable": 30', '"stable": 29')
    )
    done = anabranch("check", wrong, "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["element"] == {"revise": 1, "from": 20, "to": 30}
    assert (found["line"], found["rule"]) == (3, "unsettled-revision")


def test_the_merge_of_files_takes_every_revision_once(tmp_path: Path) -> None:
    lines = STREAM.replace("[\n", "[").replace(",\n ", ", ")
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(lines + '{"stable": "forever"}\n')
    done = anabranch("merge", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--to", tmp_path / "m")
    assert done.exit_code == 0
    assert "2 inserts, 0 adjusts, 2 revisions out of 8 elements; stable" in done.stderr
    assert anabranch("check", tmp_path / "m").exit_code == 0
    assert anabranch("diff", tmp_path / "a.jsonl", tmp_path / "m").exit_code == 0
