"""What a large batch changes among the first k rows: the compiled sweep, and what it needs.

The sweep goes through the begins and ends of all rows of a group in the order of time and keeps the
edge of the first k up to date. At each instant it notes -1 for every row that was among the first k
before the batch and +1 for every row that is now; what does not cancel out is the change. A row
costs O(log rows of the group), so a batch costs O(rows log rows), however many instants and
whatever k is.

Example, k = 2: codes 1 and 3 were among the first 2 on [0, 10), code 2 comes on [4, 8). At 4 code 2
gets in and pushes code 3 out; at 8 it goes and code 3 comes up again: (4, code 2, +1), (4, code 3,
-1), (8, code 2, -1), (8, code 3, +1). At 0 and 10 notes cancel out: -1 as it was, +1 as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.top_k.best_rows import Alive, Ranges, RankChanges, Stretches
from anabranch.kernels.top_k.lifetimes import order_in_time
from anabranch.kernels.trace.ranked_events import unknown_event


def sweep(
    loops: Any, k: int, groups: int, best: Stretches, moved: Stretches, alive: Alive | None
) -> RankChanges:
    """Compare the first k of all groups before and after; `alive` are all rows of lost ranges.

    `loops` are the compiled ones. Codes are those of `rank_rows`: the ones of a group follow those
    of the group before it.
    """
    parts = [best, moved] if alive is None else [best, moved, alive.rows]
    owner, code, low, high, count = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("owner", "code", "low", "high", "count")
    )
    first_code = np.zeros(groups + 1, np.int64)
    np.maximum.at(first_code, owner + 1, code + 1)
    np.maximum.accumulate(first_code, out=first_code)
    shrinks = np.zeros(groups, np.bool_)
    shrinks[moved.owner[moved.high < moved.low]] = True
    codes, times, changes, *lost, unknown = loops.sweep(
        k,
        first_code,
        shrinks,
        owner,
        code,
        low,
        high,
        count,
        len(best.owner),
        len(moved.owner),
        order_in_time(np.concatenate([low, high])),
    )
    if unknown:
        raise unknown_event()
    return RankChanges(codes, times, changes, Ranges(*lost))
