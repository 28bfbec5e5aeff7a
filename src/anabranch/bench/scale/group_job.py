"""A group of queries in `bench scale`: ROWS WORK FILES QUERIES."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Final

from anabranch.engine import Engine

_WINDOWS: Final = 25
"""So many different windows; queries with the same one share its counts."""

_BATCHES: Final = 8
"""So many batches, half of which warm everyone up."""


def texts(queries: int) -> list[str]:
    """Counts per key and window, those above a bound; every bound with every window once."""
    return [
        f"SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM Rows "
        f"WINDOW(RANGE {10 + number % _WINDOWS} SECONDS SLIDE 10 SECONDS) GROUP BY k) AS counted "
        f"WHERE n > {number // _WINDOWS}"
        for number in range(queries)
    ]


def main(rows: Path, work: Path, files: int, queries: int) -> None:
    """Run all as one query of Spark; say how long it took to start, and what batches took."""
    chosen = work / "rows"
    chosen.mkdir(parents=True)
    for file in sorted(rows.iterdir())[: files * _BATCHES]:
        (chosen / file.name).symlink_to(file)
    with Engine() as engine:
        engine.stream(chosen, name="Rows", start="ts", delay="5 seconds", max_files_per_batch=files)
        streams = [engine.sql(text) for text in texts(queries)]
        engine.spark.range(1).count()  # Spark itself is started
        began = time.perf_counter()
        runs = engine.start_all(
            streams, ["nothing"] * queries, checkpoint=work / "checkpoint", available_now=True
        )
        started = time.perf_counter() - began
        runs[0].await_end()
        spent = [
            batch["milliseconds"]["triggerExecution"] / 1000
            for batch in runs[0].metrics()
            if batch["rows_in"]
        ]
    sys.stdout.write(json.dumps({"start_s": round(started, 3), "batches_s": spent}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
