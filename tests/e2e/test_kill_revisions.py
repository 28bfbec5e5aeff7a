"""A query that is killed in the middle of a revision: each of them is in the output once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow.parquet as pq
import pytest
from tests.e2e.revised_queries import assert_legal
from tests.e2e.revised_query import CORRECTIONS, inputs, query, write_input
from tests.e2e.test_kill_driver import PATIENCE, kill, wait_for

from anabranch.engine import Engine
from anabranch.model.logical import LogicalStream
from anabranch.runtime.revisions.overview import correction_notes
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.phases import FORGETTING, HALT, HANDING_IN, PHASES, REVISING
from anabranch.testing import meaning

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("revised_query.py")

Moments: TypeAlias = Sequence[tuple[str, int]]
"""Steps, and in which correction or batch: each later than the one before."""

STEPS: Final = {
    "direct": [
        each for each in REVISING if each not in ("revision state written", "revision noted")
    ],
    "swap": list(REVISING),
    # Two corrections of one batch are exchanged as one, and the second one has the steps.
    "pair": list(REVISING),
}
"""By way, what a correction goes through; state is exchanged in the second and the third."""

QUICK: Final[Sequence[tuple[str, Moments]]] = (
    ("direct", [("revision computed", 1)]),
    ("swap", [("revision computed", 1), (FORGETTING, 1), ("revision committed", 3)]),
)


def campaign() -> Iterator[tuple[str, Moments]]:
    """Every step of a correction and of a batch twice in every way, in two orders.

    The first late rows come in batch 2; the batches behind it bring the revisions.
    """
    for way, steps in STEPS.items():
        each = 2 if way == "pair" else 1
        for turned in (steps, [*steps[3:], *steps[:3]]):
            half = (len(turned) + 1) // 2
            for part in (turned[:half], turned[half:]):
                yield way, [(step, each * number) for number, step in enumerate(part, 1)]
        for phases in (PHASES, (*PHASES[3:], *PHASES[:3])):
            yield way, [(phase, number) for number, phase in enumerate(phases[:6], 2)]
            yield way, [(phases[6], 4)]
    # Where the query runs on, it depends on how fast a replay is what comes in between.
    for step in REVISING:
        yield "running", [(step, 1)]
    yield "running", [("revision state written", 1), ("manifest written", 4), ("committed", 6)]


def name_of(way: str, moments: Moments) -> str:
    return ", ".join([way, *(f"{step}@{number}" for step, number in moments)])


def start(folder: Path, way: str, **environment: str) -> subprocess.Popen[bytes]:
    return _started([sys.executable, str(SCRIPT), str(folder), way], folder, **environment)


def _started(words: list[str], folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    with (folder / "said").open("ab") as log:
        return subprocess.Popen(
            words,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
            start_new_session=True,
        )


@pytest.mark.parametrize(
    ("way", "moments"),
    [
        *(pytest.param(*each, id=name_of(*each)) for each in QUICK),
        *(pytest.param(*e, id=name_of(*e), marks=pytest.mark.faults) for e in campaign()),
    ],
)
def test_a_killed_query_emits_every_revision_once(
    tmp_path: Path, way: str, moments: Moments
) -> None:
    write_input(tmp_path, way)
    said = tmp_path / "said"
    for number, (step, at) in enumerate(moments):
        halted = tmp_path / f"halted-{number}"
        # A correction is received once, and the next one may have been before the last kill.
        moment = "any" if number and step == REVISING[0] else at
        process = start(tmp_path, way, **{HALT: f"{step}@{moment}={halted}"})
        # A step that is never reached ends the test here: the query has ended too early.
        wait_for(process, halted.exists, said)
        kill(process)
    assert_ends_right(tmp_path, way)


def assert_ends_right(folder: Path, way: str, added: Sequence[tuple[int, int, int]] = ()) -> None:
    """A last run ends, and its log is legal and means what all rows and the added ones mean."""
    process = start(folder, way)
    assert process.wait(PATIENCE) == 0, (folder / "said").read_text()[-3000:]
    log = folder / "log"
    assert_legal(log)
    assert LogFolder(str(log)).revisions()
    # The state of the last exchange may be needed to repeat the last batch.
    assert len(list((folder / "checkpoint" / "revisions").glob("swap-*"))) <= 1
    rows = {
        name: [
            tuple(row.values())
            for file in sorted((folder / name).iterdir())
            for row in pq.read_table(file).to_pylist()
        ]
        for name in inputs(way)
    }
    rows["rows"] += added
    streams = {
        name: LogicalStream.of([(row, row[2], row[2] + 1) for row in own])
        for name, own in rows.items()
    }
    wanted = meaning(query(Engine(), folder, way).node, streams)
    found = LogicalStream.of_batches(LogFolder(str(log)).read())
    assert not found.difference(wanted, LogFolder(str(log)).stable())


@pytest.mark.parametrize("way", ["direct", pytest.param("swap", marks=pytest.mark.faults)])
def test_a_killed_command_hands_in_all_corrections_or_none(tmp_path: Path, way: str) -> None:
    """`anabranch revise` is killed after each of its steps; the query is not running."""
    write_input(tmp_path, way)
    assert start(tmp_path, way).wait(PATIENCE) == 0, (tmp_path / "said").read_text()[-3000:]
    checkpoint, lines = tmp_path / "checkpoint", tmp_path / "lines.jsonl"
    lines.write_text("".join(f"{json.dumps(line)}\n" for line in CORRECTIONS))
    command = [sys.executable, "-m", "anabranch", "revise", str(checkpoint), "rows", str(lines)]
    number = 1
    for step in HANDING_IN:
        halted = tmp_path / step
        halt = f"{step}@{number}={halted}"
        process = _started(command, tmp_path, **{HALT: halt})
        wait_for(process, halted.exists, tmp_path / "said")
        kill(process)
        # Before the submission is noted nothing has happened, and its number is free.
        number += step != HANDING_IN[0]
    noted = len(HANDING_IN) - 1
    rows = [(7, 70, 25), (7, 71, 55)] * noted
    assert_ends_right(tmp_path, way, rows)
    notes = [each for each in correction_notes(str(checkpoint)) if each.handed_in]
    assert {each.state for each in notes} <= {"committed", "direct"}
    assert sorted(n for each in notes for n in each.handed_in) == list(range(1, noted + 1))
