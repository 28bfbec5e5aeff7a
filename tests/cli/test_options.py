"""Every option of every command: wrong values are refused, and nothing is ignored."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.cli.flags import RULES
from anabranch.runtime.query.options import RUN_OPTIONS

SCRIPT: Final = """
CREATE STREAM Bid (item INT) SOURCE 'bids.jsonl';
SELECT item FROM Bid;
"""

FREE: Final = {
    ("merge", "to"),
    ("run", "checkpoint"),
    ("merge", "checkpoint"),
    ("cutover", "checkpoint"),
    ("jumpstart", "checkpoint"),
    ("jumpstart", "new_checkpoint"),
    ("replicate", "to"),
    ("control", "copy"),
    ("nexmark", "to"),
    ("events", "to"),
    ("lmerge", "to"),
    ("demo", "folder"),
    ("bench", "plots"),
}
"""Options that take any text: names of files, folders and copies."""

NEGATIVE: Final = {("nexmark", "seed"), ("events", "seed"), ("lmerge", "seed")}
"""Numbers that may be negative."""

NEEDED: Final = {
    "run": ["q.sql"],
    "explain": ["q.sql"],
    "shell": ["q.sql"],
    "check": ["bids.jsonl"],
    "show": ["bids.jsonl"],
    "diff": ["bids.jsonl", "bids.jsonl"],
    "merge": ["bids.jsonl", "bids.jsonl"],
    "replicate": ["q.sql", "--to", "all"],
    "state": ["nowhere"],
    "archive": ["nowhere"],
    "control": ["nowhere"],
    "stop": ["nobody"],
    "jumpstart": ["a", "b"],
    "cutover": ["a", "b", "c"],
    "bench": ["tumbling"],
    "events": ["--to", "events"],
}
"""What a command cannot do without."""


def commands() -> Iterator[tuple[list[str], Any]]:
    """All commands, with the words that call them."""
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            yield from (([name, each], known) for each, known in command.commands.items())
        else:
            yield [name], command


def parameters() -> list[Any]:
    """All options that take a value."""
    found = []
    for words, command in commands():
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            if is_option and not parameter.is_flag and parameter.name != "help":
                found.append(pytest.param(words, parameter, id=f"{words[-1]} {parameter.opts[0]}"))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bids.jsonl").write_text('{"insert": {"item": 1}, "start": 5}\n{"stable": 6}\n')
    (tmp_path / "q.sql").write_text(SCRIPT)
    return tmp_path


def refused(words: list[str]) -> str:
    """What a command says that ends with 2, and without a stack trace."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, f"{words}: {done.exit_code}\n{done.output}"
    assert done.exception is None or isinstance(done.exception, SystemExit), words
    assert "Traceback" not in done.output
    return done.output


@pytest.mark.parametrize(("words", "parameter"), parameters())
def test_a_wrong_value_is_refused(folder: Path, words: list[str], parameter: Any) -> None:
    name = words[-1]
    if (name, parameter.name) in FREE:
        return
    call = [*words, *NEEDED.get(name, ()), parameter.opts[0]]
    # Options that go with others are tried beside them.
    if name == "run" and parameter.name == "trigger":
        call[1:1] = ["--follow"]
    if name == "merge" and parameter.name == "trigger":
        call[1:1] = ["--follow"]
    if (name, parameter.name) != ("run", "to"):
        refused([*call, "no such thing"])
    else:
        assert "cannot be written to" in refused([*call, "no:such thing"])
    if (name, parameter.name) not in NEGATIVE and parameter.type_descriptor.annotation in (
        int,
        float,
    ):
        refused([*call, "-1"])
    assert not (folder / "no such thing").exists()
    assert not (folder / "all").exists()


MEANINGLESS: Final = [
    (["run", "q.sql", "--engine", "local"], flag)
    for flag in (
        ["--follow"],
        ["--all", "--to", "x"],
        ["--changed"],
        ["--checkpoint", "c"],
        ["--trigger", "garbage"],
        ["--trigger", "1 s"],
        ["--shards", "2"],
        ["--metrics-port", "0"],
        ["--reoptimize", "auto"],
    )
] + [
    (["run", "q.sql", "--plan", "as-written"], ["--reoptimize", "auto"]),
    (["replicate", "q.sql", "--to", "all", "--plan", "as-written"], ["--reoptimize", "auto"]),
    (["run", "q.sql"], ["--trigger", "1 s"]),
    (["run", "q.sql"], ["--changed"]),
    (["run", "q.sql", "--until", "5"], ["--follow"]),
    (["archive", "x"], ["--before", "5"]),
    (["archive", "x", "--cut", "--before", "5"], ["--buckets"]),
    (["shell", "--engine", "local"], ["--allow-unbounded"]),
    (["explain", "q.sql", "--all"], ["--json"]),
    (["state", "x", "--quarantine"], ["--check"]),
    (["top", "--once"], ["--interval", "2"]),
    (["diff", "bids.jsonl", "bids.jsonl", "--json"], ["--limit", "2"]),
    (["merge", "bids.jsonl"], ["--feedback"]),
    (["merge", "bids.jsonl"], ["--trigger", "1 s"]),
    (["merge", "bids.jsonl"], ["--checkpoint", "c"]),
    (["control", "x", "pause", "Bid"], ["--json"]),
    (["control", "x"], ["--copy", "c"]),
    (["replicate", "q.sql", "q.sql", "--to", "all"], ["--copies", "2"]),
    (["generate", "lmerge"], ["--revisions", "2"]),
    (["generate", "nexmark", "--to", "x.parquet"], ["--stable-every", "5"]),
]


@pytest.mark.parametrize(("words", "flag"), MEANINGLESS)
def test_an_option_that_means_nothing_here_is_refused(
    folder: Path, words: list[str], flag: list[str]
) -> None:
    said = refused([*words, *flag])
    assert f"{flag[0]} has no meaning" in said
    assert f"option {flag[0]}" in said
    assert "hint: " in said
    assert {each.name for each in folder.iterdir()} == {"bids.jsonl", "q.sql"}


@pytest.mark.parametrize("flag", [["--revisions", "ignore"], ["--replay", "RA"]])
def test_options_of_revisions_are_refused_without_them(folder: Path, flag: list[str]) -> None:
    said = refused(["run", "q.sql", "--engine", "local", *flag])
    assert f"{flag[0].removeprefix('--')} has no meaning for sources without revisions" in said
    assert "LATE REVISE" in said
    (folder / "q.sql").write_text(SCRIPT.replace("jsonl';", "jsonl' LATE REVISE;"))
    done = CliRunner().invoke(app, ["run", "q.sql", "--engine", "local", *flag])
    assert done.exit_code == 0, done.output


def test_every_rule_is_tried_and_names_what_there_is() -> None:
    known = {words[-1]: {each.name for each in command.params} for words, command in commands()}
    for command, rules in RULES.items():
        for rule in rules:
            assert set(rule.names) <= known[command], command


def test_all_that_only_spark_has_is_refused_by_the_local_engine() -> None:
    """The table of options and the rules of the command say the same."""
    (local, *_) = RULES["run"]
    (run,) = (command for words, command in commands() if words == ["run"])
    flags = {each.opts[0] for each in run.params if each.name in local.names}
    spark = {each.flag for each in RUN_OPTIONS.values() if each.flag and not each.local}
    assert spark | {"--all"} == flags


WRONG_SOURCES: Final = [
    ("'s3://bucket/bids'", "StreamError: there are no files at 's3:'"),
    ("'kafka://broker/topic'", "StreamError: there are no files at 'kafka:'"),
    ("'nowhere.jsonl'", "StreamError: no such file or folder"),
    ("'broken.parquet'", "StreamError: "),
    ("'broken.jsonl'", "StreamError: "),
    ("'secret.jsonl'", "StreamError: "),
    ("what('x')", "QueryError: there is no source function 'what'"),
]


@pytest.mark.parametrize("head", ["SOURCE {} ORDERED BY at", "SOURCE {}"])
@pytest.mark.parametrize(("source", "said"), WRONG_SOURCES)
def test_what_cannot_be_read_is_told_in_three_parts(
    folder: Path, source: str, said: str, head: str
) -> None:
    (folder / "broken.parquet").write_bytes(b"PAR1 this is not Parquet")
    (folder / "broken.jsonl").write_bytes(b'{"item": 1, "at": \xff\x00')
    # A link to itself cannot be read even by those who may read everything.
    (folder / "secret.jsonl").symlink_to(folder / "secret.jsonl")
    (folder / "q.sql").write_text(
        f"CREATE STREAM b (item INT, at BIGINT) {head.format(source)}; SELECT item FROM b;"
    )
    output = refused(["run", "q.sql", "--engine", "local"])
    assert said in output
    assert "hint: " in output


def test_a_permission_that_is_missing_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scandir(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("anabranch.runtime.sources.files.listing.os.scandir", scandir)
    (folder / "in").mkdir()
    (folder / "q.sql").write_text("CREATE STREAM b SOURCE 'in' ORDERED BY at; SELECT * FROM b;")
    output = refused(["run", "q.sql", "--engine", "local"])
    assert "Permission denied" in output
    assert "hint: " in output


def test_a_bug_is_told_in_three_parts_and_shown_on_demand(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("what nobody thought of")

    monkeypatch.setattr("anabranch.engine.Engine.script", broken)
    call = ["run", "q.sql", "--engine", "local"]
    output = refused(call)
    assert "EngineError: an unexpected error occurred: ZeroDivisionError" in output
    assert "what nobody thought of" in output
    assert "--debug" in output
    assert "ANABRANCH_DEBUG=1" in output
    for words, environment in ((["--debug", *call], {}), (call, {"ANABRANCH_DEBUG": "1"})):
        done = CliRunner().invoke(app, words, env=environment)
        assert done.exit_code == 2
        assert "Traceback" in done.output
        assert "EngineError" in done.output


def test_a_function_of_a_user_that_fails_is_named(folder: Path) -> None:
    import anabranch as ab

    engine = ab.Engine()
    engine.register_source("archive", lambda day: day / 0)
    with pytest.raises(ab.OperatorError, match="archive failed: ZeroDivisionError") as raised:
        engine.sql("CREATE STREAM b SOURCE archive(1) ORDERED BY at")
    assert raised.value.where == "source 'b': archive(1)"
    with pytest.raises(ab.OperatorError, match="archive failed: TypeError"):
        engine.sql("CREATE STREAM b SOURCE archive(1, 2) ORDERED BY at")


def test_commands_that_need_no_spark_still_start_without_it() -> None:
    code = "import sys, anabranch.cli.app; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "False"


def test_the_table_of_commands_lists_all_of_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[`([^`]+)`\]\(#", page, re.MULTILINE))
    assert {" ".join(words) for words, _ in commands()} == listed
