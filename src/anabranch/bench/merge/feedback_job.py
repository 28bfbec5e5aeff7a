"""Two real queries on Spark, one far behind, and what feedback of their merge spares it.

`python -m anabranch.bench.merge.feedback_job WORK FILES ROWS`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.engine import Engine
from anabranch.merging.feedback import settled_of, tell
from anabranch.merging.logs import merge_logs
from anabranch.runtime.query.run import Run

KEYS: Final = 2_000
SPAN: Final = 1_000
"""A file has the rows of so many instants."""

_QUERY: Final = """
CREATE OR REPLACE STREAM Quote (k INT, v INT, ts INT) SOURCE '{rows}/*.parquet'
  ORDERED BY ts DELAY 10 WITH (max_files_per_batch = 1);
SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most
FROM Quote WINDOW(RANGE 100 SLIDE 10) GROUP BY k
"""


def write_rows(folder: Path, number: int, rows: int) -> None:
    """One more file."""
    dice = np.random.default_rng(number)
    table = pa.table(
        {
            "k": pa.array(dice.integers(0, KEYS, rows), pa.int32()),
            "v": pa.array(dice.integers(0, 1_000, rows), pa.int32()),
            "ts": pa.array(np.sort(dice.integers(0, SPAN, rows)) + number * SPAN, pa.int32()),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number}"
    pq.write_table(table, hidden)
    hidden.rename(folder / f"{number:05}.parquet")


def main(work: Path, files: int, rows: int) -> None:
    """Let two slow copies catch up, one with feedback, and say what that took each of them."""
    settings = {
        "spark.master": "local[1]",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    text = _QUERY.format(rows=work / "rows")
    with Engine(settings=settings) as engine:

        def copy(place: str) -> Run:
            run: Run = engine.sql(text).canonical().start(to=work / place, share=False)
            return run

        # Both have begun, and fall behind.
        write_rows(work / "rows", 0, rows)
        for place in ("alone", "copies/slow"):
            run = copy(place)
            run.drain()
            run.stop()
        for number in range(1, files):
            write_rows(work / "rows", number, rows)
        fast = copy("copies/fast")
        fast.drain()
        merged = merge_logs(engine, work / "copies", work / "merged", detach_after=None)
        merged.drain()
        stable, since = settled_of(merged)
        tell(stable, str(work / "copies"), {}, since=since, control=merged.control)
        found = {place: _caught_up(copy(place)) for place in ("alone", "copies/slow")}
        # What it has left out is no contradiction, and what follows is right.
        write_rows(work / "rows", files, rows)
        fast.drain()
        merged.drain()
        reports = [
            report
            for stage in merged.metrics()[-1]["stages"].values()
            for report in stage["reports"]
        ]
        diverged = sum(each["diverged"] for report in reports for each in report["copies"])
    answer = {"without": found["alone"], "with": found["copies/slow"], "diverged": diverged}
    sys.stdout.write(json.dumps(answer) + "\n")


def _caught_up(run: Run) -> dict[str, Any]:
    run.drain()
    batches = [each for each in run.metrics() if each["rows_in"]]
    run.stop()
    # The first batch brings the feedback, and starts Spark's workers.
    rest = batches[1:]
    return {
        "seconds": sum(each["milliseconds"]["triggerExecution"] for each in rest) / 1000,
        "rows": sum(each["rows_in"] for each in rest),
        "skipped": sum(each["sources"]["Quote"].get("skipped", 0) for each in rest),
        "written": sum(each["rows_out"] for each in rest),
        "state_rows": max(
            (s["state_rows"] for each in rest for s in each["stages"].values()), default=0
        ),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
