"""The largest value that covers each instant, without recomputing what cannot have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.columns.codes import code_of, value_of
from anabranch.kernels.columns.grouped import Ints
from anabranch.model.numbers.struct_order import StructOrder

NONE: Final = np.int64(-(2**63))
"""The code of "nothing is there"."""

NULL: Final = np.int64(-(2**63) + 1)
"""The code of "something is there, but its value is null"."""


def cover_max(length: int, low: Ints, high: Ints, codes: Ints) -> Ints:
    """For every index the largest code of the ranges [low, high) over it, or NONE.

    A range is two overlapping blocks of a power of two; blocks are pushed down level by level,
    so the work is (ranges + length) * log(length) however much the ranges overlap.

    Example: a range of 5 is two blocks of 4 that overlap by 3. On level 2 (blocks of 4) the code is
    noted at both begins, then each block of 4 hands its code to its two blocks of 2, and so on.

    >>> cover_max(6, np.array([0, 3]), np.array([5, 6]), np.array([7, 9])).tolist()
    [7, 7, 7, 9, 9, 9]
    """
    best = np.full(length, NONE)
    chosen = high > low
    low, high, codes = low[chosen], high[chosen], codes[chosen]
    if not len(low):
        return best
    level = np.frexp((high - low).astype(np.float64))[1] - 1
    for power in range(int(level.max()), -1, -1):
        block = 1 << power
        here = level == power
        np.maximum.at(best, low[here], codes[here])
        np.maximum.at(best, high[here] - block, codes[here])
        if power:
            half = block >> 1
            pushed = best.copy()
            np.maximum(pushed[half:], best[:-half], out=pushed[half:])
            best = pushed
    return best


@final
@dataclass(frozen=True, slots=True, eq=False)
class Codec:
    """Values as whole numbers that sort the same way (the other way round for a minimum)."""

    kind: pa.DataType
    smallest: bool
    ranked: pa.Array | None
    structs: StructOrder | None = None

    @staticmethod
    def of(kind: pa.DataType, smallest: bool, values: Sequence[pa.Array]) -> Codec:
        """A codec for these values; types without a natural code are ranked among themselves."""
        if _natural(kind) and not any(_near_the_limits(part, kind) for part in values):
            return Codec(kind, smallest, None)
        every = pa.concat_arrays([part.cast(kind) for part in values]) if values else None
        if pa.types.is_struct(kind):
            known = pa.array([], kind) if every is None else every
            return Codec(kind, smallest, None, StructOrder.of(known))
        distinct = pc.unique(every).drop_null() if every is not None else pa.array([], kind)
        order = pc.sort_indices(distinct)
        return Codec(kind, smallest, distinct.take(order))

    def encode(self, values: pa.Array) -> Ints:
        """Codes of values; null becomes NULL."""
        missing = values.is_null().to_numpy(zero_copy_only=False)
        if self.structs is not None:
            codes = self.structs.encode(values)
        elif self.ranked is not None:
            found = pc.index_in(values, value_set=self.ranked, skip_nulls=True)
            codes = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            codes = code_of(values, self.kind)
        if self.smallest:
            codes = ~codes
        return np.where(missing, NULL, codes)

    def decode(self, codes: Ints) -> pa.Array:
        """Values of codes; NONE and NULL become null."""
        missing = codes <= NULL
        plain = np.where(missing, 0, ~codes if self.smallest else codes)
        if self.structs is not None:
            return self.structs.decode(plain, missing)
        if self.ranked is not None:
            return self.ranked.take(pa.array(plain, mask=missing))
        return value_of(plain, missing, self.kind)


def _natural(kind: pa.DataType) -> bool:
    if kind in (pa.uint64(), pa.float16()):
        return False
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_timestamp)
    return any(test(kind) for test in (*tests, types.is_date32))


def _near_the_limits(values: pa.Array, kind: pa.DataType) -> bool:
    """The outermost codes are taken by NONE and NULL."""
    if kind.bit_width < 64 or pa.types.is_floating(kind) or not len(values):
        return False
    limits = pc.min_max(values.cast(pa.int64(), safe=False))
    low, high = limits["min"].as_py(), limits["max"].as_py()
    return bool(low is not None and (low < -(2**63) + 4 or high > 2**63 - 4))
