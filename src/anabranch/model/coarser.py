"""Times that are counted in coarser steps than those in which they were written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray


def coarser(arrivals: Arrivals, step: int) -> Arrivals:
    """The same elements where `step` instants are one.

    A start becomes the chronon that it lies in, and so do an end and a stable point; but what
    holds at all holds for at least one chronon. So lifetimes that follow one upon the other still
    do, and a promise never says more than before: what comes at or after a stable point s lies in
    the chronon of s or later.

    Example with step 10: a point [17, 18) becomes [1, 2), and [17, 45) becomes [1, 4).
    """
    if step == 1:
        return arrivals
    batch = arrivals.batch
    start = _chronons(batch.start, step)

    def ends(times: TimeArray) -> TimeArray:
        held = np.maximum(_chronons(times, step), start + 1)
        return np.where(times > batch.start, held, start)

    stables = _chronons(arrivals.stables, step)
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


def _chronons(times: TimeArray, step: int) -> TimeArray:
    is_bound = (times == FOREVER) | (times == BEGINNING)
    return np.where(is_bound, times, times // np.int64(step))
