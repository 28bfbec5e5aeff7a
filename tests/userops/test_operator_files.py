"""Modules in a Python file: found, named in commands, sent to workers as code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.merging.replicate import replicate
from anabranch.userops.operator_files import operators_in

FILE = """
import dataclasses
import anabranch as ab
from anabranch import uda
from beside import FACTOR

print("loading")

@dataclasses.dataclass
class Pair:
    low: "float"
    high: "float"

@uda
def spread(values: list[float]) -> float:
    pair = Pair(min(values), max(values))
    return pair.high - pair.low

@ab.udf
def scaled(p: float) -> float:
    return FACTOR * p

class Total(ab.Aggregate[float]):
    def compute(self, values: list[float]) -> float:
        return sum(values)

@ab.udf
def _hidden(p: float) -> float:
    return p
"""
QUERY = "SELECT k, spread(scaled(p)) AS s, total(p) AS t FROM Bid GROUP BY k"
ANSWER = (
    '{"insert": {"k": 1, "s": 0.0, "t": 2.0}, "start": 5, "end": 6}\n'
    '{"insert": {"k": 1, "s": 4.0, "t": 6.0}, "start": 6, "end": 8}\n'
    '{"insert": {"k": 1, "s": 0.0, "t": 2.0}, "start": 8, "end": 9}\n'
    '{"stable": 12}\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\n")
    (tmp_path / "bids.jsonl").write_text(
        '{"insert": {"k": 1, "p": 2.0}, "start": 5, "end": 9}\n'
        '{"insert": {"k": 1, "p": 4.0}, "start": 6, "end": 8}\n'
        '{"stable": 12}\n'
    )
    source = tmp_path / "bids.jsonl"
    (tmp_path / "q.sql").write_text(
        f"CREATE STREAM Bid (k INT, p DOUBLE) SOURCE '{source}';\n{QUERY};\n"
    )
    return tmp_path


def test_everything_public_in_a_file_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [each.name for each in operators_in(folder / "mine.py")] == ["spread", "scaled", "total"]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "loading\n")
    assert not [name for name in sys.modules if name.startswith("anabranch_modules_")]
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        (None, "cannot be read", "No such file"),
        ("x = 1\n", "there are no modules in the file", "mine.py"),
        ("def f(:\n", "SyntaxError", "mine.py, line 1"),
        ("x = 1\n\nraise ValueError('no')\n", "ValueError: no", "mine.py, line 3"),
        ("import no_such_package\n", "ModuleNotFoundError", "mine.py, line 1"),
        ("raise SystemExit(3)\n", "SystemExit: 3", "mine.py, line 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_explained(
    tmp_path: Path, text: str | None, what: str, where: str
) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ab.OperatorError) as error:
        ab.Engine().register_file(tmp_path / "mine.py")
    assert what in error.value.what
    assert where in (error.value.where or "")
    assert error.value.hint


def test_a_name_that_is_taken_is_refused_unless_it_is_replaced(folder: Path) -> None:
    engine = ab.Engine()
    engine.register_file(folder / "mine.py")
    with pytest.raises(ab.PlanError, match="already"):
        engine.register_file(folder / "mine.py")
    engine.register_file(folder / "mine.py", replace=True)


def command(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anabranch", *words],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_take_files_with_modules(folder: Path) -> None:
    script, modules = str(folder / "q.sql"), str(folder / "mine.py")
    ran = command("run", script, "--engine", "local", "--modules", modules)
    assert (ran.returncode, ran.stdout) == (0, ANSWER), ran.stderr
    explained = command("explain", script, "--modules", modules)
    assert "spread" in explained.stdout, explained.stderr
    text = (folder / "q.sql").read_text()
    shell = command("shell", "--engine", "local", "--modules", modules, text=text)
    assert shell.returncode == 0, shell.stderr
    without = command("run", script, "--engine", "local")
    assert without.returncode != 0
    assert "there is no function" in without.stderr


def test_copies_of_a_query_get_the_same_files(folder: Path) -> None:
    made = replicate(folder / "q.sql", folder / "out", copies=2, modules=[folder / "mine.py"])
    for name, member in made.members.items():
        given = str(folder / "mine.py") in member.words
        assert given == (name != "merge")
    with pytest.raises(ab.PlanError, match="there is no file with modules"):
        replicate(folder / "q.sql", folder / "out", modules=[folder / "other.py"])


@pytest.mark.spark
def test_workers_get_the_code_of_the_file(folder: Path, spark: object) -> None:
    (folder / "mine.py").write_text(FILE.replace("from beside import FACTOR", "FACTOR = 2.0"))
    engine = ab.Engine(spark, shards=2)
    engine.register_file(folder / "mine.py")
    query = engine.sql((folder / "q.sql").read_text())
    run = query.start(to=folder / "log", checkpoint=folder / "checkpoint", available_now=True)
    run.await_end()
    shown = command("show", str(folder / "log")).stdout
    assert "2 events" not in shown
    assert [line.split() for line in shown.splitlines()][1:4] == [
        ["1", "0.0", "2.0", "5", "6", "yes"],
        ["1", "4.0", "6.0", "6", "8", "yes"],
        ["1", "0.0", "2.0", "8", "9", "yes"],
    ]
