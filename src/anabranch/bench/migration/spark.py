"""On Spark: a grouped window is migrated to another plan while it runs, by clip and by replay."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.bench.migration.answer import ComparedAnswer, compare_with_duckdb
from anabranch.bench.report import Report
from anabranch.engine import Engine
from anabranch.errors import PlanError
from anabranch.model.time import SECOND
from anabranch.runtime.query.run import Run

KEYS: Final = 1_000
_PATIENCE: Final = 60.0
_LOOK: Final = 0.02
_AFTER: Final = 4
_WINDOW: Final = "FROM Tick WINDOW(RANGE {size} SECONDS SLIDE {slide} SECONDS) GROUP BY key"
_OLD: Final = f"SELECT key, COUNT(*) AS n {_WINDOW}"
_NEW: Final = f"SELECT key, SUM(1) AS n {_WINDOW}"
"""Another plan for the same answer: sums of ones in place of counts, with state of its own."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMigrationSize:
    """How much is measured, in time of the stream.

    Attributes:
        rate: Rows per second.
        window: Seconds of the window that is migrated by clip.
        batch: Seconds per batch, and per slide of the window.
        before: Batches before the migration begins.
        trigger: Seconds of the clock between two batches; 0 is as fast as they go. A batch may
            cover more seconds of the stream: then this is faster than a live stream would be, and
            both the usual time between two batches and the longest are those of the clock.
        long_rate: Rows per second of the long window.
        long_window: Seconds of the window that is migrated by replay, an hour in full.
        long_batch: Seconds per batch there, and per slide.
        long_after: Batches there behind a full window: so long the replay may take.
    """

    rate: int
    window: int
    batch: int
    before: int
    trigger: float
    long_rate: int
    long_window: int
    long_batch: int
    long_after: int


@final
@dataclass(frozen=True, slots=True)
class TickFiles:
    """A folder of rows, one file per batch; row i comes at i / rate seconds."""

    folder: Path
    rate: int
    seconds: int

    @property
    def count(self) -> int:
        """How many batches are written."""
        return len(list(self.folder.glob("*.parquet")))

    def write(self, first: int, count: int) -> None:
        """Write some batches."""
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = self.rate * self.seconds
        for number in range(first, first + count):
            index = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
            table = pa.table(
                {
                    "key": pa.array((index * 7919 + index // 101) % KEYS, pa.int32()),
                    "at": pa.array(index // self.rate * SECOND, pa.timestamp("us")),
                }
            )
            # Whoever lists the folder sees the whole file or none.
            new = self.folder / f".{number:06}.new"
            pq.write_table(table, new, compression="snappy")
            new.rename(self.folder / f"{number:06}.parquet")


@final
@dataclass(frozen=True, slots=True)
class Migrated:
    """One migration of a running query.

    Attributes:
        how: By clip or by replay.
        usual: Seconds between two batches before it, the median.
        longest: Seconds between two batches, the longest from its request to its end.
        longest_after: Seconds from the request to the end of that.
        in_tasks: How many batches meanwhile did not run in the driver.
        both: Seconds between two batches while both plans ran, the median.
        switched: Seconds from the request to the first batch of the new plan.
        took: Seconds from the request to the last batch of the old one.
        stream_seconds: How far the stable point went meanwhile, in seconds of the stream.
        answer: What the log says, beside DuckDB.
    """

    how: str
    usual: float
    longest: float
    longest_after: float
    in_tasks: int
    both: float
    switched: float
    took: float
    stream_seconds: float
    answer: ComparedAnswer


def on_spark(report: Report, size: SparkMigrationSize, root: Path) -> None:
    """Both ways, and their figures."""
    report.measured("ticks", **asdict(size))
    replay: Migrated | None = None
    with _engine(report) as engine:
        clip = migrate_by_clip(engine, size, root / "clip")
        try:
            replay = migrate_by_replay(engine, size, root / "replay")
        except PlanError as refused:
            report.measured("refused", how="replay", reason=str(refused))
    both = [clip] if replay is None else [clip, replay]
    for each in both:
        report.measured(
            "spark",
            how=each.how,
            usual_s=round(each.usual, 3),
            longest_s=round(each.longest, 3),
            longest_after_s=round(each.longest_after, 3),
            in_tasks=each.in_tasks,
            both_s=round(each.both, 3),
            switched_s=round(each.switched, 3),
            took_s=round(each.took, 3),
            stream_s=round(each.stream_seconds, 1),
            instants=each.answer.instants,
            rows=each.answer.rows,
            lost=each.answer.lost,
            doubled=each.answer.doubled,
        )
    report.figure("longest_pause_over_batch", max(each.longest / each.usual for each in both))
    report.figure("lost", sum(each.answer.lost for each in both))
    report.figure("doubled", sum(each.answer.doubled for each in both))
    report.figure("duration_over_window", clip.stream_seconds / size.window)
    if replay is not None:
        report.figure("replay_vs_window", size.long_window / replay.took)


def migrate_by_clip(engine: Engine, size: SparkMigrationSize, work: Path) -> Migrated:
    """The old plan runs on until everything that it has seen has left its window."""
    ticks = TickFiles(work / "ticks", size.rate, size.batch)
    # T lies a window behind the newest row.
    ticks.write(0, size.before + size.window // size.batch + 12)
    return _migrate(engine, ticks, work, "clip", size.window, size.before, size.trigger)


def migrate_by_replay(engine: Engine, size: SparkMigrationSize, work: Path) -> Migrated:
    """The new plan reads again what is in the window, while the old one runs on."""
    ticks = TickFiles(work / "ticks", size.long_rate, size.long_batch)
    full = size.long_window // size.long_batch
    ticks.write(0, full + size.long_after)
    return _migrate(engine, ticks, work, "replay", size.long_window, full, size.trigger)


def _migrate(
    engine: Engine,
    ticks: TickFiles,
    work: Path,
    how: Any,
    window: int,
    before: int,
    trigger: float = 0.0,
) -> Migrated:
    engine.stream(
        ticks.folder,
        name="Tick",
        replace=True,
        start="at",
        delay="1 second",
        max_files_per_batch=1,
    )
    words = {"size": window, "slide": ticks.seconds}
    run = engine.sql(_OLD.format(**words)).start(
        to=work / "log",
        checkpoint=work / "state",
        trigger=f"{round(1000 * trigger)} milliseconds" if trigger else None,
    )
    log = work / "log" / "_log"
    with run:
        _wait(run, lambda: len(_times(log)) >= before)
        stable, asked, first = run.stable, time.time(), len(run.metrics())
        migration = run.migrate(engine.sql(_NEW.format(**words)), how=how)
        _wait(run, lambda: migration.state != "requested")
        switched = time.time()
        _wait(run, lambda: migration.state not in ("requested", "switched"))
        migration.await_finished(_PATIENCE)
        reached, ended = run.stable, time.time()
        # Some batches more, to see the new plan alone.
        last = len(_times(log)) + _AFTER
        _wait(run, lambda: len(_times(log)) >= min(last, ticks.count))
        in_tasks = sum(each["ran"] == "tasks" for each in run.metrics()[first:])
    times = _times(log)
    gaps = [(end, end - start) for start, end in pairwise(times)]
    # The first batches wait for processes to start.
    usual = [gap for end, gap in gaps[2:] if end <= asked] or [gaps[0][1]]
    during = [gap for end, gap in gaps if end > asked and end - gap < ended]
    longest, at = max((gap, end) for end, gap in gaps if end > asked and end - gap < ended)
    while_both = [gap for end, gap in gaps if end > switched and end <= ended] or during
    answer = compare_with_duckdb(work / "log", ticks.folder, window=window, slide=ticks.seconds)
    return Migrated(
        how=how,
        usual=statistics.median(usual),
        longest=longest,
        longest_after=at - asked,
        in_tasks=in_tasks,
        both=statistics.median(while_both),
        switched=switched - asked,
        took=ended - asked,
        stream_seconds=(reached - stable) / SECOND,
        answer=answer,
    )


def _wait(run: Run, done: Callable[[], bool]) -> None:
    """Look until something is done; a query that has failed says why.

    Raises:
        AnabranchError: The query has failed.
    """
    while not done():
        if run.status != "running":
            run.await_end()
            return
        time.sleep(_LOOK)


def _times(log: Path) -> list[float]:
    """When each batch was in the log."""
    if not log.exists():
        return []
    return sorted(path.stat().st_mtime for path in log.glob("[0-9]*.json"))


@contextmanager
def _engine(report: Report) -> Iterator[Engine]:
    if report.spark is not None:
        yield Engine(report.spark)
        return
    with Engine() as engine:
        yield engine
