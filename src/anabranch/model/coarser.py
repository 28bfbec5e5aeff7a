"""Times that are counted in coarser steps than those in which they were written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray


def coarser(arrivals: Arrivals, step: int) -> Arrivals:
    """The same elements where `step` instants are one.

    A start becomes the chronon that it lies in, and so do an end and a stable point; but what
    holds at all holds for at least one chronon. So lifetimes that follow one upon the other still
    do, and a promise never says more than before: what comes at or after a stable point s lies in
    the chronon of s or later.

    Example with step 10: a point [17, 18) becomes [1, 2), and [17, 45) becomes [1, 4).

    Of a revision the chronons are left that it changes from their first instant on; so it never
    reaches beyond the stable point.
    """
    if step == 1:
        return arrivals
    batch = arrivals.batch
    start = _chronons(batch.start, step)

    def ends(times: TimeArray) -> TimeArray:
        held = np.maximum(_chronons(times, step), start + 1)
        return np.where(times > batch.start, held, start)

    stables = _chronons(arrivals.stables, step)
    revised = [
        (revision, at)
        for each, at in zip(arrivals.revisions, arrivals.revision_positions)
        if len((revision := _coarser_revision(each, step)).changes)
    ]
    stable, latest = _chronons(np.array([batch.stable, arrivals.latest], np.int64), step).tolist()
    return replace(
        arrivals,
        batch=replace(
            batch,
            start=start,
            end=ends(batch.end),
            new_end=ends(batch.new_end),
            stable=Time(stable),
        ),
        stables=stables,
        latest=Time(latest),
        revisions=tuple(revision for revision, _ in revised),
        revision_positions=tuple(at for _, at in revised),
    )


def chronon_of_time(time: Time, step: int) -> Time:
    """The chronon that one instant lies in where `step` instants are one."""
    return time if time in (FOREVER, BEGINNING) else Time(int(time) // step)


def in_microseconds(batch: EventBatch, clock: Clock) -> EventBatch:
    """The same rows with times in microseconds, where they are timestamps."""
    if not clock.timestamps or clock.chronon == 1:
        return batch
    stable = clock.microseconds(np.array([batch.stable], np.int64))
    return replace(
        batch,
        start=clock.microseconds(batch.start),
        end=clock.microseconds(batch.end),
        new_end=clock.microseconds(batch.new_end),
        stable=Time(int(stable[0])),
    )


def _coarser_revision(revision: Revision, step: int) -> Revision:
    changes = revision.changes
    start, end, new_end = (
        _chronons(times, step) for times in (changes.start, changes.end, changes.new_end)
    )
    return replace(
        revision,
        first=chronon_of_time(revision.first, step),
        last=chronon_of_time(revision.last, step),
        changes=replace(changes, start=start, end=end, new_end=new_end).where(end != new_end),
    )


def _chronons(times: TimeArray, step: int) -> TimeArray:
    is_bound = (times == FOREVER) | (times == BEGINNING)
    return np.where(is_bound, times, times // np.int64(step))
