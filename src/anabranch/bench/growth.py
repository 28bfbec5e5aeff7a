"""Time per batch while the state grows: the same batch over more and more live events."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

from anabranch.bench.report import Report
from anabranch.bench.rows import write_rows
from anabranch.engine import Engine

BATCH = 10_000
MEASURED = 12


def growth(report: Report, *, quick: bool) -> None:
    """Load live events, then measure batches of constant size; figure `t10m_over_t10k`.

    Every event is alive for the whole run (a window of a year) and has a key of its own, so the
    state holds them all; a batch touches 10,000 of them. The quick form leaves out what is
    between the smallest and the largest state, only counts, and writes down some of the answers.
    """
    sizes = [10_000, 10_000_000] if quick else [10_000, 100_000, 1_000_000, 10_000_000]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    times: dict[int, float] = {}
    try:
        with Engine() as engine:
            if not quick:
                silent = Report(report.bench, lambda _: None)
                _measure(engine, root / "warm-up", sizes[0], silent, quick=False)
            # The largest state first, so that none of the sizes pays for a cold start alone.
            for live in reversed(sizes):
                times[live] = _measure(engine, root / str(live), live, report, quick=quick)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for live, seconds in times.items():
        report.figure(f"ms_at_{live}", seconds * 1000)
    report.figure("t10m_over_t10k", times[sizes[-1]] / times[sizes[0]])


def _measure(engine: Engine, root: Path, live: int, report: Report, *, quick: bool) -> float:
    load = min(live, 5_000_000)
    measured = MEASURED // 2 if quick else MEASURED
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
        rows / "1-batch", files=measured, rows_per_file=BATCH, keys=live, per_second=live, seed=8
    )
    stream = engine.stream(
        f"{rows}/*/*.parquet",
        name="rows",
        start="ts",
        delay="1000 days",
        max_files_per_batch=1,
        max_rows_per_batch=None,
    )
    groups = stream.window("365 days", slide="365 days").group_by("k")
    if quick:
        query = groups.agg(n="COUNT(*)").where("k % 100 = 0")
    else:
        query = groups.agg(n="COUNT(*)", top="MAX(v)")
    run = query.start(to=root / "log", checkpoint=root / "checkpoint", available_now=True)
    run.await_end()
    batches = run.metrics()[-measured:]
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
