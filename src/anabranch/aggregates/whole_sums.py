"""Sums of whole numbers out of limbs: the number where it fits, an error where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.aggregates.value_groups import Ints, Mask
from anabranch.errors import StreamError
from anabranch.model.numbers.exact_numbers import Exact

_LOW: Final = np.int64(2**32 - 1)
_LIMIT: Final = 10**38
"""The first number that a decimal cannot hold."""


def exact_of_limbs(limbs: Sequence[Ints]) -> Exact:
    """Whole numbers in limbs of 32 bits, the largest digits first."""
    parts = [(limb, 32 * at) for at, limb in enumerate(reversed(limbs))]
    return Exact.of_parts(parts, 0, len(limbs) + 2)


def sum_of_limbs(limbs: Sequence[Ints], none: Mask, text: str, kind: pa.DataType) -> pa.Array:
    """Sums of type `kind`, null where there is nothing to add up.

    One limb has all of a small integer, two are an integer of 64 bits, three (the first of them
    with 64 bits) or four are a decimal.

    Raises:
        StreamError: A sum does not fit.
    """
    if len(limbs) == 1:
        return pa.array(limbs[0], mask=none)
    if len(limbs) == 2:
        top = limbs[0] + (limbs[1] >> 32)
        if ((top > 2**31 - 1) | (top < -(2**31))).any():
            raise _overflow(text, "BIGINT", f"SUM(CAST({text} AS DECIMAL(38, 0)))")
        return pa.array((top << 32) | (limbs[1] & _LOW), mask=none)
    *upper, middle, low = limbs
    middle = middle + (low >> 32)
    low = (low & _LOW) | ((middle & _LOW) << 32)
    far = np.zeros(len(low), np.bool_)
    if len(upper) == 2:
        second = upper[1] + (middle >> 32)
        top = upper[0] + (second >> 32)
        far = (top > 2**31 - 1) | (top < -(2**31))
        high = (top << 32) | (second & _LOW)
    else:
        high = upper[0] + (middle >> 32)
    if (far | _is_too_long(high, low.view(np.uint64))).any():
        raise _overflow(text, "DECIMAL(38)", f"SUM(CAST({text} AS DOUBLE))")
    words = np.empty(2 * len(low), np.int64)
    words[0::2], words[1::2] = low, high
    valid = pa.array(~none)
    return pa.Array.from_buffers(kind, len(low), [valid.buffers()[1], pa.py_buffer(words)])


def _is_too_long(high: Ints, low: npt.NDArray[np.uint64]) -> Mask:
    """Where a number of 128 bits has more than 38 digits: from 10^38 on, up to -10^38."""
    above, below = divmod(_LIMIT, 2**64), divmod(-_LIMIT, 2**64)
    over = (high > above[0]) | ((high == above[0]) & (low >= np.uint64(above[1])))
    under = (high < below[0]) | ((high == below[0]) & (low <= np.uint64(below[1])))
    return np.asarray(over | under)


def _overflow(text: str, kind: str, instead: str) -> StreamError:
    return StreamError(
        f"a sum does not fit into {kind}", where=f"SUM({text})", hint=f"use {instead}"
    )
