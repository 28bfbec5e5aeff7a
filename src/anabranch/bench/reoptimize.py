"""A join order that was right and is wrong after the rates have changed corrects itself."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.adapt.decision import Reoptimize
from anabranch.bench.report import Form, Report
from anabranch.engine import Engine
from anabranch.model.record import plain
from anabranch.runtime.query.run import Run
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord

WINDOW: Final = 100
EARLY: Final[Mapping[str, int]] = {"A": 1, "B": 10, "C": 100}
LATER: Final[Mapping[str, int]] = {"A": 100, "B": 10, "C": 1}
"""Rows per chronon; what was rare becomes frequent, and the other way round."""

KEYS: Final = {"k": 100, "j": 2000}
"""Later, A and B have 2,000 pairs per chronon, B and C have one: the order decides the work."""
PATIENCE: Final = Reoptimize(factor=1.5, batches=6)
"""Some batches run with the wrong order before the query changes, so that they can be measured."""

QUERY: Final = f"""
    SELECT A.v AS a, B.v AS b, C.v AS c
    FROM A WINDOW(RANGE {WINDOW}), B WINDOW(RANGE {WINDOW}), C WINDOW(RANGE {WINDOW})
    WHERE A.k = B.k AND B.j = C.j
"""


@final
@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: chronons of a batch, batches before, measured, and at most between."""

    chronons: int
    early: int
    measured: int
    most: int


SIZES: Final[Mapping[Form, Size]] = {
    "full": Size(1000, 4, 7, 30),
    "quick": Size(500, 3, 4, 20),
    "smoke": Size(40, 2, 1, 30),
}


@final
class Feed:
    """Writes one file per stream and batch."""

    def __init__(self, folder: Path, chronons: int) -> None:
        """What is there already stays, and the next batch follows it."""
        self.folder = folder
        self._chronons = chronons
        for name in EARLY:
            (folder / name).mkdir(parents=True, exist_ok=True)
        # The last stream of a batch that is written.
        self.number: int = len(list((folder / name).glob("*.parquet")))

    def write(self, rates: Mapping[str, int]) -> int:
        """The rows of the next batch; how many there are."""
        begin = self.number * self._chronons
        rows = 0
        for seed, (name, rate) in enumerate(rates.items()):
            draw = np.random.default_rng([self.number, seed])
            count = rate * self._chronons
            table = {
                "k": draw.integers(0, KEYS["k"], count),
                "j": draw.integers(0, KEYS["j"], count),
                "v": draw.integers(0, 1_000_000, count),
                "at": begin + np.arange(count) // rate,
            }
            rows += count
            part = self.folder / f".{name}-{self.number}"
            pq.write_table(pa.table(table), part)
            part.rename(self.folder / name / f"{self.number:05}.parquet")
        self.number += 1
        return rows


def declare(engine: Engine, folder: Path, rates: Mapping[str, int] = EARLY) -> None:
    """The streams, with what is known of them when the query begins."""
    for name, rate in rates.items():
        engine.sql(
            f"CREATE STREAM {name} (k BIGINT, j BIGINT, v BIGINT, at BIGINT) "
            f"SOURCE '{folder / name}' ORDERED BY at DELAY 0 RATE {rate} "
            f"DISTINCT (k {KEYS['k']}, j {KEYS['j']}) WITH (max_files_per_batch = 1)"
        )


def reoptimize(report: Report) -> None:
    """Join three streams; the one that was slow becomes fast.

    Figures: `reoptimize_gain`, the time of a batch before the query has changed its plan over the
    time after, with the same rates; `change_batches`, after how many batches of the new rates the
    other plan ran alone; `planned_for_over_changed`, the time of a batch of a query that was
    planned for the new rates from the start over that of the changed one (1: as fast as that).
    """
    size = SIZES[report.form]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    try:
        with Engine(report.spark, shards=2, reoptimize=PATIENCE) as engine:
            taken = _changing(report, engine, root / "changing", size)
        with Engine(report.spark, shards=2) as engine:
            ideal = _planned(report, engine, root / "planned", size)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    before, after, batches = taken
    report.figure("reoptimize_gain", before / after)
    report.figure("change_batches", batches)
    report.figure("planned_for_over_changed", ideal / after)


def _changing(report: Report, engine: Engine, folder: Path, size: Size) -> tuple[float, float, int]:
    """The seconds of a batch before and after the change, and how many batches it took."""
    feed = Feed(folder, size.chronons)
    feed.write(EARLY)
    declare(engine, folder)
    run = engine.sql(QUERY).start("nothing", checkpoint=folder / "checkpoint")
    for _ in range(size.early):
        _step(report, run, feed, EARLY, "early")
    wrong: list[float] = []
    batches = 0
    while batches < size.most and not _is_changed(run):
        state = "changing" if _changes(run) else "wrong order"
        seconds = _step(report, run, feed, LATER, state)
        batches += 1
        if not _changes(run):
            wrong.append(seconds)
    assert wrong, "the query changed before a batch with the wrong order was measured"
    right = [_step(report, run, feed, LATER, "right order") for _ in range(size.measured + 1)]
    report.measured("changes", changes=[plain(each) for each in _changes(run)])
    run.stop()
    # The first batch of new rates meets windows of the old ones.
    return statistics.median(wrong[1:] or wrong), statistics.median(right[1:]), batches


def _planned(report: Report, engine: Engine, folder: Path, size: Size) -> float:
    """The seconds of a batch of a query that was planned for the later rates."""
    feed = Feed(folder, size.chronons)
    feed.write(LATER)
    declare(engine, folder, LATER)
    run = engine.sql(QUERY).start("nothing", checkpoint=folder / "checkpoint")
    taken = [_step(report, run, feed, LATER, "planned for") for _ in range(size.measured + 1)]
    run.stop()
    return statistics.median(taken[1:])


def _step(report: Report, run: Run, feed: Feed, rates: Mapping[str, int], state: str) -> float:
    """One more batch; the seconds until it is committed."""
    rows = feed.write(rates)
    began = time.perf_counter()
    run.drain()
    seconds = time.perf_counter() - began
    last = run.metrics()[-1]
    report.measured(
        "batch", plan=state, rows=rows, seconds=round(seconds, 3), stages=_times(last["stages"])
    )
    return seconds


def _times(stages: Mapping[str, Any]) -> dict[str, float]:
    return {name: each["seconds"].get("step", 0.0) for name, each in stages.items()}


def _changes(run: Run) -> Sequence[MigrationRecord]:
    """The changes of the query, oldest first."""
    records = MigrationFolder.of(run.execution.checkpoint).records()
    return [each for each in records if each.state != "refused"]


def _is_changed(run: Run) -> bool:
    found = _changes(run)
    return bool(found) and found[-1].state == "finished"
