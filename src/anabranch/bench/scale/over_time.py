"""What a long run costs late, over what it cost early: of its batches, and of its memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

COMPARED: Final = 5
"""So many batches are left out at the beginning of a long run, and so many are compared."""


def growth(each: Sequence[float], *, until: int | None = None, compared: int = COMPARED) -> float:
    """What the last batches cost, or those before `until`, over what the early ones cost.

    The first batches count for nobody: Java's compiler is at work in them, and a cost that is
    compared with theirs could grow unseen. Where there are few batches, fewer are left out and
    compared.

    >>> growth([9.0] * 5 + [1.0] * 5 + [2.0] * 30 + [3.0] * 10)
    3.0
    >>> growth([9.0] * 5 + [1.0] * 5 + [2.0] * 30 + [3.0] * 10, until=25)
    2.0
    >>> growth([9.0, 1.0, 2.0, 2.0, 3.0]), growth([9.0, 1.0, 2.0, 2.0, 3.0], until=2)
    (3.0, 2.0)
    """
    part = max(1, min(compared, len(each) // 6))
    last = each if until is None else each[: max(until, 2 * part + 1)]
    return statistics.median(last[-part:]) / statistics.median(each[part : 2 * part])


def doubling(memory: list[int]) -> float:
    """The most of the second half over the most of the first."""
    half = len(memory) // 2
    return max(memory[half:]) / max(memory[:half])
