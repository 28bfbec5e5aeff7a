"""Sums of floats without any rounding, from which what was added can be taken away again."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, TypeAlias

ExactSum: TypeAlias = tuple[int, int, int, int, int]
"""A sum: `numerator / 2**shift`, and how often NaN, infinity and -infinity were added.

The numerator is odd, or the shift is 0. So equal sums are equal values, whatever way led there.
"""

ZERO: Final[ExactSum] = (0, 0, 0, 0, 0)


def plus(total: ExactSum, value: float, times: int = 1) -> ExactSum:
    """The sum with a value added so many times; a negative number takes it away.

    >>> plus(plus(plus(ZERO, 1e300), 0.1), 1e300, -1) == plus(ZERO, 0.1)
    True
    """
    numerator, shift, nans, ups, downs = total
    try:
        above, below = value.as_integer_ratio()
    except (OverflowError, ValueError):  # infinite, or NaN
        nans += times * math.isnan(value)
        ups += times * (value > 0)
        downs += times * (value < 0)
        return numerator, shift, nans, ups, downs
    # This runs once for every event: what is below is written for speed, without further calls.
    wanted = below.bit_length() - 1
    if times != 1:
        above *= times
    if wanted > shift:
        numerator, shift = (numerator << (wanted - shift)) + above, wanted
    else:
        numerator += above << (shift - wanted)
    if shift and not numerator & 1:
        if not numerator:
            return 0, 0, nans, ups, downs
        zeros = (numerator & -numerator).bit_length() - 1
        if zeros > shift:
            zeros = shift
        numerator, shift = numerator >> zeros, shift - zeros
    return numerator, shift, nans, ups, downs


def over(total: ExactSum, count: int) -> float:
    """The sum divided by a positive number, rounded once.

    >>> over(plus(plus(ZERO, 0.1), 0.2), 3)
    0.1
    """
    numerator, shift, nans, ups, downs = total
    if nans or (ups and downs):
        return math.nan
    if ups or downs:
        return math.inf if ups else -math.inf
    try:
        return numerator / (count << shift)
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def fraction(total: ExactSum) -> Fraction | None:
    """The sum as a fraction; None where something was added that is no number."""
    numerator, shift, *strange = total
    return None if any(strange) else Fraction(numerator, 1 << shift)
