"""One run of `bench scale`: ROWS WORK MASTER FILES SHARDS, and `tasks` or `anywhere`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from anabranch.engine import Engine
from anabranch.runtime.query.run import Run
from anabranch.runtime.spark.session import DRIVER_ROWS

LOOK: Final = 20.0
"""Seconds between two looks at what was done."""


def main(rows: Path, work: Path, master: str, files: int, shards: int, *, in_tasks: bool) -> None:
    """Run to the end, and say what each batch took; with `in_tasks` none runs in the driver."""
    settings = {"spark.master": master, "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    if in_tasks:
        settings[DRIVER_ROWS] = "0"
    with Engine(settings=settings, shards=shards) as engine:
        stream = engine.stream(
            rows,
            name="rows",
            start="ts",
            delay="5 seconds",
            max_files_per_batch=files,
            max_rows_per_batch=None,
        )
        query = stream.window("10 seconds", slide="10 seconds").group_by("k").agg(n="COUNT(*)")
        run = query.start(to=work / "log", checkpoint=work / "checkpoint", available_now=True)
        # A run remembers its last thousand batches, and there may be more.
        seen: dict[int, dict[str, float]] = {}
        while not run.await_end(LOOK):
            _note(run, seen)
        _note(run, seen)
    sys.stdout.write(json.dumps([seen[batch] for batch in sorted(seen)]) + "\n")


def _note(run: Run, seen: dict[int, dict[str, float]]) -> None:
    for each in run.metrics():
        spent = each["milliseconds"].get("triggerExecution")
        if each["rows_in"] and spent is not None:
            seen[each["batch"]] = {"rows": each["rows_in"], "seconds": spent / 1000}


def _run(given: str, out: str, spark: str, several: str, split: str, where: str) -> None:
    """The job by the words of a command line."""
    main(Path(given), Path(out), spark, int(several), int(split), in_tasks=where == "tasks")


if __name__ == "__main__":
    _run(*sys.argv[1:])
