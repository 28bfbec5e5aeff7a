"""Rows that come after a promise, and how far a source has promised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from anabranch.errors import StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.time import (
    BEGINNING,
    FOREVER,
    Time,
    TimeArray,
    add_saturating,
    format_time,
    subtract_saturating,
)
from anabranch.runtime.source_spec import Promise


@final
@dataclass(frozen=True, slots=True)
class Judged:
    """The rows that keep the promise, and how many did not.

    `late` rows were left out, `adjusted` ones clipped to what was still open.
    """

    batch: EventBatch
    late: int = 0
    adjusted: int = 0


def judge(promise: Promise, promised: Time, came: Arrivals, *, where: str) -> Judged:
    """Compare rows with what was promised before them, in earlier batches and in this piece.

    An insert must not start, and no end may be moved from or to, before the stable point: in
    either case that is the smaller end of the move.

    Raises:
        StreamError: A row is late, and the policy says that this must not happen.
    """
    batch = came.batch
    if promise.stamped:
        start = np.maximum(batch.start, np.int64(promised))
        return Judged(replace(batch, start=start, end=start, new_end=add_saturating(start, 1)))
    bound: TimeArray | np.int64 = np.int64(promised)
    if len(came.stables):
        bound = np.maximum(came.bound, bound)
    elif promised == BEGINNING:
        return Judged(batch)
    is_late = np.minimum(batch.end, batch.new_end) < bound
    count = int(np.count_nonzero(is_late))
    if not count:
        return Judged(batch)
    if promise.late == "fail":
        raise _broken(promise, came, bound, int(np.argmax(is_late)), where)
    if promise.late == "drop":
        return Judged(batch.where(~is_late), late=count)
    # What lies before the stable point is over. A move of an end that lies there begins anew.
    start = np.where(batch.end < bound, bound, batch.start)
    end, new_end = np.maximum(batch.end, bound), np.maximum(batch.new_end, bound)
    open_part = end != new_end
    clipped = replace(batch, start=start, end=end, new_end=new_end).where(open_part)
    adjusted = int(np.count_nonzero(is_late & open_part))
    return Judged(clipped, late=count - adjusted, adjusted=adjusted)


def reached(promise: Promise, came: Arrivals) -> Time:
    """What a source promises after these rows: explicitly, or by its declared delay."""
    stable = came.batch.stable
    if promise.delay is not None and (len(came) or came.left_out):
        latest = Time(int(came.batch.start.max(initial=came.latest)))
        stable = Time(max(stable, subtract_saturating(latest, promise.delay)))
    return stable


def _broken(
    promise: Promise, came: Arrivals, bound: TimeArray | np.int64, row: int, where: str
) -> StreamError:
    def at(time: int) -> str:
        return format_time(int(time), timestamps=promise.timestamps)

    batch = came.batch
    is_insert = batch.end[row] == batch.start[row]
    end = batch.new_end[row] if is_insert else batch.end[row]
    moved = "" if is_insert else f" adjusted to [{at(batch.start[row])}, {at(batch.new_end[row])})"
    stable = np.broadcast_to(bound, len(batch))[row]
    what = "an insert" if is_insert else "an adjust of a lifetime"
    over = "an ended stream" if stable == FOREVER else "a stable point"
    hint = "the source promised too early; "
    if promise.delay is not None:
        hint += "raise its delay, or "
    return StreamError(
        f"{what} that comes too late, after {over}",
        where=f"source '{promise.source}', {where}, row {came.position[row]}: "
        f"[{at(batch.start[row])}, {at(end)}){moved}, stable point {at(stable)}",
        hint=hint + "let late rows be dropped or adjusted (late='drop', late='adjust')",
    )
