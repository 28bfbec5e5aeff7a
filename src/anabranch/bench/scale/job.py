"""One run of `bench scale`: ROWS WORK MASTER FILES SHARDS `tasks`|`anywhere` `pinned`|`free`."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Final

from anabranch.engine import Engine
from anabranch.runtime.query.run import Run
from anabranch.runtime.spark.session import DRIVER_ROWS

LOOK: Final = 20.0
"""Seconds between two looks at what was done."""


def cores_of(master: str) -> int | None:
    """How many cores tasks have; None where that is not in the name.

    >>> cores_of("local[1]"), cores_of("local[2,4]"), cores_of("local-cluster[2,1,1024]")
    (1, 2, 2)
    >>> cores_of("local[*]")
    """
    local = re.match(r"local\[(\d+)", master)
    executors = re.match(r"local-cluster\[(\d+),\s*(\d+)", master)
    if executors is not None:
        return int(executors[1]) * int(executors[2])
    return None if local is None else int(local[1])


def stay_on(cores: int | None) -> None:
    """Keep this process, and all that it starts from now on, on so many cores (on Linux).

    Else Java's compilers and this process, which plans batches, run beside the only task of
    `local[1]` on a second core.
    """
    if cores is not None and sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


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


def _run(given: str, out: str, spark: str, several: str, split: str, where: str, held: str) -> None:
    """The job by the words of a command line."""
    if held == "pinned":
        stay_on(cores_of(spark))
    main(Path(given), Path(out), spark, int(several), int(split), in_tasks=where == "tasks")


if __name__ == "__main__":
    _run(*sys.argv[1:])
