"""What is known of lost ranges without a look at events: the rows ahead of the first k's last.

At every instant of a lost range there were k rows among the first k. A row that is not one of them
does not come before the last of them. So with the *edge* of a range, the best of these last rows
over its instants, all rows before the edge were among the first k whenever they held. With what the
batch brings and takes they are known, and only events from the edge on have to be looked up.

Example, k = 2, lower codes are better, lost is [0, 10): the first two were 1 and 4 until 6, 1 and 7
from then on. The edge is 4. Code 1 is known, and that it is withdrawn; nothing but what is at 4 or
behind it is read, however many rows have come and gone before it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from anabranch.kernels.columns.extremes import NONE, cover_max
from anabranch.kernels.columns.grouped import Ints, positions_of
from anabranch.kernels.top_k.best_rows import Ranges, Stretches, instants_of, net
from anabranch.kernels.trace.ranked_events import unknown_event
from anabranch.kernels.trace.runs import search

_MOST: Final = np.int64(2**63 - 1)


def rows_ahead(was: Stretches, moved: Stretches, lost: Ranges) -> tuple[Ints, Stretches]:
    """The edges of lost ranges, as codes, and the rows before them; owners of these are ranges.

    From the first k as they were, and the moves of the batch. The ranges of an owner do not
    overlap, and come in order.
    """
    held = _cut(was, lost)
    edge = _edges(held, len(lost.owner))
    once = np.repeat(np.arange(len(held.owner)), held.count)
    every = held.take(once).beside(_cut(moved, lost))
    every = every.take(np.flatnonzero(every.code < edge[every.owner]))
    rows = net(every.owner, every.code, every.low, every.high)
    if (rows.count < 0).any():
        raise unknown_event()
    return edge, rows


def _cut(rows: Stretches, lost: Ranges) -> Stretches:
    """Rows cut to the lost ranges of their owners, which take the place of these."""
    first, last = np.minimum(rows.low, rows.high), np.maximum(rows.low, rows.high)
    begin = np.searchsorted(lost.owner, rows.owner, side="left")
    stop = np.searchsorted(lost.owner, rows.owner, side="right")
    from_ = search(lost.high, begin, stop, first, after_equal=True)
    until = search(lost.low, begin, stop, last, after_equal=False)
    range_, row = positions_of(from_, until)
    pieces = rows.take(row)
    low, high = lost.low[range_], lost.high[range_]
    return Stretches(
        range_,
        pieces.code,
        np.clip(pieces.low, low, high),
        np.clip(pieces.high, low, high),
        pieces.count,
    )


def _edges(held: Stretches, ranges: int) -> Ints:
    """The least over all instants of a range of the largest code that holds there."""
    range_, _, index = instants_of(
        np.concatenate([held.owner, held.owner]), np.concatenate([held.low, held.high])
    )
    begin, stop = np.split(index, 2)
    largest = cover_max(len(range_), begin, stop, held.code)
    # At the end of a range nothing is covered.
    is_inside = np.append(range_[1:] == range_[:-1], False)
    edge = np.full(ranges, _MOST)
    np.minimum.at(edge, range_[is_inside], largest[is_inside])
    assert ((edge > NONE) & (edge < _MOST)).all(), "nothing is lost where fewer than k rows were"
    return edge
