"""What a process of the demo runs: replicas of the query by different plans, and the merge."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from anabranch.bench.demo.query import SLIDE, WINDOW
from anabranch.engine import Engine
from anabranch.fluent import Fluent
from anabranch.merging.logs import merge_logs
from anabranch.model.time import FOREVER
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.copies import list_copies

COPIES: Final = "copies"
FEEDS: Final = "feeds"
MERGED: Final = "merged"
WORK: Final = "work"
_LOOK: Final = 0.1

S = TypeVar("S", bound=Fluent)


def as_written(bids: S) -> S:
    """The query of the first act."""
    held = bids.window(WINDOW, slide=SLIDE)
    return held.group_by("itemID").agg(highest="MAX(price)", bids="COUNT(*)")


def in_halves(bids: S) -> S:
    """Even and odd items apart, then together."""
    halves = [as_written(bids.where(f"itemID % 2 = {rest}")) for rest in (0, 1)]
    return halves[0].union(halves[1])


def by_bidder(bids: S) -> S:
    """First what each bidder bids for an item, then the items."""
    held = bids.window(WINDOW, slide=SLIDE)
    each = held.group_by("itemID", "bidderID").agg(highest="MAX(price)", bids="COUNT(*)")
    items = each.group_by("itemID").agg(highest="MAX(highest)", bids="SUM(bids)")
    return items.select("itemID", "highest", "CAST(bids AS BIGINT) AS bids")


def joined(bids: S) -> S:
    """Prices and counts by queries of their own, joined."""
    held = bids.window(WINDOW, slide=SLIDE)
    highest = held.group_by("itemID").agg(highest="MAX(price)")
    return highest.join(held.group_by("itemID").agg(bids="COUNT(*)"), on=["itemID"])


PLANS: Final[Mapping[int, tuple[str, Callable[[Any], Any]]]] = {
    1: ("as written", as_written),
    2: ("items in two halves", in_halves),
    3: ("by bidder, then by item", by_bidder),
    4: ("two aggregates, joined", joined),
}
"""By replica: its plan, in words and as a function. All of them mean the same."""


def replica_name(number: int) -> str:
    """What a replica is called, and so its feed and its log."""
    return f"replica-{number}"


def main(folder: Path, numbers: Sequence[int], *, merges: bool) -> None:
    """Run replicas as soon as their feeds appear, and the merge, until that has come to its end.

    One JSON object per batch of the merge goes to standard output.
    """
    runs: dict[str, Run] = {}
    shown = 0
    with Engine() as engine:
        _say({"started": engine.spark.version})
        while MERGED not in runs or runs[MERGED].stable < FOREVER:
            # One after the other: Spark gives up queries that are too slow to start.
            if all(run.totals["batches"] for run in runs.values()):
                for name, start in _to_start(folder, numbers, merges=merges):
                    if name not in runs:
                        runs[name] = start(engine)
                        break
            for run in runs.values():
                if run.status != "running":
                    run.await_end()
            shown = _say_batches(runs.get(MERGED), shown)
            time.sleep(_LOOK)
        _say_batches(runs[MERGED], shown)


def _to_start(
    folder: Path, numbers: Sequence[int], *, merges: bool
) -> Iterator[tuple[str, Callable[[Engine], Run]]]:
    """The queries that have something to read."""
    for number in numbers:
        name = replica_name(number)
        if any((folder / FEEDS / name).glob("*")):
            yield name, partial(_start, folder, number)
    if merges and list_copies(str(folder / COPIES)):
        yield MERGED, partial(_merge, folder)


def _start(folder: Path, number: int, engine: Engine) -> Run:
    name = replica_name(number)
    bids = engine.stream(folder / FEEDS / name, name=f"Bid{number}", max_files_per_batch=4)
    _, plan = PLANS[number]
    query = plan(bids).canonical()
    run: Run = query.start(to=folder / COPIES / name, checkpoint=folder / WORK / name, share=False)
    return run


def _merge(folder: Path, engine: Engine) -> Run:
    return merge_logs(
        engine,
        folder / COPIES,
        str(folder / MERGED),
        divergence="quarantine",
        checkpoint=folder / WORK / MERGED,
    )


def _say_batches(merge: Run | None, shown: int) -> int:
    if merge is None:
        return shown
    batches = merge.metrics()
    for batch in batches[shown:]:
        (stage,) = batch["stages"].values()
        _say({"batch": batch["batch"], "reports": stage["reports"]})
    return len(batches)


def _say(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        [int(word) for word in sys.argv[2].split(",")],
        merges=sys.argv[3:] == ["merge"],
    )
