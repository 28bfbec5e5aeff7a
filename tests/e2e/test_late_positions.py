"""On Spark, with several tasks per batch and restarts, rows are late by their positions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.late_sources import Outcome, effect_of, expected, moves_of, write_file

from anabranch.engine import Engine
from anabranch.model.elements import Element, Insert, Stable
from anabranch.runtime.query.run import Run

pytestmark = pytest.mark.spark

TIMES: Sequence[list[int]] = ([3, 1, 9], [4, 8, 5], [], [14, 6, 10], [9, 11, 20], [13, 17])
DELAY = 3


def rows() -> list[list[Element]]:
    return [[Insert({"a": n % 3}, t, t + 2) for n, t in enumerate(times)] for times in TIMES]


def elements() -> list[list[Element]]:
    """The same with explicit promises, which are sometimes broken."""
    found = rows()
    for number, time in ((0, 5), (2, 7), (3, 12), (5, 16)):
        found[number].insert(min(1, len(found[number])), Stable(time))
    return found


def whole(files: Sequence[Sequence[Element]]) -> list[Element]:
    return [each for file in files for each in file]


def run_in(engine: Engine, folder: Path, work: Path, **options: Any) -> Run:
    stream = engine.stream(folder, name="late_rows", replace=True, **options)
    run = stream.select("a").start(work, available_now=True)
    assert run.await_end(120)
    return run


@pytest.mark.parametrize(
    ("form", "content", "options"),
    [
        ("json", rows(), {"start": "t", "end": "u", "delay": DELAY}),
        ("parquet", rows(), {"start": "t", "end": "u", "delay": DELAY, "late": "adjust"}),
        ("lines", elements(), {}),
        ("elements", elements(), {"late": "adjust"}),
    ],
)
def test_late_rows_do_not_depend_on_batches_tasks_and_restarts(
    engine: Engine, tmp_path: Path, form: str, content: list[list[Element]], options: dict[str, Any]
) -> None:
    right = expected(whole(content), options.get("delay"), options.get("late", "drop"))
    assert right.late + right.adjusted > 1
    for per_batch in (6, 2):
        folder, work = tmp_path / f"in-{per_batch}", tmp_path / f"out-{per_batch}"
        folder.mkdir()
        metrics: list[dict[str, Any]] = []
        # The second life takes up what the first has promised.
        for files in (range(per_batch), range(per_batch, 6)):
            for number in files:
                write_file(folder / str(number), form, content[number], group=1)
            if files:
                run = run_in(engine, folder, work, max_files_per_batch=per_batch, **options)
                metrics += run.metrics()
        late, adjusted = (sum(batch[key] for batch in metrics) for key in ("late", "adjusted"))
        moves = [move for batch in run._sink.batches() for move in moves_of(batch)]
        assert Outcome(effect_of(moves), late, adjusted, int(run.stable)) == right
        assert len(metrics) == {6: 1, 2: 3}[per_batch]


def test_a_dataframe_says_that_its_rows_have_no_order(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text("".join(json.dumps({"a": 1, "t": t}) + "\n" for t in (9, 3)))
    frame = engine.spark.readStream.schema("a long, t long").json(str(folder))
    stream = engine.stream(frame, name="unordered", start="t", delay=1).select("a")
    note = "order of source 'unordered': none; lateness is decided per batch"
    assert note in stream.explain()
    assert any(note in each for each in stream.explain_json()["notes"])
    run = stream.start(available_now=True)
    assert run.await_end(120)
    (batch,) = run.metrics()
    assert (batch["late"], batch["sources"]["unordered"]["order"]) == (0, "none")
    still = engine.spark.read.schema("a long, t long").json(str(folder))
    sorted_rows = engine.stream(still, name="sorted_rows", start="t", delay=1, ends=True)
    assert "order of source 'sorted_rows': by start" in sorted_rows.explain()
    run = sorted_rows.start(available_now=True)
    assert run.await_end(120)
    assert [batch["late"] for batch in run.metrics()] == [0]
    assert "order of" not in engine.stream(still, name="no_promise", start="t").explain()
