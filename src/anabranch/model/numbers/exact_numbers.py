"""Columns of whole numbers of any size, from which floats come with one rounding at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np
import numpy.typing as npt

from anabranch.model.numbers.digits import ODD, RELIEF, DigitWindow, Floats, Ints

Limbs = list[Ints]
Mask = npt.NDArray[np.bool_]

_LOW: Final = np.int64(2**32 - 1)
MOST: Final = 2**31
"""Divisors are smaller than this, so that a step of a division fits into 64 bits."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """Whole numbers of any size times one power of two: (-1)^negative * sum(limb_i * 2^32i) * 2^e.

    Limbs are from 0 to 2^32 - 1, the smallest first. With `more`, a number is that, and then some
    that is less than one: what a division leaves.
    """

    limbs: Limbs
    exponent: int
    negative: Mask
    more: Mask

    def __len__(self) -> int:
        return len(self.negative)

    @staticmethod
    def of_digits(digits: Mapping[int, Ints], window: DigitWindow) -> Exact:
        """Sums in digits, which `carry` has put in order."""
        slots = sorted(slot for slot in digits if slot not in (*ODD, RELIEF))
        lowest = window.position(slots[0])
        room = (window.position(slots[-1]) - lowest) // 32 + 4
        return Exact.of_parts(
            [(digits[slot], window.position(slot) - lowest) for slot in slots], lowest, room
        )

    @staticmethod
    def of_parts(parts: Sequence[tuple[Ints, int]], exponent: int, room: int) -> Exact:
        """The sum of whole numbers times powers of two (not negative), in so many limbs."""
        zero = np.zeros(len(parts[0][0]), np.int64)
        limbs = [zero] * room
        for part, offset in parts:
            at, shift = divmod(offset, 32)
            for half in (part & _LOW, part >> 32):
                moved = half << shift
                limbs[at] = limbs[at] + (moved & _LOW)
                limbs[at + 1] = limbs[at + 1] + (moved >> 32)
                at += 1
        limbs = _settled(limbs)
        negative = limbs[-1] < 0
        if negative.any():
            limbs = _settled([np.where(negative, -limb, limb) for limb in limbs])
        return Exact(limbs, exponent, negative, np.zeros(len(zero), np.bool_))

    def times(self, factor: Ints) -> Exact:
        """The product with numbers that are not negative."""
        if factor.max(initial=0) >= MOST:
            parts = []
            for at, limb in enumerate(self.limbs):
                parts += [(limb * (factor & (MOST - 1)), 32 * at)]
                parts += [(limb * (factor >> 31 & (MOST - 1)), 32 * at + 31)]
            product = Exact.of_parts(parts, self.exponent, len(self.limbs) + 4)
            return replace(product, negative=self.negative, more=self.more)
        limbs = [limb * factor for limb in self.limbs]
        return Exact(
            _settled([*limbs, np.zeros_like(factor)]), self.exponent, self.negative, self.more
        )

    def squared(self) -> Exact:
        """The product with itself."""
        size = len(self.limbs)
        limbs = [np.zeros(len(self), np.int64)] * (2 * size + 1)
        used = [limb.any() for limb in self.limbs]
        for one in range(size):
            for other in range(one, size):
                if not (used[one] and used[other]):
                    continue
                product = self.limbs[one].view(np.uint64) * self.limbs[other].view(np.uint64)
                low = (product & np.uint64(_LOW)).view(np.int64)
                high = (product >> np.uint64(32)).view(np.int64)
                twice = 1 if one == other else 2
                limbs[one + other] = limbs[one + other] + twice * low
                limbs[one + other + 1] = limbs[one + other + 1] + twice * high
        positive = np.zeros(len(self), np.bool_)
        return Exact(_settled(limbs), 2 * self.exponent, positive, positive)

    def minus(self, other: Exact) -> Exact:
        """The difference of two numbers, neither of which is negative."""
        lowest = min(self.exponent, other.exponent)
        room = 3 + max(len(each.limbs) + (each.exponent - lowest) // 32 for each in (self, other))
        parts = []
        for each, sign in ((self, 1), (other, -1)):
            offset = each.exponent - lowest
            parts += [(sign * limb, offset + 32 * at) for at, limb in enumerate(each.limbs)]
        return Exact.of_parts(parts, lowest, room)

    def over(self, *divisors: Ints) -> Exact:
        """The quotient by numbers from 1 to 2^31 - 1, one after the other; enough of its bits.

        64 bits more than the dividend has, less those of the divisors, are more than a float has.
        """
        more, added = self.more, 2 + len(divisors)
        zero = np.zeros(len(self), np.int64)
        limbs = [*([zero] * added), *self.limbs]
        for divisor in divisors:
            remainder = zero
            for at in range(len(limbs) - 1, -1, -1):
                left = (remainder << 32) | limbs[at]
                limbs[at] = left // divisor
                remainder = left - limbs[at] * divisor
            more = more | (remainder != 0)
        return Exact(limbs, self.exponent - 32 * added, self.negative, more)

    def rounded(self) -> Floats:
        """The nearest floats."""
        length = len(self)
        if not length:
            return np.zeros(0)
        matrix = np.stack([*self.limbs[::-1], *[np.zeros(length, np.int64)] * 2])
        lead = np.argmax(matrix != 0, axis=0)
        rows = np.arange(length)
        first, second, third = (
            matrix[np.minimum(lead + step, len(matrix) - 1), rows].view(np.uint64)
            for step in range(3)
        )
        behind = _any_behind(matrix, lead + 3)
        # The 64 leading bits, and whether anything follows them.
        _, bits = np.frexp(np.maximum(first, np.uint64(1)).astype(np.float64))
        up = (32 - bits).astype(np.uint64)
        word = (first << np.uint64(32)) | second
        bits64 = (word << up) | (third >> (np.uint64(32) - up))
        dropped = (third << up) & np.uint64(_LOW)
        sticky = behind | self.more | (dropped != 0)
        # The exponent of the last of these 64 bits.
        exponent = self.exponent + 32 * (len(self.limbs) - 1 - lead) - 32 - up.astype(np.int64)
        return _nearest(bits64, sticky, exponent, self.negative)

    def to_digits(self) -> dict[int, Ints]:
        """Numbers that are not negative in the digits of `WHOLE_SQUARES`."""
        assert self.exponent == 0
        limbs: Limbs = [*self.limbs, *[np.zeros_like(self.limbs[0])] * 4]
        (first, second, third, fourth), others = limbs[:4], limbs[4:]
        low = np.int64(2**28 - 1)
        digits = {0: first, 1: second, 2: third + ((fourth & low) << 32)}
        for at, limb in enumerate(others):
            digit = (fourth >> 28) | ((limb & low) << 4)
            if digit.any():
                digits[3 + at] = digit
            fourth = limb
        return digits

    def at(self, row: int) -> Fraction:
        """One of the numbers."""
        number = sum(int(limb[row]) << (32 * at) for at, limb in enumerate(self.limbs))
        return Fraction(-number if self.negative[row] else number) * Fraction(2) ** self.exponent


def _any_behind(matrix: npt.NDArray[np.int64], first: Ints) -> Mask:
    """Whether anything from a row on is not 0, per column."""
    found = np.zeros(matrix.shape[1], np.bool_)
    for at in range(3, len(matrix)):
        found |= (matrix[at] != 0) & (at >= first)
    return found


def _nearest(bits: npt.NDArray[np.uint64], sticky: Mask, exponent: Ints, negative: Mask) -> Floats:
    """64-bit numbers, and then some, times powers of two, as floats."""
    # 11 bits are too many; more where the result is below the normal range.
    below = -1074 - exponent
    shift = np.clip(below, 11, 63).astype(np.uint64)
    kept = bits >> shift
    half = (bits >> (shift - np.uint64(1))) & np.uint64(1)
    rest = (bits & ((np.uint64(1) << (shift - np.uint64(1))) - np.uint64(1))) != 0
    above = (half == 1) & (rest | sticky | ((kept & np.uint64(1)) == 1))
    mantissa = (kept + above).astype(np.float64)
    scale = np.clip(exponent + shift.astype(np.int64), -1100, 1100).astype(np.int32)
    with np.errstate(over="ignore", under="ignore"):
        result: Floats = np.ldexp(mantissa, scale)
    if (below > 63).any():
        # Less than the smallest float: that, if it is more than half of it.
        more_than_half = (below == 64) & ((bits > np.uint64(2**63)) | sticky)
        result = np.where(below > 63, np.where(more_than_half, 2.0**-1074, 0.0), result)
    return np.where(negative, -result, result)


def _settled(limbs: Sequence[Ints]) -> Limbs:
    """The same number with limbs from 0 to 2^32 - 1; the last one keeps the sign."""
    result, up = [], None
    for at, limb in enumerate(limbs):
        whole = limb if up is None else limb + up
        if at == len(limbs) - 1:
            result.append(whole)
            break
        result.append(whole & _LOW)
        up = whole >> 32
    return result


def quotients(dividend: Exact, divisors: Sequence[Ints], scale: int = 0) -> Floats:
    """The nearest floats to quotients by positive numbers, and by 10^scale."""
    steps = [np.full(len(dividend), 10 ** min(9, left), np.int64) for left in range(scale, 0, -9)]
    small = [np.minimum(divisor, MOST - 1) for divisor in divisors]
    found = dividend.over(*small, *steps).rounded()
    large = np.zeros(len(dividend), np.bool_)
    for divisor in divisors:
        large |= divisor >= MOST
    for row in np.flatnonzero(large):
        exact = dividend.at(int(row)) / 10**scale
        for divisor in divisors:
            exact /= int(divisor[row])
        found[row] = nearest(exact)
    return found


def nearest(exact: Fraction) -> float:
    """The nearest float; beyond their range, infinity."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
