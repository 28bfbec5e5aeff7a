"""Compiled loops over times: the windows that show points or rows, and rows that come too late."""

from __future__ import annotations

import numpy as np

from anabranch.kernels.columns.grouped import Ints
from anabranch.model.numbers.compiled import INT, INTS, compiled, together
from anabranch.model.time import BEGINNING, FOREVER

_BEGINNING = np.int64(BEGINNING)
_FOREVER = np.int64(FOREVER)


@together
def _slide_around(time: np.int64, slide: np.int64) -> tuple[np.int64, np.int64]:
    """The first instant that moves up to the same slide instant as a time, and that one."""
    before = time % slide
    after = slide - 1 - before
    first = time - before if time >= _BEGINNING + before else _BEGINNING
    last = time + after if time <= _FOREVER - after else _FOREVER
    return first, last


@compiled(INTS, INT, INT)
def held_points(start: Ints, size: np.int64, slide: np.int64) -> tuple[Ints, Ints, bool]:
    """Begin and end of what a window makes of points, at slide instants, and whether all are shown.

    A point at t is held in [t, t + size), and both ends move up to the next of the slide instants
    slide - 1, 2 * slide - 1, ... A division takes ten times as long as everything else here, and
    times of rows that follow each other mostly lie between the same two slide instants: then there
    is none. Where the slide divides the size, the end is the begin plus the size, for moving both
    by the same multiple changes nothing.

    Example: size 10, slide 5: 7 is held in [7, 17), which becomes [9, 19); 8 lies in 5..9 as well.
    """
    begin, end = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    is_whole = size % slide == 0
    low, high = np.int64(1), np.int64(0)
    low_end, high_end = np.int64(1), np.int64(0)
    shown = True
    for row in range(len(start)):
        time = start[row]
        if time < low or time > high:
            low, high = _slide_around(time, slide)
        if size == _FOREVER:
            last = _FOREVER
        elif is_whole:
            last = high + size if high <= _FOREVER - size else _FOREVER
        else:
            after = time + size if time <= _FOREVER - size else _FOREVER
            if after < low_end or after > high_end:
                low_end, high_end = _slide_around(after, slide)
            last = high_end
        begin[row], end[row] = high, last
        if high in (_FOREVER, last):
            shown = False
    return begin, end, shown


@compiled(INTS, INTS, INTS, INTS, INT)
def moved_ends(
    times: Ints, old: Ints, new: Ints, chunk: Ints, size: np.int64
) -> tuple[Ints, Ints, Ints, Ints]:
    """The ends that move in a window of the last rows: element, start, end before and after.

    Elements come by chunk and time, each with how often it is there before and after. The i-th copy
    of a chunk ends where the one `size` copies later begins, FOREVER where there is none; more
    copies at one instant than the window holds push each other out at once. A copy that was not
    there, or is not there any more, has its end at its start. What moves is paired copy by copy;
    beyond `size` of them both ends are at the start, so only those are looked at.

    Example: size 2, one copy each at 20, 30, 40, 50 before, and one more at 35 after: 20 ends at 40
    before and at 35 after, 30 at 50 and 40, 35 at 35 (it was not there) and 50; 40 and 50 end
    beyond the chunk, FOREVER both times.
    """
    room = befores = afters = 0
    for row in range(len(times)):
        room += min(max(old[row], new[row]), size)
        befores += min(old[row], size)
        afters += min(new[row], size)
    was, now = np.empty(befores, np.int64), np.empty(afters, np.int64)
    element, start = np.empty(room, np.int64), np.empty(room, np.int64)
    end, new_end = np.empty(room, np.int64), np.empty(room, np.int64)
    found = begin = 0
    while begin < len(times):
        before = after = 0
        stop = begin
        while stop < len(times) and chunk[stop] == chunk[begin]:
            for _ in range(min(old[stop], size)):
                was[before] = times[stop]
                before += 1
            for _ in range(min(new[stop], size)):
                now[after] = times[stop]
                after += 1
            stop += 1
        # Indexes of the copy that leaves when a copy comes; size may be FOREVER.
        one = other = 0
        for row in range(begin, stop):
            olds, news = min(old[row], size), min(new[row], size)
            for copy in range(max(olds, news)):
                left = reached = times[row]
                if copy < olds:
                    left = was[one + copy + size] if size < before - one - copy else _FOREVER
                if copy < news:
                    reached = now[other + copy + size] if size < after - other - copy else _FOREVER
                if left != reached:
                    element[found], start[found] = row, times[row]
                    end[found], new_end[found] = left, reached
                    found += 1
            one += olds
            other += news
        begin = stop
    return element[:found], start[:found], end[:found], new_end[:found]


@compiled(INTS, INTS, INT, INT)
def any_late(start: Ints, smaller: Ints, promised: int, delay: int) -> bool:
    """Whether a row moves an end that was settled when it came.

    Settled is what lies before `promised`, and before the largest start of the rows in front of
    the row less the delay. So most pieces are judged in one pass that keeps nothing.
    """
    bound = promised
    for row in range(len(start)):
        if smaller[row] < bound:
            return True
        # Where the difference would leave the numbers nothing is promised.
        if start[row] >= _BEGINNING + delay:
            bound = max(bound, start[row] - delay)
    return False
