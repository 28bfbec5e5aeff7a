"""One run of `bench restart`: `python -m anabranch.bench.restart_job ROWS WORK`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

from anabranch.engine import Engine


def main(rows: str, work: Path) -> None:
    """Take the query up, do what is there to do, and say how long that took."""
    began = perf_counter()
    with Engine() as engine:
        _ = engine.spark
        ready = perf_counter()
        stream = engine.stream(
            rows,
            name="rows",
            start="ts",
            delay="1000 days",
            max_files_per_batch=1,
            max_rows_per_batch=None,
        )
        query = stream.window("365 days", slide="365 days").group_by("k").agg(n="COUNT(*)")
        run = query.start(to=work / "log", checkpoint=work / "checkpoint", available_now=True)
        run.await_end()
        ended = perf_counter()
        batches = run.metrics()
        state = list(batches[-1]["stages"].values())
    report = {
        "batches": len(batches),
        "session_s": round(ready - began, 3),
        "first_result_s": round(ended - ready, 3),
        "state_rows": sum(stage["state_rows"] for stage in state),
        "state_mb": round(sum(stage["state_bytes"] for stage in state) / 1e6, 1),
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
