"""Time per batch while the state grows: the same batch over more and more live events."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.bench.report import Form, Report
from anabranch.bench.rows import write_rows
from anabranch.bench.warming import warm_up
from anabranch.engine import Engine


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthSize:
    """How much is measured.

    Attributes:
        live: The live events of each state, from the smallest to the largest.
        batch: Rows of a batch that is measured.
        batches: How many of them are; the first two do not count.
        warm_ups: Before anything counts, the smallest state is measured up to so many times, until
            its batches are no faster than before.
        repeats: How often each state is measured; the median counts.
        few_answers: Whether only some of the answers are written down, and only counts.
    """

    live: tuple[int, ...]
    batch: int
    batches: int
    warm_ups: int
    repeats: int
    few_answers: bool


SIZES: Final[Mapping[Form, GrowthSize]] = {
    "full": GrowthSize(
        live=(10_000, 100_000, 1_000_000, 10_000_000),
        batch=10_000,
        batches=12,
        warm_ups=5,
        repeats=3,
        few_answers=False,
    ),
    "quick": GrowthSize(
        live=(10_000, 10_000_000),
        batch=10_000,
        batches=6,
        warm_ups=0,
        repeats=1,
        few_answers=True,
    ),
    "smoke": GrowthSize(
        live=(100, 10_000), batch=500, batches=3, warm_ups=0, repeats=1, few_answers=False
    ),
}


def growth(report: Report) -> None:
    """Load live events, then measure batches of constant size; figure `t10m_over_t10k`.

    Every event is alive for the whole run (a window of a year) and has a key of its own, so the
    state holds them all; a batch touches 10,000 of them. The quick form leaves out what is
    between the smallest and the largest state, only counts, and writes down some of the answers.
    """
    size = SIZES[report.form]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    times: dict[int, list[float]] = {}
    try:
        with Engine(report.spark) as engine:

            def smallest(number: int) -> float:
                silent = Report(report.bench, lambda _: None)
                return 1 / _measure(engine, root / f"warm-{number}", size.live[0], silent, size)

            for count, rate in enumerate(warm_up(smallest, size.warm_ups)):
                report.measured("warm_up", warm_up=count, median_ms=round(1000 / rate, 1))
            # The largest state first, so that none of the sizes pays for a cold start alone.
            for repeat in range(size.repeats):
                for live in reversed(size.live):
                    seconds = _measure(engine, root / f"{live}-{repeat}", live, report, size)
                    times.setdefault(live, []).append(seconds)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    median = {live: statistics.median(values) for live, values in times.items()}
    for live, value in median.items():
        report.figure(f"ms_at_{live}", value * 1000)
    report.figure("t10m_over_t10k", median[size.live[-1]] / median[size.live[0]])


def _measure(engine: Engine, root: Path, live: int, report: Report, size: GrowthSize) -> float:
    load = min(live, 5_000_000)
    rows = root / "rows"
    write_rows(
        rows / "0-load",
        files=live // load,
        rows_per_file=load,
        keys=live,
        per_second=live,
        each_once=True,
    )
    write_rows(
        rows / "1-batch",
        files=size.batches,
        rows_per_file=size.batch,
        keys=live,
        per_second=live,
        seed=8,
    )
    stream = engine.stream(
        f"{rows}/*/*.parquet",
        name="rows",
        replace=True,
        start="ts",
        delay="1000 days",
        max_files_per_batch=1,
        max_rows_per_batch=None,
    )
    groups = stream.window("365 days", slide="365 days").group_by("k")
    if size.few_answers:
        query = groups.agg(n="COUNT(*)").where("k % 100 = 0")
    else:
        query = groups.agg(n="COUNT(*)", top="MAX(v)")
    run = query.start(to=root / "log", checkpoint=root / "checkpoint", available_now=True)
    run.await_end()
    batches = [batch for batch in run.metrics() if batch["rows_in"]][-size.batches :]
    seconds = [batch["milliseconds"]["triggerExecution"] / 1000 for batch in batches]
    middle = float(statistics.median(seconds[2:]))
    report.measured(
        "batches",
        live_events=live,
        median_ms=round(middle * 1000, 1),
        longest_ms=round(max(seconds) * 1000, 1),
        state_rows=sum(stage["state_rows"] for stage in batches[-1]["stages"].values()),
        batches_ms=[round(value * 1000) for value in seconds],
    )
    shutil.rmtree(root, ignore_errors=True)
    return middle
