"""Rows that come after a promise, and how far a source has promised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt

from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import is_compiled, native
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.open_part import open_part
from anabranch.model.revision import reversed_changes
from anabranch.model.time import (
    BEGINNING,
    FOREVER,
    Time,
    TimeArray,
    add_saturating,
    subtract_saturating,
)
from anabranch.runtime.sources.event_names import Names, event_names
from anabranch.runtime.sources.spec import Promise


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """The rows that keep the promise, how many did not, and what is promised behind them.

    `late` rows were left out, `adjusted` ones clipped to what was still open. `withheld` is what
    came and is not in `batch`: the late rows, less what is left of them. To be added up, not to be
    read one by one: a clipped row stands in it as it came, and once more backwards as it is.
    """

    batch: EventBatch
    promised: Time
    late: int = 0
    adjusted: int = 0
    withheld: EventBatch | None = None


def judge(
    promise: Promise,
    promised: Time,
    arrivals: Arrivals,
    *,
    where: str,
    in_order: bool = True,
    held: Names | None = None,
    said: Time | None = None,
) -> Verdict:
    """Compare every row with what the source had promised when it came.

    The rule: a row is late if an end it moves lies before the stable point of its position, and
    that is the largest of all stable elements in front of it and, with a declared delay, of all
    starts in front of it less the delay. Nothing else counts: `promised` is the same for what lies
    in front of the piece, so pieces judged one after the other give what one piece would give,
    wherever they are cut. An insert moves an end from its start on, so the smaller end of the move
    decides. A late row starts before its stable point: it never raises that of the rows behind it.

    Args:
        promise: What the source declares.
        promised: The stable point in front of the piece.
        arrivals: The piece.
        where: What messages call its origin.
        in_order: Rows have positions; else all are compared with `promised` alone.
        held: Rows of these events are withheld as if they were late.
        said: What the piece promises, if it is known: see `reached`.

    Raises:
        StreamError: A row is late, and the policy says that this must not happen.
    """
    batch = arrivals.batch
    after = Time(max(promised, reached(promise, arrivals) if said is None else said))
    if promise.stamped:
        start = np.maximum(batch.start, np.int64(promised))
        rows = replace(batch, start=start, end=start, new_end=add_saturating(start, 1))
        return Verdict(rows, after)
    if promise.only_inserts and batch.end is not batch.start:
        _refuse_adjusts(promise, arrivals, where)
    # Where everything is an insert both ends are one array, and this copies nothing.
    smaller = batch.end if batch.end is batch.start else np.minimum(batch.end, batch.new_end)
    # Most pieces have no late row, and two passes of plain minimum and maximum tell.
    is_held = _is_held(batch, promised, held)
    if is_held is None and (not len(batch) or smaller.min() >= (after if in_order else promised)):
        return Verdict(batch, after)
    if is_held is None and in_order and _none_is_late(promise, promised, arrivals, smaller):
        return Verdict(batch, after)
    bound = _stable_points(promise, promised, arrivals) if in_order else np.int64(promised)
    is_late = smaller < bound
    if is_held is not None:
        is_late |= is_held
    count = int(np.count_nonzero(is_late))
    if not count:
        return Verdict(batch, after)
    if promise.late == "fail":
        raise _broken(promise, arrivals, bound, int(np.argmax(is_late)), where)
    if promise.late == "revise":
        is_late = of_late_events(batch, is_late)
    late = batch.where(is_late)
    if promise.late in ("drop", "revise"):
        return Verdict(batch.where(~is_late), after, late=count, withheld=late)
    clipped = open_part(batch, bound)
    rest = open_part(late, bound if isinstance(bound, np.int64) else bound[is_late])
    withheld = EventBatch.concat([late, reversed_changes(rest)])
    return Verdict(clipped, after, late=count - len(rest), adjusted=len(rest), withheld=withheld)


def _is_held(batch: EventBatch, promised: Time, held: Names | None) -> npt.NDArray[np.bool_] | None:
    """The rows in time that move events which are held; None if there are none."""
    if held is None or not len(held):
        return None
    moves = np.flatnonzero((batch.end != batch.start) & (batch.start < np.int64(promised)))
    found = np.zeros(len(batch), np.bool_)
    if len(moves):
        found[moves] = np.isin(event_names(batch.take(moves)), held)
    return found if found.any() else None


def of_late_events(batch: EventBatch, is_late: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The late rows, and those in time that move an event of which a row is late.

    With the stable point 20, an insert for [5, 30) is late and its adjust to [5, 25) is not. The
    query does not know the event before it is revised, so the adjust has to wait with it.
    """
    moves = ~is_late & (batch.end != batch.start)
    moves &= np.isin(batch.start, batch.start[is_late])
    if not moves.any():
        return is_late
    of_event = np.flatnonzero(is_late | moves)
    rows = batch.take(of_event)
    names = event_names(rows)
    found = is_late.copy()
    found[of_event] = np.isin(names, names[is_late[of_event]])
    return found


def with_late_events(rows: EventBatch, late: EventBatch) -> tuple[EventBatch, EventBatch]:
    """Rows of several pieces in time, and late ones: those that move late events go over."""
    both = EventBatch.concat([rows, late])
    is_late = of_late_events(both, np.arange(len(both)) >= len(rows))
    return both.where(~is_late).with_stable(rows.stable), both.where(is_late)


def _none_is_late(promise: Promise, promised: Time, arrivals: Arrivals, smaller: TimeArray) -> bool:
    """Whether no row is late, as one pass tells; not with a delay and stable points as well."""
    if promise.delay is None:
        return _none_below_stables(promised, arrivals, smaller)
    if len(arrivals.stables) or not is_compiled(len(arrivals)):
        return False
    start = np.ascontiguousarray(arrivals.batch.start)
    ends = np.ascontiguousarray(smaller)
    return not native().any_late(start, ends, int(promised), int(promise.delay))


def _none_below_stables(promised: Time, arrivals: Arrivals, smaller: TimeArray) -> bool:
    """The rows between two stable points share their bound, so the smallest of them decides.

    Rows 7, 5, stable 5, rows 6, 9: 5 is compared with what was promised before, 6 with 5.
    """
    behind = np.searchsorted(arrivals.position, arrivals.stable_positions, side="right")
    begins = np.r_[0, behind]
    bounds = np.maximum.accumulate(np.r_[np.int64(promised), arrivals.stables])
    # Where no row is between two, `reduceat` gives the next one, whose own bound is no smaller.
    followed = begins < len(smaller)
    least = np.minimum.reduceat(smaller, begins[followed])
    return bool((least >= bounds[followed]).all())


def _stable_points(promise: Promise, promised: Time, arrivals: Arrivals) -> TimeArray | np.int64:
    """For each row the stable point that everything in front of it has set.

    Starts 3, 9, 5, 7 with a delay of 3, nothing promised in front: -forever, 0, 6, 6. So the row
    at 5 is late, the one at 7 is not.
    """
    bound: TimeArray | np.int64 = np.int64(promised)
    if len(arrivals.stables):
        bound = np.maximum(arrivals.bound, bound)
    if promise.delay is not None:
        latest = np.empty(len(arrivals), np.int64)
        # Below this the difference would leave the numbers; it stands for BEGINNING.
        latest[0] = lowest = np.int64(BEGINNING + promise.delay)
        np.maximum.accumulate(arrivals.batch.start[:-1], out=latest[1:])
        np.maximum(latest, lowest, out=latest)
        latest -= np.int64(promise.delay)
        bound = np.maximum(bound, latest, out=latest)
    return bound


def reached(promise: Promise, arrivals: Arrivals) -> Time:
    """What a source promises with these rows: explicitly, or by its declared delay."""
    stable = arrivals.batch.stable
    if promise.delay is not None and (len(arrivals) or arrivals.left_out):
        latest = Time(int(arrivals.batch.start.max(initial=arrivals.latest)))
        stable = Time(max(stable, subtract_saturating(latest, promise.delay)))
    return stable


def _refuse_adjusts(promise: Promise, arrivals: Arrivals, where: str) -> None:
    """Refuse adjusts of a stream that is declared to be in order.

    Raises:
        StreamError: There is one.
    """
    batch = arrivals.batch
    adjusts = batch.end != batch.start
    if not adjusts.any():
        return
    row = int(np.argmax(adjusts))
    first, last = (promise.clock.format(int(each[row])) for each in (batch.start, batch.end))
    place = f"{where}, row {arrivals.position[row]}"
    raise StreamError(
        "an adjust in a stream that is declared ORDERED, which has inserts only",
        where=f"source '{promise.source}', {place}: [{first}, {last})",
        hint="leave ORDERED (ordered in Python) out",
    )


def _broken(
    promise: Promise, arrivals: Arrivals, bound: TimeArray | np.int64, row: int, where: str
) -> StreamError:
    def at(time: int) -> str:
        return promise.clock.format(int(time))

    batch = arrivals.batch
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
        f"{what} that arrives too late, after {over}",
        where=f"source '{promise.source}', {where}, row {arrivals.position[row]}: "
        f"[{at(batch.start[row])}, {at(end)}){moved}, stable point {at(stable)}",
        hint=hint + "let late rows be dropped, adjusted or revised (late='drop', 'adjust' or "
        "'revise')",
    )
