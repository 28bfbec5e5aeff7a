"""The demo's query, as a process of its own that can be killed and started again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from anabranch.engine import Engine, Stream
from anabranch.runtime.query.run import Run

WINDOW = "1 minute"
SLIDE = "10 seconds"


def highest_bids(engine: Engine, bids: Path) -> Stream:
    """The highest bid and the number of bids per item, over the last minute, every 10 seconds."""
    return (
        engine.stream(bids, name="Bid", max_files_per_batch=1)
        .window(WINDOW, slide=SLIDE)
        .group_by("itemID")
        .agg(highest="MAX(price)", bids="COUNT(*)")
    )


def main(folder: Path) -> None:
    """Run until all bids are read; one JSON object per batch goes to standard output."""
    with Engine() as engine:
        _say({"started": True})
        run = highest_bids(engine, folder / "bids").start(
            to=folder / "highest.jsonl", checkpoint=folder / "checkpoint", available_now=True
        )
        shown = 0
        while run.status == "running":
            shown = _say_batches(run, shown)
            time.sleep(0.1)
        run.await_end()
        _say_batches(run, shown)


def _say_batches(run: Run, shown: int) -> int:
    batches = run.metrics()
    for batch in batches[shown:]:
        _say(batch)
    return len(batches)


def _say(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
