"""Notes appear where an answer is surely not what was meant, and nowhere else."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine import Engine, Stream
from anabranch.language.text.read_statements import read_script
from anabranch.language.text.script import Script
from anabranch.language.text.statements import CreateSource
from anabranch.runtime.query.notes import LOGGER

ROWS = [{"k": 1, "v": 10, "at": 1}, {"k": 2, "v": 20, "at": 3}]
STREAMS = """
CREATE STREAM A (k INT, v INT, at BIGINT) SOURCE 'a.jsonl' ORDERED BY at KEEP {promise};
CREATE STREAM B (k INT, w INT, at BIGINT) SOURCE 'b.jsonl' ORDERED BY at KEEP {promise};
CREATE TABLE T (k INT, name STRING) SOURCE 't.csv';
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in (("a", "v"), ("b", "w")):
        rows = [{"k": row["k"], value: row["v"], "at": row["at"]} for row in ROWS]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.csv").write_text("k,name\n1,x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LOGGER, "disabled", False)
    return tmp_path


def query(sql: str, promise: str = "DELAY 5") -> Stream:
    """A query over two streams of points and a table."""
    found = Engine().sql(STREAMS.format(promise=promise) + sql)
    assert isinstance(found, Stream)
    return found


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT v, w FROM A JOIN B ON A.k = B.k", "a join without a window"),
        ("SELECT v, w FROM A LEFT JOIN B ON A.k = B.k", "a join without a window"),
        ("SELECT v FROM A WHERE EXISTS (SELECT 1 FROM B WHERE B.k = A.k)", "a join without"),
        (
            "SELECT v, w FROM A JOIN B ON A.k = B.k AND A.at BETWEEN B.at AND B.at + 5",
            "a join compares times",
        ),
        ("SELECT k, COUNT(*) FROM A GROUP BY k", "an aggregate without a window"),
        ("SELECT MAX(v) FROM (SELECT v FROM A WHERE v > 5)", "an aggregate without a window"),
        ("SELECT name, COUNT(*) FROM A JOIN T ON A.k = T.k GROUP BY name", "an aggregate without"),
        ("SELECT v FROM A ORDER BY v LIMIT 3", "the first rows without a window"),
        ("SELECT k FROM A EXCEPT ALL SELECT k FROM B", "a set operation without a window"),
        ("SELECT DISTINCT k FROM A", "DISTINCT without a window"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_query_about_single_instants_has_a_note(sql: str, what: str) -> None:
    found = query(sql)
    [note] = found.notes
    assert what in note
    assert "\n  hint: " in note
    assert f"note: {note}" in found.explain()
    assert found.explain_json()["notes"] == [note]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v FROM A WHERE v > 5",
        "SELECT v, w FROM A JOIN B WINDOW(RANGE 5) ON A.k = B.k",
        "SELECT v, w FROM A ASOF JOIN B ON A.k = B.k AND A.at >= B.at",
        "SELECT v, w FROM A LEFT ASOF JOIN B ON A.k = B.k AND A.at >= B.at",
        "SELECT v, name FROM A JOIN T ON A.k = T.k",
        "SELECT k, COUNT(*) FROM A WINDOW(RANGE 5) GROUP BY k",
        "SELECT k, COUNT(*) FROM A GROUP BY k, TUMBLING(5)",
        "SELECT k, COUNT(*) FROM TUMBLE(A, DESCRIPTOR(at), 5) GROUP BY k",
        "SELECT at, COUNT(*) FROM A GROUP BY at",
        "SELECT A.k, MAX(w) FROM A JOIN B WINDOW(RANGE 5) ON A.k = B.k GROUP BY A.k",
        "SELECT name, COUNT(*) FROM T GROUP BY name",
        "SELECT DISTINCT k FROM A WINDOW(RANGE 5)",
        "SELECT v FROM A WINDOW(RANGE 5) ORDER BY v LIMIT 3",
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_query_as_it_should_be_has_none(sql: str) -> None:
    for emit in ("speculative", "final"):
        assert query(sql).notes_on(emit) == ()


WINDOWED = "SELECT k, COUNT(*) FROM A WINDOW(RANGE 5) GROUP BY k"


@pytest.mark.usefixtures("folder")
def test_a_source_that_promises_nothing_has_a_note() -> None:
    found = query(WINDOWED, promise="")
    [growing] = found.notes
    assert "no delay is declared" in growing
    assert "source A" in growing
    [nothing] = found.notes_on("final")
    assert "nothing is ever written" in nothing
    # What remembers nothing does not grow.
    assert query("SELECT k FROM A", promise="").notes == ()
    assert len(query("SELECT k FROM A", promise="").notes_on("final")) == 1
    assert query(WINDOWED, promise="WITH (ends = TRUE)").notes_on("final") == ()
    lasting = query(WINDOWED, promise="HEARTBEAT 5 SECONDS CHRONON 1 SECOND")
    assert lasting.notes_on("final") == ()


@pytest.mark.usefixtures("folder")
def test_final_without_a_promise_really_writes_nothing() -> None:
    run = query(WINDOWED, promise="").run_local("memory", emit="final")
    assert run.table().num_rows == 0


def test_a_run_says_its_notes_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="anabranch.notes"):
        query("SELECT k, COUNT(*) FROM A GROUP BY k").run_local(str(folder / "out"))
    [said] = [record.getMessage() for record in caplog.records if record.name == LOGGER.name]
    assert said.startswith("note: an aggregate without a window")


@pytest.mark.parametrize("emit", ["speculative", "final"])
def test_the_command_line_says_them_on_standard_error(folder: Path, emit: str) -> None:
    (folder / "q.sql").write_text(STREAMS.format(promise="") + WINDOWED)
    ran = CliRunner().invoke(app, ["run", "q.sql", "--engine", "local", "--emit", emit])
    assert ran.exit_code == 0
    expected = "no delay is declared" if emit == "speculative" else "nothing is ever written"
    assert f"note: {'with' if emit == 'final' else 'no'}" in ran.stderr
    assert ran.stderr.count(expected) == 1
    assert "note" not in ran.stdout
    explained = CliRunner().invoke(app, ["explain", "q.sql", "--json"])
    assert [note.split(":")[0] for note in json.loads(explained.stdout)["notes"]] == [
        "no delay is declared"
    ]
    assert "note: no delay" in explained.stderr


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def write_sources(script: Path) -> None:
    """A file with one row for every source that a script declares."""
    for statement in read_script(Script(script.read_text())):
        if isinstance(statement, CreateSource) and statement.source.function is None:
            [place] = statement.source.arguments
            assert statement.columns is not None
            path = script.parent / str(place)
            path.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist([{}], statement.columns), path / "0.parquet")


@pytest.mark.parametrize("name", ["auction", "nexmark"])
def test_no_example_has_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder)
    monkeypatch.chdir(folder)
    for script in folder.glob("*streams.sql"):
        write_sources(script)
    count = 0
    for script in sorted(folder.glob("q*.sql")):
        for found in Engine().script(script.read_text(), name=str(script)):
            count += 1
            for emit in ("speculative", "final"):
                assert found.notes_on(emit) == (), script.name
    assert count >= 8
