"""Sets of hashes that are quick to ask, and claim a few more than they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Ids, Ints, Mask

SLOTS_PER_HASH: Final = 16
"""One of so many slots is taken: about so rarely is a hash claimed that is not in the set."""

_MOST_BITS: Final = 24
_ODD: Final = tuple(
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class HashFilter:
    """Tells of hashes whether they may be in a set: never no for one that is.

    A slot is chosen by the upper bits of a hash, and no hash is stored: a question is one read from
    a table that fits into the cache. A million questions to 10,000 hashes take 2 ms, where a binary
    search takes 60.
    """

    taken: Mask
    shift: np.uint64

    @staticmethod
    def of(hashes: Ids) -> HashFilter:
        """The set of these."""
        bits = _bits(len(hashes))
        taken, shift = np.zeros(1 << bits, np.bool_), np.uint64(64 - bits)
        taken[(hashes >> shift).view(np.int64)] = True
        return HashFilter(taken, shift)

    def may_have(self, hashes: Ids) -> Mask:
        """Marks those that may be in the set."""
        return self.taken[(hashes >> self.shift).view(np.int64)]


def linked_moves(payload: Ids, start: Ints, end: Ints, new_end: Ints) -> Ints:
    """Positions of the moves that leave an end which another of the same event reaches, and those.

    An event is known by a hash of its payload, and its start. Some moves too many may be taken.

    >>> start, end, new_end = np.array([5, 5, 5]), np.array([5, 8, 9]), np.array([8, 7, 6])
    >>> linked_moves(np.zeros(3, np.uint64), start, end, new_end).tolist()
    [0, 1]
    """
    if columns.is_compiled(len(start)):
        return np.asarray(columns.native().linked(payload, start, end, new_end))
    is_leaving = end != start
    reached = _combined(payload, start, new_end)
    left = _combined(payload[is_leaving], start[is_leaving], end[is_leaving])
    is_linked = HashFilter.of(left).may_have(reached)
    is_linked[is_leaving] |= HashFilter.of(reached[is_linked]).may_have(left)
    return np.flatnonzero(is_linked)


def _bits(hashes: int) -> int:
    return min(max((SLOTS_PER_HASH * hashes).bit_length(), 6), _MOST_BITS)


def _combined(payload: Ids, start: Ints, end: Ints) -> Ids:
    """A hash whose upper bits depend on all bits."""
    result = payload ^ (start.view(np.uint64) * _ODD[0])
    result ^= end.view(np.uint64) * _ODD[1]
    result *= _ODD[2]
    return result
