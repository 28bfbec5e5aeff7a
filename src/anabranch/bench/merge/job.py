"""One run of `bench merge` on Spark: `python -m anabranch.bench.merge.job WORK COPY COPY ...`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from anabranch.engine import Engine


def main(work: Path, copies: list[Path]) -> None:
    """Merge the copies to the end, and say what each batch took."""
    settings = {
        "spark.master": "local[1]",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    with Engine(settings=settings) as engine:
        first, *others = (
            engine.stream(folder, name=folder.name, max_files_per_batch=1) for folder in copies
        )
        merged = first.merge(*others, case="r3")
        run = merged.start(to=work / "log", checkpoint=work / "checkpoint", available_now=True)
        run.await_end()
        batches = [
            {"rows": each["rows_in"], "seconds": each["milliseconds"]["triggerExecution"] / 1000}
            for each in run.metrics()
            if each["rows_in"]
        ]
    sys.stdout.write(json.dumps(batches) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
