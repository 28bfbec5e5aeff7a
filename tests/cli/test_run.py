"""What `run` is told, and what it refuses."""

from __future__ import annotations

from pathlib import Path

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
