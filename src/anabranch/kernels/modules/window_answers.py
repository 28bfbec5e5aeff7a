"""What was said of windows and what is said now: the difference, as moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_module import ApplyModule
from anabranch.algebra.node import clock_of
from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.contract.column_names import ID, ROW, SINCE, TIME, UNTIL, WEND
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.modules.failures import Failures
from anabranch.kernels.modules.module_windows import Failure, Said
from anabranch.kernels.modules.window_bags import numbers
from anabranch.kernels.modules.window_events import WindowLayout, Windows
from anabranch.kernels.modules.window_planning import mixed_hash
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowResults:
    """What is said of windows, row by row; `until` and `keys` are those of the windows."""

    windows: Windows
    until: Ints
    keys: list[pa.Array]
    said: Said


def answer_rows(layout: WindowLayout, told: WindowResults) -> pa.RecordBatch:
    """What is said, as the list of answers has it."""
    said, windows, owner = told.said, told.windows, told.said.owner
    keys = [key.take(pa.array(owner)) for key in told.keys]
    row, check = ids_and_checks([*keys, *said.columns], len(owner))
    return layout.answers.rows(
        windows.ids[owner],
        windows.start[owner],
        told.until[owner],
        np.ones(len(owner), np.int64),
        [
            pa.array(windows.end[owner]),
            pa.array(said.start),
            pa.array(said.end),
            pa.array(row),
            pa.array(check),
            *keys,
            *said.columns,
        ],
    )


def answers_before(
    layout: WindowLayout, runs: Sequence[SortedRun], windows: Windows
) -> pa.RecordBatch:
    """What was said of some windows."""
    old, owner = layout.answers.at(runs, windows.ids, windows.start)
    return old.take(pa.array(np.flatnonzero(numbers(old, WEND) == windows.end[owner])))


def moves(
    node: ApplyModule, layout: WindowLayout, rows: pa.RecordBatch, *, come: bool
) -> EventBatch:
    """Rows of answers as events that come, or go."""
    every = np.repeat(np.arange(rows.num_rows), numbers(rows, COUNT))
    rows = rows.take(pa.array(every))
    start, end = numbers(rows, SINCE), numbers(rows, UNTIL)
    columns = [rows.column(name) for name in layout.key_names]
    if node.columns is not None:
        clock = clock_of(node.input)
        columns += [clock.column(numbers(rows, name)) for name in (TIME, WEND)]
    columns += [rows.column(f"result{place}") for place in range(len(layout.results))]
    payload = pa.RecordBatch.from_arrays(columns, schema=node.schema)
    return EventBatch(payload, start, start if come else end, end if come else start)


def within_bounds(
    node: ApplyModule,
    old: pa.RecordBatch,
    new: pa.RecordBatch,
    told: WindowResults,
    bound: Time,
    failures: Failures,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The same answers without groups of which something changes that was promised to stay.

    Args:
        node: The node.
        old: What was said.
        new: What is said now.
        told: The same, with the windows that were asked for.
        bound: What holds before this must not change.
        failures: Where it is noted that a module changed it.
    """
    ids = np.unique(np.concatenate([numbers(old, ID), numbers(new, ID)]))
    sums, places = [], []
    for rows in (old, new):
        place = np.searchsorted(ids, numbers(rows, ID))
        early = numbers(rows, SINCE) < bound
        last = np.minimum(numbers(rows, UNTIL), bound)
        mixed = mixed_hash(numbers(rows, ROW), numbers(rows, SINCE), last)
        total = np.zeros(len(ids), np.uint64)
        weight = np.where(early, numbers(rows, COUNT), 0).astype(np.uint64)
        np.add.at(total, place, mixed * weight)
        sums.append(total)
        places.append(place)
    wrong = sums[0] != sums[1]
    if not wrong.any():
        return old, new
    name = node.calls[0].module.name
    when = clock_of(node.input).format(bound)
    reason = f"{name} changed what holds before {when}, which was promised"
    own = np.flatnonzero(np.isin(told.windows.ids, ids[wrong]))
    # Of those that failed before that, it has been told.
    problems = {
        int(place): Failure(name, reason, "")
        for place in own
        if int(place) not in told.said.failures
    }
    failures.note(problems, told.windows, told.keys)
    right = [np.flatnonzero(~wrong[place]) for place in places]
    return old.take(pa.array(right[0])), new.take(pa.array(right[1]))
