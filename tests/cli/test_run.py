"""What `run` is told, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app

SCRIPT = """
CREATE STREAM Bid (itemID INT, price DOUBLE) SOURCE 'bids.jsonl';
SELECT MAX(price) AS highest FROM Bid;
"""


def run(folder: Path, emit: str) -> tuple[int, str]:
    """The exit code, and what was said."""
    (folder / "bids.jsonl").write_text('{"insert": {"itemID": 1, "price": 8.0}, "start": 5}\n')
    (folder / "q.sql").write_text(SCRIPT)
    words = ["run", str(folder / "q.sql"), "--engine", "local", "--emit", emit]
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.stderr


@pytest.mark.parametrize("emit", ["speculative", "final"])
def test_results_leave_at_once_or_when_they_are_final(tmp_path: Path, emit: str) -> None:
    assert run(tmp_path, emit)[0] == 0


def test_watermark_emission_is_for_windows_of_the_time_axis(tmp_path: Path) -> None:
    code, said = run(tmp_path, "watermark")
    assert code == 2
    assert "PlanError: emission 'watermark' needs a window of the time axis" in said


@pytest.mark.parametrize(("words", "wanted"), [([], "off"), (["--reoptimize", "auto"], "auto")])
def test_the_engine_is_told_whether_plans_change_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], wanted: str
) -> None:
    told: list[Any] = []

    class ToldError(Exception):
        pass

    def engine(**options: Any) -> None:
        told.append(options["reoptimize"])
        raise ToldError

    monkeypatch.setattr("anabranch.engine.Engine", engine)
    (tmp_path / "q.sql").write_text(SCRIPT)
    CliRunner().invoke(app, ["run", str(tmp_path / "q.sql"), "--to", str(tmp_path / "x"), *words])
    assert told == [wanted]


def test_another_emission_is_refused_with_those_there_are(tmp_path: Path) -> None:
    code, said = run(tmp_path, "late")
    assert code == 2
    assert "PlanError: --emit must be one of speculative, final, watermark, not 'late'" in said


def test_a_stream_may_promise_a_number_and_then_forever(tmp_path: Path) -> None:
    lines = ['{"insert": {"itemID": 1, "price": 8.0}, "start": 5, "end": 6}', '{"stable": 7}']
    (tmp_path / "bids.jsonl").write_text("\n".join([*lines, '{"stable": "forever"}', ""]))
    (tmp_path / "q.sql").write_text(SCRIPT)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "q.sql"), "--engine", "local"])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        '{"insert": {"highest": 8.0}, "start": 5, "end": 6}',
        '{"stable": "forever"}',
    ]


PLANNED = """
CREATE STREAM Bid (itemID INT, price DOUBLE) SOURCE 'bids.jsonl';
SELECT itemID FROM
  (SELECT itemID, MAX(price) AS highest FROM Bid WINDOW(RANGE 5) GROUP BY itemID)
WHERE itemID = 1 AND highest > 5;
"""


def planned(folder: Path, command: str, *words: str) -> tuple[int, str, str]:
    """The exit code, the results, and what was said."""
    row = '{{"insert": {{"itemID": {0}, "price": {1}.0}}, "start": {2}, "end": {3}}}'
    rows = [row.format(n % 3, n, n, n + 1) for n in range(20)]
    (folder / "bids.jsonl").write_text("\n".join([*rows, '{"stable": "forever"}', ""]))
    (folder / "q.sql").write_text(PLANNED)
    done = CliRunner().invoke(app, [command, str(folder / "q.sql"), *words])
    return done.exit_code, done.stdout, done.stderr


def test_a_plan_as_written_gives_the_same_answer(tmp_path: Path) -> None:
    words = ("--engine", "local", "--emit", "final")
    best = planned(tmp_path, "run", *words)
    written = planned(tmp_path, "run", *words, "--plan", "as-written")
    assert best[0] == written[0] == 0
    assert '{"itemID": 1}' in best[1]
    assert sorted(best[1].splitlines()) == sorted(written[1].splitlines())


def test_a_plan_as_written_is_explained_without_rules(tmp_path: Path) -> None:
    best = planned(tmp_path, "explain", "--plan", "optimized")[1]
    assert "push_filter_below_aggregate" in best
    written = planned(tmp_path, "explain", "--plan", "as-written")[1]
    assert "Rules" not in written
    assert written.index("Filter itemID = 1 AND highest > 5") < written.index(
        "Aggregate max(price)"
    )
    final = planned(tmp_path, "explain", "--emit", "final")[1]
    assert "in order" in final.splitlines()[-1]


@pytest.mark.parametrize("command", ["run", "explain", "replicate"])
def test_another_plan_is_refused_with_those_there_are(tmp_path: Path, command: str) -> None:
    to = ("--to", str(tmp_path / "all")) if command == "replicate" else ()
    code, _, said = planned(tmp_path, command, "--plan", "best", *to)
    assert code == 2
    assert "PlanError: --plan must be one of optimized, as-written, not 'best'" in said
    assert "  option --plan\n  hint: " in said


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--from", "6", "--until", "9"], [(6, 7), (7, 8), (8, 9)]),
        (["--until", "2"], [(0, 1), (1, 2)]),
        (["--from", "18"], [(18, 19), (19, 20)]),
    ],
)
def test_a_backfill_has_the_answers_of_a_stretch(
    tmp_path: Path, words: list[str], found: list[tuple[int, int]]
) -> None:
    (tmp_path / "n.json").write_text("".join(f'{{"n": {n}, "t": {n}}}\n' for n in range(20)))
    (tmp_path / "q.sql").write_text("""
        CREATE STREAM S (n INT, t BIGINT) SOURCE 'n.json' ORDERED BY t DELAY 2 LATE REVISE;
        SELECT SUM(n) AS s FROM S;
    """)
    call = ["run", str(tmp_path / "q.sql"), "--engine", "local", *words]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    *lines, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["start"], line["end"]) for line in lines] == found
    assert last == {"stable": "forever"}
    assert f"{len(found)} rows read" in done.stderr
    wrong = CliRunner().invoke(app, [*call[:4], "--from", "soon"])
    assert wrong.exit_code == 2
    assert "answers from soon until None" in wrong.stderr
