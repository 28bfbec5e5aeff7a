"""How long a query takes to go on: from a new process to the first result."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anabranch.bench.job_process import run_job
from anabranch.bench.report import Form, Report
from anabranch.bench.rows import write_rows

BATCH: Final = 10_000
SIZES: Final[Mapping[Form, tuple[tuple[int, ...], int]]] = {
    "full": ((10_000, 1_000_000, 10_000_000), 5),
    "quick": ((10_000, 1_000_000), 1),
    "smoke": ((10_000,), 1),
}
"""Live events, and how often a query is taken up again. Each time costs a start of Spark."""


def restart(report: Report) -> None:
    """Load live events, end, and take the query up again with a few more rows, again and again.

    Figures: `restart_s_at_<n>`, from the moment Spark is there to the first result, with so many
    live events in the state; `session_s`, what Spark takes to be there; `restart_growth`, the time
    with the most live events over that with the fewest.
    """
    sizes, repeats = SIZES[report.form]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    times, sessions = {}, []
    try:
        for live in sizes:
            taken = [_go_on(report, root / str(live), live, each) for each in range(repeats + 1)]
            times[live] = statistics.median(seconds for seconds, _ in taken[1:])
            sessions += [seconds for _, seconds in taken]
            shutil.rmtree(root / str(live), ignore_errors=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for live, seconds in times.items():
        report.figure(f"restart_s_at_{live}", seconds)
    report.figure("session_s", statistics.median(sessions))
    report.figure("restart_growth", times[sizes[-1]] / times[sizes[0]])


def _go_on(report: Report, root: Path, live: int, time: int) -> tuple[float, float]:
    """Run once more; the first time is the load."""
    rows = root / "rows"
    if time == 0:
        load = min(live, 1_000_000)
        folder, files, per_file = rows / "0-load", live // load, load
    else:
        folder, files, per_file = rows / f"{time}-more", 1, BATCH
    write_rows(
        folder,
        files=files,
        rows_per_file=per_file,
        keys=live,
        per_second=live,
        seed=time,
        each_once=time == 0,
    )
    report_of_job, _ = run_job("anabranch.bench.restart_job", f"{rows}/*/*.parquet", str(root))
    report.measured("load" if time == 0 else "restart", live_events=live, **report_of_job)
    return report_of_job["first_result_s"], report_of_job["session_s"]
