"""One run of `bench scale`: `python -m anabranch.bench.scale_job ROWS WORK MASTER FILES`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from anabranch.engine import Engine


def main(rows: Path, work: Path, master: str, files: int) -> None:
    """Run to the end, and say what each batch took."""
    settings = {"spark.master": master, "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    with Engine(settings=settings) as engine:
        stream = engine.stream(
            rows, name="rows", start="ts", delay="5 seconds", max_files_per_batch=files
        )
        query = stream.window("10 seconds", slide="10 seconds").group_by("k").agg(n="COUNT(*)")
        run = query.start(to=work / "log", checkpoint=work / "checkpoint", available_now=True)
        run.await_end()
        batches = [
            {"rows": each["rows_in"], "seconds": each["milliseconds"]["triggerExecution"] / 1000}
            for each in run.metrics()
            if each["rows_in"]
        ]
    sys.stdout.write(json.dumps(batches) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
