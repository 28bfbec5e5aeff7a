"""Exact sums of floats: whole numbers in bins of the exponent, added and taken away without loss.

A float is a whole number times a power of two. The exponents of all floats are cut into *slots*; a
number is split over the slots that its bits lie in, and slots are added up one by one, as whole
numbers of 64 bits. Nothing is rounded, so the order of adding does not matter, what was added can
be taken away, and a sum may leave the range of floats and come back.

Most numbers lie in the few slots of a *window*: those are columns. The others are rare, and travel
in one column of lists (see `pack`), so that they cost nothing where there are none.

Example, with the window of sums (slots 0, 1 and 2 have the units 2^-80, 2^-48 and 2^-16): 1.5 is
98304 in slot 2; 0.1 is 6553 in slot 2, 2576980377 in slot 1 and 2583691264 in slot 0, before the
digits are balanced; 1e300 is 25052104 in slot 32 and 2147965376 in slot 31, both outside the
window.

The invariant: sum(digit * unit of its slot) is the exact sum, whatever was added or carried in
between. Many digit vectors are one number: 2^32 in slot 0 is 1 in slot 1. `carry` gives the one
vector with -half <= digit < half in each slot, so that equal sums are equal bit by bit. Why 64 bits
are enough: a digit of one float is below 2^32 in all slots but the last of the window, so up to
2^31 rows add up within 64 bits; the last slot is wider, and its large digits are halved first
(`relieve`).

>>> digits = split(np.array([0.1, 0.2, -0.3]), SUMS)
>>> total = carry({slot: np.array([lane.sum()]) for slot, lane in digits.items()}, SUMS)
>>> {slot: int(lane[0]) for slot, lane in total.items()}
{0: 33554432, 1: 0, 2: 0}

That is 33554432 * 2^-80 = 2.8e-17, the exact sum of these three floats; adding them as floats gives
5.6e-17. Cost: three whole-number columns per sum where all numbers fit the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Digits = dict[int, Ints]
"""Per slot a digit of every number. Slots that are not there are 0."""

BITS: Final = 32
"""The width of a slot; digits of a batch of up to 2^31 rows add up within 64 bits."""

TOP_BITS: Final = 60
"""The width of the last slot of a window."""

SAFE: Final = 2.0**61
"""What a batch may add to one digit: with a digit that is there already, it fits into 64 bits."""

NAN: Final = 100
PLUS: Final = 101
MINUS: Final = 102
ODD: Final = (NAN, PLUS, MINUS)
"""How often NaN and the infinities were added: slots of their own, that nothing is carried to."""

RELIEF: Final = 103
"""Takes the upper half of the last slot of a window while large digits are added up."""

_HALF_TOP: Final = 30
_SLOT_SHIFT: Final = 48
_SLOT_OFFSET: Final = 128
_DIGIT_OFFSET: Final = np.int64(1 << 47)


@final
@dataclass(frozen=True, slots=True)
class DigitWindow:
    """The slots that are columns: `limbs` of them from exponent `lowest` on, the last one wide."""

    lowest: int
    limbs: int

    def position(self, slot: int) -> int:
        """The exponent of the unit of a slot."""
        beyond = TOP_BITS - BITS if slot >= self.limbs else 0
        return self.lowest + BITS * slot + beyond

    def width(self, slot: int) -> int:
        """How many bits a digit has, its sign among them."""
        return TOP_BITS if slot == self.limbs - 1 else BITS

    def slot_of(self, exponent: Ints) -> Ints:
        """The slot that a bit lies in."""
        offset = exponent - self.lowest
        top = BITS * (self.limbs - 1)
        above = self.limbs + (offset - top - TOP_BITS) // BITS
        inside = np.minimum(offset // BITS, self.limbs - 1)
        return np.where(offset >= top + TOP_BITS, above, inside)


SUMS: Final = DigitWindow(-80, 3)
"""Full digits from 4e-9 on, sums up to 9e12: prices, measurements, ratios."""

SQUARES: Final = DigitWindow(-128, 5)
"""Squares of what has no bits below 2^-64."""

WHOLE_SQUARES: Final = DigitWindow(0, 3)
"""Squares of whole numbers."""


def split(numbers: Floats, window: DigitWindow) -> Digits:
    """Floats in digits; NaN and infinities are counted in slots of their own."""
    digits = {slot: np.zeros(len(numbers), np.int64) for slot in range(window.limbs)}
    finite = np.isfinite(numbers)
    values = numbers
    if not finite.all():
        values = np.where(finite, numbers, 0.0)
        for slot, odd in zip(ODD, (np.isnan(numbers), numbers == np.inf, numbers == -np.inf)):
            if odd.any():
                digits[slot] = odd.astype(np.int64)
    left = _split_in_window(values, window, digits)
    if len(left):
        _add_digits(digits, window, left, values[left], np.zeros(len(left), np.int64))
    return digits


def _split_in_window(values: Floats, window: DigitWindow, digits: Digits) -> Ints:
    """Split what fits into the window; the rows that do not.

    Every step is exact: digits are cut off from the front, and scales are powers of two.
    """
    top = window.limbs - 1
    small = np.abs(values) < 2.0 ** (window.position(top) + TOP_BITS - 2)
    rest = np.where(small, values, 0.0) * 2.0 ** -window.position(top)
    for slot in range(top, -1, -1):
        whole = np.trunc(rest)
        digits[slot] = whole.astype(np.int64)
        rest = (rest - whole) * 2.0**BITS
    left = ~small | (rest != 0)
    if not left.any():
        return np.empty(0, np.int64)
    for slot in range(window.limbs):
        digits[slot][left] = 0
    return np.flatnonzero(left)


def split_squares(numbers: Floats, window: DigitWindow) -> Digits:
    """The squares of floats in digits; of NaN and infinities, nothing.

    A number is m * 2^e with m = high * 2^27 + low, both of at most 26 bits and a sign, so that
    the three products of the square are floats without any rounding.
    """
    digits = {slot: np.zeros(len(numbers), np.int64) for slot in range(window.limbs)}
    part, exponent = np.frexp(np.where(np.isfinite(numbers), numbers, 0.0))
    mantissa, exponents = part * 2.0**53, exponent.astype(np.int64) - 53
    high = np.rint(mantissa * 2.0**-27)
    low = mantissa - high * 2.0**27
    rows = np.arange(len(numbers))
    products = ((high * high, 54), (2.0 * high * low, 27), (low * low, 0))
    for product, shift in products:
        _add_digits(digits, window, rows, product, 2 * exponents + shift)
    return digits


def _add_digits(
    digits: Digits, window: DigitWindow, rows: Ints, values: Floats, exponents: Ints
) -> None:
    """Add values * 2^exponents to the digits of rows, one slot after the other from the front."""
    while True:
        nonzero = np.flatnonzero(values)
        if not len(nonzero):
            return
        rows, values, exponents = rows[nonzero], values[nonzero], exponents[nonzero]
        _, lead = np.frexp(values)
        slots = window.slot_of(lead + exponents - 1)
        digits_taken = np.zeros(len(values))
        for slot in np.unique(slots):
            here = np.flatnonzero(slots == slot)
            shift = (exponents[here] - window.position(int(slot))).astype(np.int32)
            whole = np.trunc(np.ldexp(values[here], shift))
            digits_taken[here] = np.ldexp(whole, -shift)
            into = digits.setdefault(int(slot), np.zeros(len(digits[0]), np.int64))
            into[rows[here]] += whole.astype(np.int64)
        values = values - digits_taken


def relieve(digits: Mapping[int, Ints], window: DigitWindow, rows: int) -> Digits:
    """The same digits, so small that so many rows of them can be added up."""
    top = window.limbs - 1
    largest = float(np.abs(digits[top]).max(initial=0)) if len(digits[top]) else 0.0
    if largest * rows < SAFE:
        return dict(digits)
    mask = np.int64((1 << _HALF_TOP) - 1)
    upper = digits[top] >> _HALF_TOP
    return {**digits, top: digits[top] & mask, RELIEF: digits.get(RELIEF, 0) + upper}


def carry(digits: Mapping[int, Ints], window: DigitWindow) -> Digits:
    """The normal form of the same numbers: every digit lies within half the width of its slot.

    Digits that are balanced around 0 keep small numbers of either sign out of large slots. Slots
    outside of the window that are 0 throughout are left out.
    """
    result = {slot: digits[slot] for slot in digits if slot not in (*ODD, RELIEF)}
    odd = {slot: digits[slot] for slot in ODD if slot in digits and digits[slot].any()}
    top = window.limbs - 1
    slot = min(result)
    while slot <= max(result):
        digit = result.get(slot)
        if digit is None:
            slot += 1
            continue
        if slot == top and RELIEF in digits:
            up, result[slot] = _recombine(digit, digits[RELIEF])
        else:
            width = window.width(slot)
            up = (digit + np.int64(1 << (width - 1))) >> width
            if up.any():
                result[slot] = digit - (up << width)
        if up.any():
            result[slot + 1] = result[slot + 1] + up if slot + 1 in result else up
        slot += 1
    inside = {slot: result[slot] for slot in range(window.limbs)}
    outside = {slot: result[slot] for slot in result if slot not in inside and result[slot].any()}
    return {**inside, **outside, **odd}


def _recombine(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """What goes to the next slot and what stays, of low + high * 2^30 in the last of a window."""
    high = high + (low >> _HALF_TOP)
    low = low & np.int64((1 << _HALF_TOP) - 1)
    up = (high + np.int64(1 << (_HALF_TOP - 1))) >> _HALF_TOP
    return up, ((high - (up << _HALF_TOP)) << _HALF_TOP) + low


REST: Final = pa.list_(pa.int64())
"""The type of the column for all slots outside of a window."""


def pack(outside: Mapping[int, Ints], length: int) -> pa.Array:
    """The digits that are not 0 as one column of lists."""
    slots = sorted(outside)
    if not slots:
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(length + 1, np.int32)), pa.array([], pa.int64())
        )
    matrix = np.stack([outside[slot] for slot in slots], axis=1)
    rows, which = np.nonzero(matrix)
    marks = (np.array(slots, np.int64) + _SLOT_OFFSET) << _SLOT_SHIFT
    entries = marks[which] + matrix[rows, which] + _DIGIT_OFFSET
    offsets = np.zeros(length + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=length), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(entries))


def unpack(rest: pa.Array) -> Digits:
    """The digits in such a column, as far as there are any."""
    entries = rest.flatten().to_numpy()
    if not len(entries):
        return {}
    owner = np.repeat(np.arange(len(rest)), rest.value_lengths().to_numpy())
    slots = (entries >> _SLOT_SHIFT) - _SLOT_OFFSET
    numbers = (entries & np.int64((1 << _SLOT_SHIFT) - 1)) - _DIGIT_OFFSET
    found: Digits = {}
    for slot in np.unique(slots):
        here = slots == slot
        found[int(slot)] = np.zeros(len(rest), np.int64)
        found[int(slot)][owner[here]] = numbers[here]
    return found
