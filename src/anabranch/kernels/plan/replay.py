"""Compute again what a plan said of the past, and what it says once an input is corrected.

The engine is incremental, so one pass is enough: the plan takes in the past as it was believed, as
one batch of which nothing is settled, and then the correction as a second batch. What it puts out
for the second batch is the difference between the two answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.revision import clipped_changes, rebased, snapshot_changes
from anabranch.model.time import BEGINNING, FOREVER, Time


def past_events(rows: EventBatch, first: Time, last: Time) -> EventBatch:
    """Rows of an archive as events that have the right snapshots in `[first, last)`.

    Inserts alone are such events already. Where an end was moved later, or a row was corrected,
    the moves of each payload are added up: only those that touch the stretch are there, so what
    they say of other instants means nothing and is cut off. Payloads that were only inserted stay
    as they are: of an hour of quotes and one late row, a handful of rows is added up.
    """
    is_moved = rows.end != rows.start
    if not is_moved.any():
        return rows.with_stable(BEGINNING)
    # Payloads that share a hash are added up each for itself, so a collision costs time only.
    payloads = stable_hash(rows.payload.columns, len(rows))
    touched = np.isin(payloads, payloads[is_moved])
    if (first, last) == (BEGINNING, FOREVER):
        return _whole_events(rows, touched)
    added_up = clipped_changes(snapshot_changes(rows.where(touched)), first, last)
    return EventBatch.concat([rows.where(~touched), added_up]).with_stable(BEGINNING)


def _whole_events(rows: EventBatch, touched: npt.NDArray[np.bool_]) -> EventBatch:
    """All moves that there ever were, as events where they add up to events.

    Windows of the time axis see events, so [2, 4) and [4, 6) must not become [2, 6) only because
    one of them was moved. Where a late row is missing, what moved the event after it moves nothing
    that is there: snapshots say what such payloads come to.
    """
    netted = net(rows.where(touched))
    is_event = netted.end == netted.start
    hashes = stable_hash(netted.payload.columns, len(netted))
    whole = ~np.isin(hashes, hashes[~is_event])
    added_up = snapshot_changes(netted.where(~whole))
    parts = [rows.where(~touched), netted.where(whole), added_up]
    return EventBatch.concat(parts).with_stable(BEGINNING)


def replayed_changes(
    plan: PhysicalPlan,
    past: Mapping[str, EventBatch],
    corrections: Mapping[str, EventBatch],
    within: tuple[Time, Time],
) -> list[EventBatch]:
    """How corrections of its sources change the answers of a plan in a span.

    Args:
        plan: The plan, with speculative emission: nothing is final while the past is replayed.
        past: The events of each source, as they were believed, in the stretch that matters.
        corrections: Per source, what to add to its snapshots and what to take out of them.
        within: Answers before its first instant, and from its last one on, are left out.

    Returns:
        For each output the changes of its snapshots, in the form of `snapshot_changes`.
    """
    runner = LocalRunner(plan)
    past = {name: _in_form(plan, name, rows) for name, rows in past.items()}
    # What was put out is known, and nothing comes after the correction.
    runner.step_all(past, wanted="memory")
    nothing = {name: EventBatch.empty(rows.schema) for name, rows in corrections.items()}
    moves = {
        name: rebased(past.get(name, nothing[name]), rows) for name, rows in corrections.items()
    }
    moves = {name: _in_form(plan, name, rows) for name, rows in moves.items()}
    outputs = runner.step_all(moves, wanted="output")
    return [clipped_changes(snapshot_changes(each), *within) for each in outputs]


def _in_form(plan: PhysicalPlan, source: str, rows: EventBatch) -> EventBatch:
    """The rows as the source has them: points, where it has only points.

    Equal points that follow each other may have been added up to one stretch of time.
    """
    length = np.abs(rows.new_end - rows.end)
    if not plan.sources[source].only_points or not (length > 1).any():
        return rows
    at = np.repeat(np.arange(len(rows)), length)
    offset = np.arange(len(at)) - np.repeat(np.cumsum(length) - length, length)
    start = np.minimum(rows.end, rows.new_end)[at] + offset
    comes = (rows.new_end > rows.end)[at]
    points = replace(rows.take(at), start=start)
    return points.with_ends(np.where(comes, start, start + 1), np.where(comes, start + 1, start))
