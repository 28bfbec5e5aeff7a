"""Diff old and new window results into moves.

A trace keeps the results of every window that may still change, as a bag of rows
(`layout.answers`). When a window is asked anew, its stored rows are taken away and the new ones
added; rows that are equal in both cancel out in `net`, so only the difference leaves.

Example: a window gave ('a', 3) and ('b', 1), and gives ('a', 4) and ('b', 1) now. The bag gets
-('a', 3), -('b', 1), +('a', 4), +('b', 1); the output is the withdrawal of ('a', 3) and the insert
of ('a', 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import clock_of
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.contract.column_names import ID, ROW, SINCE, TIME, UNTIL, WEND
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.modules.failures import Failures
from anabranch.kernels.modules.operator_windows import Failure, ResultRows
from anabranch.kernels.modules.window_bags import numbers
from anabranch.kernels.modules.window_events import WindowLayout, Windows
from anabranch.kernels.modules.window_planning import mixed_hash
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowResults:
    """Results of windows, row by row; `until` and `keys` are those of the windows."""

    windows: Windows
    until: Ints
    keys: list[pa.Array]
    rows: ResultRows


def answer_rows(layout: WindowLayout, results: WindowResults) -> pa.RecordBatch:
    """Results in the form in which the trace keeps them."""
    rows, windows, owner = results.rows, results.windows, results.rows.owner
    keys = [key.take(pa.array(owner)) for key in results.keys]
    row, check = ids_and_checks([*keys, *rows.columns], len(owner))
    return layout.answers.rows(
        windows.ids[owner],
        windows.start[owner],
        results.until[owner],
        np.ones(len(owner), np.int64),
        [
            pa.array(windows.end[owner]),
            pa.array(rows.start),
            pa.array(rows.end),
            pa.array(row),
            pa.array(check),
            *keys,
            *rows.columns,
        ],
    )


def answers_before(
    layout: WindowLayout, runs: Sequence[SortedRun], windows: Windows
) -> pa.RecordBatch:
    """The stored results of windows."""
    old, owner = layout.answers.at(runs, windows.ids, windows.start)
    return old.take(pa.array(np.flatnonzero(numbers(old, WEND) == windows.end[owner])))


def moves(
    node: ApplyOperator, layout: WindowLayout, rows: pa.RecordBatch, *, come: bool
) -> EventBatch:
    """Rows of answers as events that come, or go."""
    every = np.repeat(np.arange(rows.num_rows), numbers(rows, COUNT))
    rows = rows.take(pa.array(every))
    start, end = numbers(rows, SINCE), numbers(rows, UNTIL)
    columns = [rows.column(name) for name in layout.key_names]
    if node.columns is not None:
        clock = clock_of(node.input)
        columns += [clock.column(numbers(rows, name)) for name in (TIME, WEND)]
    columns += [rows.column(f"result{index}") for index in range(len(layout.results))]
    payload = pa.RecordBatch.from_arrays(columns, schema=node.schema)
    return EventBatch(payload, start, start if come else end, end if come else start)


def within_bounds(
    node: ApplyOperator,
    old: pa.RecordBatch,
    new: pa.RecordBatch,
    results: WindowResults,
    bound: Time,
    failures: Failures,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The same results without the groups in which something changes that was promised to stay.

    Args:
        node: The node.
        old: The stored results.
        new: The new results, in the same form.
        results: The new results, with their windows.
        bound: What holds before this must not change.
        failures: Where it is noted that a user operator changed it.
    """
    ids = np.unique(np.concatenate([numbers(old, ID), numbers(new, ID)]))
    sums, groups = [], []
    for rows in (old, new):
        group = np.searchsorted(ids, numbers(rows, ID))
        early = numbers(rows, SINCE) < bound
        last = np.minimum(numbers(rows, UNTIL), bound)
        mixed = mixed_hash(numbers(rows, ROW), numbers(rows, SINCE), last)
        total = np.zeros(len(ids), np.uint64)
        weight = np.where(early, numbers(rows, COUNT), 0).astype(np.uint64)
        np.add.at(total, group, mixed * weight)
        sums.append(total)
        groups.append(group)
    wrong = sums[0] != sums[1]
    if not wrong.any():
        return old, new
    name = node.calls[0].operator.name
    when = clock_of(node.input).format(bound)
    reason = f"{name} changed results before {when}, which it had promised to keep"
    own = np.flatnonzero(np.isin(results.windows.ids, ids[wrong]))
    # Windows that failed have been reported already.
    problems = {
        int(window): Failure(name, reason, "")
        for window in own
        if int(window) not in results.rows.failures
    }
    failures.note(problems, results.windows, results.keys)
    right = [np.flatnonzero(~wrong[group]) for group in groups]
    return old.take(pa.array(right[0])), new.take(pa.array(right[1]))
