"""Compiled loops over exact sums: split floats into digits, carry, round (see `model.digits`)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from anabranch.kernels.columns.grouped import Floats, Ints, Mask
from anabranch.model.numbers.compiled import FLOATS, INT, INTS, OWN_TABLE, compiled

Table = npt.NDArray[np.int64]
"""A row per slot of a window, the smallest digits first; a column per number."""

_LOW = (1 << 32) - 1


@compiled(FLOATS, INT, INT)
def split_floats(numbers: Floats, lowest: int, limbs: int) -> tuple[Table, Mask]:
    """The digits of floats in a window, and the rows that do not fit into it (all digits are 0).

    Digits are cut off from the front: every subtraction and every scale is exact. What is left
    after the last slot lies below the window. NaN fits nowhere, as it is not smaller than anything.
    """
    table, left = np.zeros((limbs, len(numbers)), np.int64), np.zeros(len(numbers), np.bool_)
    scale, most = math.ldexp(1.0, -(lowest + 32 * (limbs - 1))), math.ldexp(1.0, 58)
    for row in range(len(numbers)):
        rest = numbers[row] * scale
        if not (abs(numbers[row]) < 1e300 and abs(rest) < most):
            left[row] = True
            continue
        for slot in range(limbs - 1, -1, -1):
            digit = np.int64(rest)
            table[slot, row] = digit
            rest = (rest - digit) * 4294967296.0
        if rest != 0.0:
            left[row] = True
            for slot in range(limbs):
                table[slot, row] = 0
    return table, left


@compiled(FLOATS, INT, INT)
def split_squares(numbers: Floats, lowest: int, limbs: int) -> tuple[Table, Mask]:
    """The digits of squares, likewise. The products of halves of a mantissa are exact as floats."""
    table, left = np.zeros((limbs, len(numbers)), np.int64), np.zeros(len(numbers), np.bool_)
    top, most = lowest + 32 * (limbs - 1), math.ldexp(1.0, 58)
    products, exponents = np.zeros(3), np.zeros(3, np.int64)
    for row in range(len(numbers)):
        number = numbers[row]
        if number == 0.0:
            continue
        fits = abs(number) < 1e150
        part, exponent = math.frexp(number if fits else 0.0)
        mantissa = part * 9007199254740992.0
        high = np.rint(mantissa / 134217728.0)
        low = mantissa - high * 134217728.0
        products[0], products[1], products[2] = high * high, 2.0 * high * low, low * low
        for piece in range(3):
            exponents[piece] = 2 * (exponent - 53) + 54 - 27 * piece
            # Bits far below the window would be lost in the scale, too.
            fits = fits and (products[piece] == 0.0 or exponents[piece] >= lowest - 60)
        if fits:
            for piece in range(3):
                rest = math.ldexp(products[piece], exponents[piece] - top)
                if not abs(rest) < most:
                    fits = False
                    break
                for slot in range(limbs - 1, -1, -1):
                    digit = np.int64(rest)
                    table[slot, row] += digit
                    rest = (rest - digit) * 4294967296.0
                if rest != 0.0:
                    fits = False
                    break
        if not fits:
            left[row] = True
            for slot in range(limbs):
                table[slot, row] = 0
    return table, left


@compiled(OWN_TABLE)
def carry(table: Table) -> bool:
    """Balance digits in place; False where a number leaves the window: then nothing is settled."""
    limbs, length = table.shape
    half, most = np.int64(1) << 31, np.int64(1) << 59
    for row in range(length):
        up = np.int64(0)
        for slot in range(limbs - 1):
            digit = table[slot, row] + up
            up = (digit + half) >> 32
            table[slot, row] = digit - (up << 32)
        digit = table[limbs - 1, row] + up
        if digit < -most or digit >= most:
            return False
        table[limbs - 1, row] = digit
    return True


@compiled(OWN_TABLE, INT, INTS)
def rounded(table: Table, lowest: int, divisor: Ints) -> Floats:
    """Numbers with balanced digits as the nearest floats; over divisors below 2^31, if given.

    All in whole numbers: limbs of 32 bits, 3 more of them for a quotient; the 64 leading bits, and
    whether anything follows, decide. For windows whose numbers are all normal floats.
    """
    limbs, length = table.shape
    divides = len(divisor) > 0
    added = 3 if divides else 0
    size = limbs + added + 1
    buffer = np.zeros(size, np.int64)
    result = np.zeros(length)
    unit = math.ldexp(1.0, lowest)
    for row in range(length):
        if limbs == 3 and not divides and abs(table[2, row]) < (1 << 40):
            # Three floats, from large to small: the first sum is below 2^105, so what it loses is
            # below 2^52 and a whole number; with the last digit that is exact. One rounding.
            high, middle = np.float64(table[2, row]) * 2.0**64, np.float64(table[1, row]) * 2.0**32
            total = high + middle
            lost = middle - (total - high)
            result[row] = (total + (lost + np.float64(table[0, row]))) * unit
            continue
        negative, is_zero = False, True
        for slot in range(limbs - 1, -1, -1):
            if table[slot, row] != 0:
                negative, is_zero = table[slot, row] < 0, False
                break
        if is_zero:
            continue
        up = np.int64(0)
        for slot in range(limbs):
            digit = (-table[slot, row] if negative else table[slot, row]) + up
            buffer[slot + added] = digit & _LOW
            up = digit >> 32
        buffer[size - 1] = up
        sticky = False
        if divides:
            for at in range(added):
                buffer[at] = 0
            remainder = np.int64(0)
            for at in range(size - 1, -1, -1):
                dividend = (remainder << 32) | buffer[at]
                buffer[at] = dividend // divisor[row]
                remainder = dividend - buffer[at] * divisor[row]
            sticky = remainder != 0
        lead = size - 1
        while buffer[lead] == 0:
            lead -= 1
        first = np.uint64(buffer[lead])
        second = np.uint64(buffer[lead - 1]) if lead > 0 else np.uint64(0)
        third = np.uint64(buffer[lead - 2]) if lead > 1 else np.uint64(0)
        for at in range(lead - 2):
            sticky = sticky or buffer[at] != 0
        _, bits = math.frexp(np.float64(first))
        shift = np.uint64(32 - bits)
        word = (((first << np.uint64(32)) | second) << shift) | (third >> (np.uint64(32) - shift))
        sticky = sticky or ((third << shift) & np.uint64(_LOW)) != np.uint64(0)
        kept = word >> np.uint64(11)
        behind = word & np.uint64(2047)
        half = np.uint64(1024)
        is_odd = (kept & np.uint64(1)) == np.uint64(1)
        if behind > half or (behind == half and (sticky or is_odd)):
            kept += np.uint64(1)
        exponent = lowest + 32 * (lead - added) - 32 - np.int64(shift) + 11
        number = math.ldexp(np.float64(kept), exponent)
        result[row] = -number if negative else number
    return result
