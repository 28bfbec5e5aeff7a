"""How long runs can be left alone while nothing is added to them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence

from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace import runs as run_sizes
from anabranch.kernels.trace.runs import noted_times
from anabranch.model.time import FOREVER, Time

Runs = Mapping[str, Sequence[SortedRun]]


def lists_rest(runs: Runs, stable: Time, *, plain: Container[str] = ()) -> Time:
    """The same for several lists: timelines, and those that keep no anchors, which are `plain`."""
    parts = [
        runs_rest(held, stable, anchors=name not in plain, trims=name not in plain)
        for name, held in runs.items()
    ]
    return Time(min(parts, default=FOREVER))


def runs_rest(
    runs: Sequence[SortedRun], stable: Time, *, anchors: bool, trims: bool = False
) -> Time:
    """The last stable point after `stable` at which `add_run` without fresh rows does nothing.

    What has expired is estimated by 17 quantiles of the times of each run, so that the estimate
    changes only where the stable point passes one of them. It never sinks as the stable point
    moves on, and neither do the conditions of `add_run`: the first quantile that makes one of
    them true is found by bisection. What `add_run` did at `stable` itself it need not do again
    before the estimate changes: so a run that is left alone is looked at 17 times at the most.

    Example: 40 rows at 0, 10, 20 .. 390, one of each key, `anchors` not kept, stable 0. Up to 4,096
    rows are merged when any of them has expired. The first quantiles are 0, 20, 40: at 1 an
    estimated 40 / 17 rows have expired, so that the runs rest until 0; after that merge the
    quantiles begin at 10, and the runs rest until 10.
    """
    if not any(map(len, runs)):
        return FOREVER
    notes = [(len(run), *noted_times(run)) for run in runs]
    total = sum(rows for rows, _, _ in notes)
    is_small = total <= run_sizes.MERGE_ALL_UP_TO_ROWS

    def is_due(at: int) -> bool:
        every = 0
        for rows, spread, ids in notes:
            if not spread:
                continue
            share = bisect_left(spread, at) / len(spread)
            expired = max(0, int(share * rows) - (ids if anchors else 0))
            if trims and not is_small and expired * 5 >= rows * 2:
                return True
            every += expired
        return every * 5 >= total * 3 or (is_small and every > 0)

    changes = sorted({time + 1 for _, spread, _ in notes for time in spread if stable <= time})
    first = bisect_left(changes, True, key=is_due)
    # Before FOREVER, when nothing comes any more, what ends is dropped whatever it is.
    return Time(min(changes[first] if first < len(changes) else FOREVER, FOREVER) - 1)
