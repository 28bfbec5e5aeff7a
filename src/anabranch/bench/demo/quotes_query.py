"""The query of the demo's third act, as a process: it runs, is told of an error, and runs again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from anabranch.engine import Engine, Stream

QUOTES: Final = "quotes"
CORRECTION: Final = "late.parquet"
MEANS: Final = "means"
CHECKPOINT: Final = "checkpoint"


def hourly(engine: Engine, folder: Path) -> Stream:
    """The mean price per share of the last full hour; late rows revise it."""
    return (
        engine.stream(folder / QUOTES, name="Quote", late="revise", max_files_per_batch=1)
        .window("1 hour", slide="1 hour")
        .group_by("symbol")
        .agg(mean="AVG(price)")
    )


def main(folder: Path) -> None:
    """Run over the two days, then over the correction; a line of JSON after each."""
    with Engine() as engine:
        query = hourly(engine, folder)
        _catch_up(query, folder)
        (folder / CORRECTION).rename(folder / QUOTES / CORRECTION)
        _catch_up(query, folder)


def _catch_up(query: Stream, folder: Path) -> None:
    run = query.start(to=folder / MEANS, checkpoint=folder / CHECKPOINT, available_now=True)
    run.await_end()
    batches = run.metrics()
    counts = {name: sum(b.get(name, 0) for b in batches) for name in ("rows_in", "revised")}
    sys.stdout.write(json.dumps({**counts, "stable": int(run.stable)}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
