"""`anabranch shell`, as a real process: through a pipe and on a terminal."""

from __future__ import annotations

import os
import re
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import pytest

pytestmark = pytest.mark.commands

COMMAND = [sys.executable, "-m", "anabranch.cli.app", "shell"]
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\r\x08]")
BIDS = """{"insert": {"itemID": 1, "price": 80.0}, "start": 5, "end": 9}
{"adjust": {"itemID": 1, "price": 80.0}, "start": 5, "end": 9, "new_end": 7}
{"insert": {"itemID": 2, "price": 30.0}, "start": 6}
{"stable": 12}
"""
CREATE = "CREATE STREAM Bid (itemID INT, price DOUBLE) SOURCE 'bids.jsonl';\n"
HIGHEST = "SELECT itemID, MAX(price) AS highest\nFROM Bid WINDOW(RANGE 5) GROUP BY itemID;\n"
CREATED = "created stream Bid (itemID INT, price DOUBLE)\n"
ANSWER = """itemID  highest  start      end  final
     1     80.0      5       11  yes
     2     30.0      6  forever
2 events; stable point 12
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bids.jsonl").write_text(BIDS)
    return tmp_path


def piped(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a shell says, results and remarks in one."""
    return subprocess.run(
        [*COMMAND, "--engine", "local", *words],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "ANABRANCH_HOME": str(folder / "home")},
        check=False,
    )


def test_statements_from_a_pipe_run_one_after_the_other(folder: Path) -> None:
    done = piped(folder, f"{CREATE}{HIGHEST}\\at 8\n\\at\n")
    snapshot = "itemID  highest\n     1     80.0\n     2     30.0\n2 payloads at 8\n"
    last = "itemID  highest\n     2     30.0\n1 payload at 11\n"
    assert done.stdout == CREATED + ANSWER + snapshot + last
    assert done.returncode == 0


def test_statements_say_what_they_did(folder: Path) -> None:
    done = piped(
        folder,
        CREATE
        + "CREATE VIEW Dear AS SELECT * FROM Bid WHERE price > 50; SHOW VIEWS;\n"
        + "CREATE FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN x * 2;\n"
        + "DROP VIEW Dear; SHOW VIEWS; DESCRIBE Bid; SHOW QUERIES\n",
    )
    assert done.stdout == (
        CREATED + "created view Dear (itemID INT, price DOUBLE)\n"
        "name  kind  columns\n"
        "Dear  view  itemID INT, price DOUBLE\n"
        "created function twice\n"
        "dropped view Dear\n"
        "there are none\n"
        "column  type    remark\n"
        "itemID  INT\n"
        "price   DOUBLE\n"
        "there are none\n"
    )


def test_mistakes_do_not_end_the_shell(folder: Path) -> None:
    done = piped(
        folder,
        f"\\at 5\n{CREATE}SELECT prize FROM Bid;\nSELECT itemID FROM Bid WHERE;\nNONSENSE;\n"
        "\\tmiing\n\\i nothing.sql\n\\stop query_1\nSTOP query_1;\n\\watch\n"
        f"SELECT 'open;\n';\n{HIGHEST}",
    )
    assert done.returncode == 2
    mistakes = [line for line in done.stdout.splitlines() if line.startswith("QueryError: ")]
    assert mistakes[:2] == [
        "QueryError: there is no result yet",
        "QueryError: unknown column 'prize'",
    ]
    assert "hint: did you mean 'price'?" in done.stdout
    assert mistakes[-6:-1] == [
        "QueryError: there is no command '\\tmiing'",
        "QueryError: the script cannot be read",
        "QueryError: there is no query 'query_1'",
        "QueryError: there is no query 'query_1'",
        "QueryError: something is missing",
    ]
    assert done.stdout.endswith(ANSWER)
    assert "Traceback" not in done.stdout


def test_scripts_run_before_and_in_between(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "bids.jsonl").write_text(BIDS)
    (folder / "in" / "streams.sql").write_text(f"-- what there is\n{CREATE}")
    (folder / "in" / "wrong.sql").write_text("SHOW STREAMS;\n\nSHOW TABLES; SHOW NOTHING;")
    (folder / "bids.jsonl").unlink()
    done = piped(folder, f"{HIGHEST}\\i in/wrong.sql\n", "in/streams.sql")
    assert done.stdout.startswith(CREATED + ANSWER)
    assert "\n  in/wrong.sql, line 3, column 19:  " in done.stdout
    assert piped(folder, f"INCLUDE 'in/streams.sql';{HIGHEST}").stdout == CREATED + ANSWER
    (folder / "loop.sql").write_text("INCLUDE 'loop.sql';")
    assert "include each other in a cycle" in piped(folder, "\\i loop.sql").stdout


def test_a_query_can_write_to_a_file(folder: Path) -> None:
    done = piped(folder, f"{CREATE}\\to out.jsonl\n{HIGHEST}\\to -\n{HIGHEST}")
    assert done.stdout == (
        CREATED + "the next query writes to out.jsonl\n" + ANSWER + "the next query writes to -\n"
        '{"insert": {"itemID": 1, "highest": 80.0}, "start": 5, "end": 11}\n'
        '{"insert": {"itemID": 2, "highest": 30.0}, "start": 6}\n'
        '{"stable": 12}\n'
    )
    assert (folder / "out.jsonl").read_text().count("insert") == 2


def test_what_comes_after_leaving_is_not_read(folder: Path) -> None:
    for word in ("\\q", "exit", "quit;", "EXIT()"):
        assert piped(folder, f"{CREATE}{word}\n{HIGHEST}").stdout == CREATED


def test_explanations_help_and_timing_are_text(folder: Path) -> None:
    done = piped(folder, f"{CREATE}EXPLAIN SELECT itemID FROM Bid;\n\\timing\nSHOW TABLES;\\help\n")
    assert "\nPlan\n  Map itemID\n    Source Bid\n" in done.stdout
    assert re.search(r"^0\.\d\d s$", done.stdout, re.MULTILINE)
    assert "\\watch query [latest]  " in done.stdout


def test_an_unknown_engine_is_refused(folder: Path) -> None:
    done = piped(folder, "", "--engine", "flink")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        2,
        "PlanError: there is no engine 'flink'",
    )


@final
class Terminal:
    """A shell at the other end of a pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._keys, self._screen = process.stdin, process.stdout.fileno()
        self._seen = b""

    def type(self, text: str) -> None:
        self._keys.write(text.encode())
        self._keys.flush()

    def until(self, text: str, seconds: float = 60.0) -> str:
        """What comes up to a text, without the signs that move the cursor."""
        deadline = time.monotonic() + seconds
        while text.encode() not in (shown := ESCAPES.sub(b"", self._seen)):
            left = max(deadline - time.monotonic(), 0)
            ready, _, _ = select.select([self._screen], [], [], left)
            assert ready, f"no {text!r} in {shown!r}"
            self._seen += os.read(self._screen, 65536)
        before, found, rest = shown.partition(text.encode())
        self._seen = rest
        return (before + found).decode()


@contextmanager
def terminal(folder: Path) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    # Nobody answers here when a program asks where the cursor is.
    own = {"ANABRANCH_HOME": str(folder / "home"), "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    process = subprocess.Popen(
        [sys.executable, "-c", spawn, *COMMAND, "--engine", "local"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, **own},
    )
    with process:
        try:
            yield Terminal(process), process
        finally:
            process.kill()


def test_a_session_on_a_terminal(folder: Path) -> None:
    with terminal(folder) as (screen, process):
        assert "engine local" in screen.until("anabranch>")
        screen.type("CREATE STREAM Bid (itemID INT, price DOUBLE) SOURCE 'bi\t")
        screen.until("ds.jsonl")
        screen.type("';\r")
        screen.until(CREATED.strip())
        screen.until("anabranch>")
        # A name and a column are completed; Enter goes on in the next line until the semicolon.
        screen.type("SELECT * FROM B\t")
        screen.until("id")
        screen.type("\rWHERE pric\t")
        screen.until("e")
        screen.type(" < 50;\r")
        answer = screen.until("1 event; stable point 12")
        assert re.search(r"itemID +price +start +end +final", answer)
        assert re.search(r"\n +2 +30.0 +6 +forever", answer)
        screen.until("anabranch>")
        # Ctrl-C drops what was typed, a mistake is told, Ctrl-D leaves.
        screen.type("SELECT not")
        screen.until("not")
        screen.type("\x03")
        screen.until("anabranch>")
        screen.type("SHOW NOTHING;\r")
        screen.until("QueryError: SHOW what? Name a list that exists")
        screen.until("anabranch>")
        screen.type("\x04")
        assert process.wait(30) == 0
    history = folder / "home" / "history"
    assert "WHERE price < 50;" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_the_prompt_is_there_before_the_engine(folder: Path) -> None:
    code = (
        "import sys\n"
        "import anabranch.cli.shell.command, anabranch.cli.shell.session\n"
        "import anabranch.cli.shell.complete, anabranch.cli.shell.keys\n"
        "for name in ('pyarrow', 'numpy', 'sqlglot', 'pyspark'):\n"
        "    assert name not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder)
