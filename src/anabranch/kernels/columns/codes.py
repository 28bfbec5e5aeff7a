"""Values as whole numbers that sort the same way."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Floats, Ints, Mask

_DIGITS: Final = 18
"""Decimals of so many digits fit into 64 bits."""

_SIGN: Final = np.int64(2**63 - 1)


def has_code(kind: pa.DataType) -> bool:
    """Whether all values of a type are such numbers of 64 bits."""
    types = pa.types
    if types.is_decimal(kind):
        return bool(kind.precision <= _DIGITS)
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    times = (types.is_timestamp, types.is_date, types.is_time, types.is_duration)
    return any(test(kind) for test in (*numbers, *times))


def code_of(values: pa.Array, kind: pa.DataType) -> Ints:
    """The number of every value; 0 for null. NaN is the largest, -0.0 is 0.0."""
    types = pa.types
    if types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if types.is_floating(kind):
        numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        numbers = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, no negative zero
        bits = numbers.view(np.int64)
        return np.where(bits < 0, bits ^ _SIGN, bits)
    if types.is_decimal(kind):
        wide = values.cast(pa.decimal128(38, kind.scale)).fill_null(0)
        words = np.frombuffer(wide.buffers()[1] or b"", np.int64)
        # Every other word of the values: a copy, for compiled loops want numbers side by side.
        return np.array(words[2 * wide.offset :: 2][: len(wide)])
    if kind == pa.uint64():
        # The upper half of the numbers is negative when read with a sign.
        unsigned = values.fill_null(2**63).to_numpy(zero_copy_only=False)
        return np.asarray((unsigned ^ np.uint64(2**63)).view(np.int64))
    if types.is_date32(kind) or types.is_time32(kind):
        values = values.cast(pa.int32())
    codes: Ints = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return codes


def float_of(codes: Ints) -> Floats:
    """The floats that `code_of` gave numbers."""
    return np.where(codes < 0, codes ^ _SIGN, codes).view(np.float64)


def value_of(codes: Ints, missing: Mask, kind: pa.DataType) -> pa.Array:
    """The other way; null where it is missing."""
    types = pa.types
    if types.is_null(kind):
        return pa.nulls(len(codes))
    if types.is_floating(kind):
        return pa.array(float_of(codes), mask=missing).cast(kind)
    if types.is_decimal(kind):
        words = np.empty(2 * len(codes), np.int64)
        words[0::2], words[1::2] = codes, codes >> 63
        buffers = [pa.array(~missing).buffers()[1], pa.py_buffer(words)]
        wide = pa.decimal128(38, kind.scale)
        return pa.Array.from_buffers(wide, len(codes), buffers).cast(kind)
    if kind == pa.uint64():
        return pa.array(codes.view(np.uint64) ^ np.uint64(2**63), mask=missing)
    whole = pa.array(codes, mask=missing)
    if types.is_date32(kind) or types.is_time32(kind):
        whole = whole.cast(pa.int32())
    return whole.cast(kind)
