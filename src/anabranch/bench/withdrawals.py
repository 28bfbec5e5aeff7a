"""The time to withdraw the best rows of groups while the groups grow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.bench.operator_cases import CASES, LEFT, Inputs
from anabranch.bench.report import Report
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch

GROUPS: Final = 10
"""So many groups lose a row in every batch."""

WITHDRAWN: Final[Mapping[str, int | None]] = {
    "top_k": None,
    "median": None,
    "percentile_disc": None,
    "string_agg": 100,
}
"""Operators, and how many events a group has; None: all events are in the groups that lose rows.

A list of all texts is as long as its group, so there it is the number of groups that grows.
"""


def withdrawal_growth(report: Report, live: tuple[int, int], shares: int) -> float:
    """How much longer the same withdrawals take over the larger state, where that is most.

    Args:
        report: What is measured is written there.
        live: How many events hold in the smaller and in the larger state: hundreds.
        shares: How many times eight batches are measured.
    """
    growth = []
    for name, events in WITHDRAWN.items():
        times = [_batch_time(report, name, rows, events, shares) for rows in live]
        growth.append(times[1] / times[0])
    return max(growth)


def _batch_time(report: Report, name: str, live: int, events: int | None, shares: int) -> float:
    """Batches that each withdraw the event with the largest value of every group, by CPU time."""
    runner = LocalRunner(CASES[name].plan(Inputs.of(insert_only=False, points=False)))
    keys = GROUPS if events is None else max(live // events, GROUPS)
    key, value = np.arange(live) % keys, np.random.default_rng(5).permutation(live)
    columns = [pa.array(key), pa.array(value % 4), pa.array(value / live)]
    begin = np.zeros(live, np.int64)
    payload = pa.RecordBatch.from_arrays(columns, schema=LEFT)
    rows = EventBatch(payload, begin, begin, begin + 1_000)
    runner.step({"e": rows})
    best = np.lexsort((-value, key)).reshape(keys, -1)
    seconds = []
    for batch in range(3 + shares * 8):
        gone = rows.take(best[:GROUPS, batch])
        withdrawn = gone.with_ends(gone.new_end, gone.start)
        began = time.process_time()
        runner.step({"e": withdrawn})
        seconds.append(time.process_time() - began)
    # Some batches merge runs and others do not, so a share of both counts.
    means = [statistics.mean(seconds[first : first + 8]) for first in range(3, len(seconds), 8)]
    middle = statistics.median(means)
    report.measured(
        f"{name} withdrawals",
        live_events=live,
        state_rows=runner.state_rows(),
        median_ms=round(middle * 1000, 2),
        batches_ms=[round(each * 1000, 1) for each in seconds],
    )
    return middle
