"""Hopping windows over many lifetimes at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from anabranch.algebra.modules.axis_window import Hopping
from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import Ints, Mask, positions_of
from anabranch.model.time import BEGINNING, FOREVER, Time

MAX_WINDOWS: Final = 50_000_000
"""A batch whose events are in more windows than this is refused."""

_FAR: Final = 2**61


def windows_over(
    window: Hopping,
    low: Ints,
    high: Ints,
    *,
    inside: Mask | None = None,
    since: int = BEGINNING,
    before: Ints | int = FOREVER,
) -> tuple[Ints, Ints, Ints]:
    """All windows that overlap stretches [low, high): the number of the stretch, start and end.

    Args:
        window: The grid.
        low: Where the stretches begin.
        high: Where they end.
        inside: Where this is true, windows must begin in the stretch.
        since: Windows begin at this instant or later.
        before: Windows begin before this instant, or before that of their stretch.
    """
    nonempty = np.flatnonzero(low < high)
    if not len(nonempty):
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing
    low, last = low[nonempty], np.minimum(high, before)[nonempty]
    strict = np.zeros(len(nonempty), np.bool_) if inside is None else inside[nonempty]
    if int(low.min()) < -_FAR or max(int(low.max()), int(last.max())) > _FAR:
        owner, start, end = _one_by_one(window, low, last, strict, since)
        return nonempty[owner], start, end
    first = (low - window.offset - window.size) // window.hop + 1
    first = np.where(strict, -((window.offset - low) // window.hop), first)
    if since > -_FAR:
        first = np.maximum(first, -((window.offset - since) // window.hop))
    after = -((window.offset - np.maximum(last, -2 * _FAR)) // window.hop)
    _refuse_many(int(np.maximum(after - first, 0).sum()))
    number, owner = positions_of(first, after)
    start = number * window.hop + window.offset
    return nonempty[owner], start, start + window.size


def _one_by_one(
    window: Hopping, low: Ints, last: Ints, strict: Mask, since: int
) -> tuple[Ints, Ints, Ints]:
    """The same near the ends of time, where numbers would not fit."""
    found: list[tuple[int, int, int]] = []
    for index, (begin, end, inside) in enumerate(
        zip(low.tolist(), last.tolist(), strict.tolist(), strict=True)
    ):
        first, after = window.numbers(begin, begin + 1).start, window.numbers(begin, end).stop
        if since > BEGINNING:
            first = max(first, -((window.offset - since) // window.hop))
        _refuse_many(len(found) + after - first)
        for number in range(first, after):
            start = number * window.hop + window.offset
            if start >= begin or not inside:
                found.append((index, *window.span(number)))
    # Compiled loops want columns that lie apart.
    owner, begins, ends = np.ascontiguousarray(np.array(found, np.int64).reshape(-1, 3).T)
    return owner, begins, ends


def _refuse_many(count: int) -> None:
    if count > MAX_WINDOWS:
        raise StreamError(
            f"the events of one batch are in {count:,} windows",
            where="hopping windows",
            hint="use a larger hop, or shorter lifetimes: an event is in every window it overlaps",
        )


def first_open(window: Hopping, instant: int) -> Time:
    """The start of the first window that ends after an instant."""
    if instant <= BEGINNING:
        return BEGINNING
    number = (instant - window.offset - window.size) // window.hop + 1
    return Time(min(window.span(number)[0], FOREVER))
