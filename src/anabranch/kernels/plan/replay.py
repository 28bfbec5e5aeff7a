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
from anabranch.kernels.plan.side_by_side import may_stand_side_by_side, moves_side_by_side
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.netting import net
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.revision import clipped_changes, rebased, snapshot_changes
from anabranch.model.time import BEGINNING, FOREVER, Time


def past_events(rows: EventBatch, first: Time, last: Time) -> EventBatch:
    """Rows of an archive as events that have the right snapshots in `[first, last)`.

    Inserts alone are such events already. Where an end was moved later, or a row was corrected,
    the moves of each payload are added up: only those that touch the stretch are there, so what
    they say of other instants means nothing and is cut off. Payloads that were only inserted stay
    as they are, and so do rows at other times: of an hour of quotes and one late row, a handful of
    rows is added up.
    """
    is_moved = rows.end != rows.start
    if not is_moved.any():
        return rows.with_stable(BEGINNING)
    is_whole = (first, last) == (BEGINNING, FOREVER)
    near = np.ones(len(rows), np.bool_) if is_whole else _beside(rows, is_moved)
    # Payloads that share a hash are added up each for itself, so a collision costs time only.
    at = np.flatnonzero(near)
    candidates = take_rows(rows.payload, at)
    payloads = stable_hash(candidates.columns, len(at))
    touched = np.zeros(len(rows), np.bool_)
    touched[at] = np.isin(payloads, payloads[is_moved[at]])
    if is_whole:
        return _whole_events(rows, touched)
    added_up = clipped_changes(snapshot_changes(rows.where(touched)), first, last)
    return EventBatch.concat([rows.where(~touched), added_up]).with_stable(BEGINNING)


def _beside(rows: EventBatch, is_moved: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which rows hold, or touch, anywhere within the hull of those that are moved.

    Changes of snapshots add up instant by instant, so what is outside of it is added to nothing.
    """
    low, high = np.minimum(rows.end, rows.new_end), np.maximum(rows.end, rows.new_end)
    found: npt.NDArray[np.bool_] = (low <= high[is_moved].max()) & (high >= low[is_moved].min())
    return found


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
    distance: int | None = None,
) -> list[EventBatch]:
    """How corrections of its sources change the answers of a plan in a span.

    Args:
        plan: The plan, with speculative emission: nothing is final while the past is replayed.
        past: The events of each source, as they were believed, in the stretch that matters.
        corrections: Per source, what to add to its snapshots and what to take out of them.
        within: Answers before its first instant, and from its last one on, are left out.
        distance: What `distance_between` says of the plan: few rows take one pass.

    Returns:
        For each output the changes of its snapshots, in the form of `snapshot_changes`.
    """
    old = {name: _in_form(plan, name, rows) for name, rows in past.items()}
    nothing = {name: EventBatch.empty(rows.schema) for name, rows in corrections.items()}
    moves = {
        name: rebased(old.get(name, nothing[name]), rows) for name, rows in corrections.items()
    }
    if distance is not None and may_stand_side_by_side((*old.values(), *moves.values())):
        new = old | {
            name: _in_form(plan, name, _moved(old.get(name, nothing[name]), rows))
            for name, rows in moves.items()
        }
        outputs = moves_side_by_side(plan, nothing | old, new, distance)
    else:
        runner = LocalRunner(plan)
        # What was put out is known, and nothing comes after the correction.
        runner.step_all(old, wanted="memory")
        moves = {name: _in_form(plan, name, rows) for name, rows in moves.items()}
        outputs = runner.step_all(moves, wanted="output")
    return [clipped_changes(snapshot_changes(each), *within) for each in outputs]


def _moved(events: EventBatch, moves: EventBatch) -> EventBatch:
    """Where moves lead to: events again."""
    after = EventBatch.concat([events, moves])
    return after if (moves.end == moves.start).all() else net(after)


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
