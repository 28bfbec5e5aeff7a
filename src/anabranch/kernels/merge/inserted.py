"""What comes again after a restart of an input, as r3: inserts, and adjusts of what is gone.

An input that was restarted inserts again what it has inserted before, and then adjusts it again: in
between, an insert has another end than the input gave the event last. It has, however, an end with
which the input has inserted it before. Of these ends a filter of 64 bits is kept per node and
input: it never takes a repetition for a new insert, and an insert that is new for a repetition
in less than one of 1,000 cases while few ends were inserted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first
from anabranch.kernels.merge.nodes import Elements

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_BITS: Final = 6
_TIMES: Final = 3


def inserted_twice(node: Ints, elements: Elements, ends: Ints, inserted: Ints) -> int | None:
    """The first insert of what its input has already, with an end that it was never inserted with.

    `ends` and `inserted` have a row per node and a column per input: what the input gave the event
    last, and the filter of all that it inserted it with, to which those that come now are added.
    """
    order = np.lexsort((elements.column, node))
    same = ~is_first(node[order], elements.column[order])
    # What the input had before: from the row before of the same event, or from earlier batches.
    had = ends[node, elements.column]
    had[order[same]] = elements.new_end[order[np.flatnonzero(same) - 1]]
    inserts = elements.end == elements.start
    twice = inserts & (had > elements.start) & (had != elements.new_end)
    rows = np.flatnonzero(inserts)
    bits = _bits(elements.new_end[rows])
    at = (node[rows], elements.column[rows])
    if twice.any():
        known = (inserted[at].view(np.uint64) & bits) == bits
        keys = (elements.new_end[rows], *at)
        by_end = np.lexsort(keys)
        # Equal rows keep their order: whoever is not the first comes again.
        known[by_end] |= ~is_first(*(key[by_end] for key in keys))
        twice[rows[known]] = False
    np.bitwise_or.at(inserted, at, bits.view(np.int64))
    return int(twice.argmax()) if twice.any() else None


def adjusts_what_is_over(node: Ints, elements: Elements, ends: Ints) -> Mask:
    """Which rows adjust an event that is over for their input: withdrawn, or its end is settled.

    After a restart adjusts come again that were legal at the time, while others of the same event
    are left out as late. An input that has settled nothing of an event may have missed its insert:
    then an adjust is what it says of the event.
    """
    adjusts = (elements.end != elements.start) & (elements.new_end != elements.start)
    if not adjusts.any():
        return np.zeros(len(elements), np.bool_)
    over = np.maximum(ends[node, elements.column], elements.start) < elements.promised
    found = np.asarray(adjusts & over)
    withdraws = (elements.end != elements.start) & (elements.new_end == elements.start)
    if withdraws.any():
        # Few events are withdrawn, and only with these the order of their rows matters.
        touched = np.zeros(int(node.max()) + 1, np.bool_)
        touched[node[withdraws]] = True
        rows = np.flatnonzero(touched[node])
        order = rows[np.lexsort((elements.column[rows], node[rows]))]
        first = is_first(node[order], elements.column[order])
        # In every group of an event and input: the last row up to here that inserts or withdraws.
        marks = np.where(~adjusts[order] | first, np.arange(len(order)), 0)
        last = order[np.maximum.accumulate(marks)]
        gone, inserted = withdraws[last], elements.end[last] == elements.start[last]
        found[order] = np.where(gone | inserted, gone & adjusts[order], found[order])
    return found


def _bits(ends: Ints) -> Ids:
    """A few bits of 64 for each end."""
    mixed = (ends.view(np.uint64) + np.uint64(1)) * _GOLDEN
    found = np.zeros(len(ends), np.uint64)
    for number in range(_TIMES):
        high = mixed >> np.uint64(64 - _BITS * (number + 1))
        found |= np.uint64(1) << (high & np.uint64((1 << _BITS) - 1))
    return found
