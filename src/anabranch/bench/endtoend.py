"""From a row that a producer writes to a result that somebody can read, beside Spark's own."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.bench.checkout import spark_peers
from anabranch.bench.report import Form, Report
from anabranch.bench.spark_times import without_empty_batches
from anabranch.bench.warming import warm_up
from anabranch.engine import Engine
from anabranch.errors import EngineError

_EVERY: Final = 0.1
"""A file is written every so many seconds, with the rows of that time."""

_KEYS: Final = 100
_PATIENCE: Final = 120.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEndSize:
    """How much is measured: rates in rows per second, each for some seconds, and how often.

    The files of the first `warm_up` seconds do not count. Before anything does, both run up to
    `warm_ups` times at the first rate, until that is no faster than before.
    """

    rates: tuple[int, ...]
    seconds: float
    warm_up: float
    warm_ups: int
    repeats: int


SIZES: Final[Mapping[Form, EndToEndSize]] = {
    "full": EndToEndSize(
        rates=(1_000, 10_000, 100_000), seconds=20.0, warm_up=5.0, warm_ups=4, repeats=3
    ),
    "quick": EndToEndSize(rates=(1_000,), seconds=8.0, warm_up=5.0, warm_ups=0, repeats=1),
    "smoke": EndToEndSize(rates=(1_000,), seconds=0.5, warm_up=0.0, warm_ups=0, repeats=1),
}


@final
class Producer:
    """Writes rows into a folder at a rate, and knows when which file was there.

    The time of a row is the microsecond in which its file appears, so a result that has seen a
    time has seen all files up to then.
    """

    def __init__(self, folder: Path, rate: int) -> None:
        """Rows per second."""
        self._folder = folder
        self._rows = max(1, round(rate * _EVERY))
        self._random = np.random.default_rng(1)
        self.written: list[int] = []
        folder.mkdir(parents=True)

    def run(self, seconds: float) -> None:
        """Write for so long."""
        began = time.monotonic()
        for number in range(round(seconds / _EVERY)):
            self._write(len(self.written))
            time.sleep(max(0.0, began + (number + 1) * _EVERY - time.monotonic()))

    def _write(self, number: int) -> None:
        keys = self._random.integers(0, _KEYS, self._rows)
        hidden = self._folder / f".{number:06}.parquet"
        values = self._random.random(self._rows)
        now = time.time_ns() // 1000
        times = pa.array(np.full(self._rows, now), pa.timestamp("us"))
        pq.write_table(pa.table({"k": keys, "v": values, "ts": times}), hidden)
        hidden.rename(self._folder / f"{number:06}.parquet")
        self.written.append(now)


@final
class TimeReader:
    """Notes when which time could be read."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._seen: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def saw(self, latest: int | None) -> None:
        """A result has seen rows up to this microsecond."""
        now = time.time_ns() // 1000
        if latest is not None:
            with self._lock:
                self._seen.append((latest, now))

    def has_seen(self, instant: int) -> bool:
        """Whether somebody has read so far."""
        with self._lock:
            return any(latest >= instant for latest, _ in self._seen)

    def latencies(self, written: Sequence[int]) -> list[float]:
        """Seconds from the write of each file to the first result that has seen it."""
        found = []
        index = 0
        for instant in written:
            while index < len(self._seen) and self._seen[index][0] < instant:
                index += 1
            if index < len(self._seen):
                found.append((self._seen[index][1] - instant) / 1e6)
        return found


def endtoend(report: Report) -> None:
    """Count and maximum per key in windows of ten seconds, fed at several rates.

    Figures: per rate `p50_ms_<rate>` and `p99_ms_<rate>` of both; `p50_vs_spark` and
    `p99_vs_spark`, the worst over all rates.
    """
    size = SIZES[report.form]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    ratios: dict[str, list[float]] = {"p50": [], "p99": []}
    try:
        with Engine(report.spark) as engine:
            for who, watch in WAYS.items():
                speeds = warm_up(_speed(engine, root / f"warm-{who}", size, watch), size.warm_ups)
                for count, speed in enumerate(speeds):
                    report.measured(who, warm_up=count, p50_ms=round(1000 / speed, 1))
            for rate in size.rates:
                found: dict[str, dict[str, list[float]]] = {}
                for repeat in range(size.repeats):
                    for who, watch in WAYS.items():
                        work = root / f"{who}-{rate}-{repeat}"
                        times = _measure(engine, work, rate, size, watch)
                        shares = {
                            "p50": statistics.median(times),
                            "p99": float(np.quantile(times, 0.99)),
                        }
                        report.measured(
                            who,
                            rows_per_s=rate,
                            repeat=repeat,
                            files=len(times),
                            **{f"{name}_ms": round(s * 1000, 1) for name, s in shares.items()},
                        )
                        for name, value in shares.items():
                            found.setdefault(name, {}).setdefault(who, []).append(value)
                        shutil.rmtree(work, ignore_errors=True)
                for name, both in found.items():
                    median = {who: statistics.median(values) for who, values in both.items()}
                    for who, value in median.items():
                        report.figure(f"{who}_{name}_ms_{rate}", value * 1000)
                    ratios[name].append(median["anabranch"] / median["spark"])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for name, values in ratios.items():
        report.figure(f"{name}_vs_spark", max(values))


Watch = Callable[[Engine, Path, Path, TimeReader], Callable[[], None]]
"""Starts a query over a folder that tells a reader what it has seen; gives how to stop it."""


def _measure(
    engine: Engine, work: Path, rate: int, size: EndToEndSize, watch: Watch
) -> list[float]:
    producer, reader = Producer(work / "rows", rate), TimeReader()
    # The first file wakes everyone up; what counts begins when it has been read.
    producer.run(_EVERY)
    stop = watch(engine, work / "rows", work, reader)
    try:
        _await(lambda: reader.has_seen(producer.written[0]))
        producer.run(size.seconds)
        _await(lambda: reader.has_seen(producer.written[-1]))
    finally:
        stop()
    settled = producer.written[1] + size.warm_up * 1e6
    return reader.latencies([instant for instant in producer.written if instant >= settled])


def _speed(engine: Engine, root: Path, size: EndToEndSize, watch: Watch) -> Callable[[int], float]:
    """One over the median latency of a run with a number."""

    def run(number: int) -> float:
        return 1 / statistics.median(
            _measure(engine, root / str(number), size.rates[0], size, watch)
        )

    return run


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise EngineError(
                "the query has not read all that was written",
                where=f"within {_PATIENCE:.0f} seconds",
                hint="run the benchmark again on an idle machine",
            )
        time.sleep(0.01)


def _anabranch(engine: Engine, rows: Path, work: Path, reader: TimeReader) -> Callable[[], None]:
    stream = engine.stream(rows, name="rows", replace=True, start="ts", delay="1 second")
    query = (
        stream.window("10 seconds", slide="10 seconds")
        .group_by("k")
        .agg(n="COUNT(*)", latest="MAX(ts)")
    )

    def saw(elements: pa.Table, _batch: int) -> None:
        reader.saw(pc.max(elements.column("latest").cast(pa.int64())).as_py())

    run = query.start(foreach=saw, checkpoint=work / "checkpoint")
    return run.stop


def _spark(engine: Engine, rows: Path, work: Path, reader: TimeReader) -> Callable[[], None]:
    peers = spark_peers("endtoend")
    with without_empty_batches(engine.spark):
        query = peers.watched_tumbling(engine.spark, rows, work / "checkpoint", reader.saw)
    stop: Callable[[], None] = query.stop
    return stop


WAYS: Final[Mapping[str, Watch]] = {"spark": _spark, "anabranch": _anabranch}
"""Whose latency is measured."""
