"""Rows in an order that leaves nothing open."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.count_window import has_order
from anabranch.algebra.top_k import Ordering
from anabranch.expressions.expression import evaluate_all
from anabranch.expressions.plain_type import plain_type
from anabranch.kernels.columns.codes import code_of, has_code
from anabranch.kernels.columns.extremes import NULL, Codec
from anabranch.kernels.columns.grouped import Ints, Mask, is_first, order_by_id, order_by_time
from anabranch.kernels.columns.lazy_concat import LazyConcat
from anabranch.model.numbers.hashing import stable_hash

_LAST: Final = np.int64(2**63 - 1)
_SIGN: Final = np.uint64(2**63)
PACKED_SORT_FROM_ROWS: Final = 500
"""From this row count on, rows are sorted as whole numbers that hold key and position."""


def rank_rows(concat: LazyConcat, owner: Ints, order_by: Sequence[Ordering]) -> Ints:
    """The rank of each row, from 0 on, those of the first owner first.

    Equal payloads of an owner share one, others never do. Rows that are equal in what is ordered
    by stand in the order of their columns: each is looked at only where those before it do not
    tell.
    """
    length = len(owner)
    keys = order_codes(concat, order_by)
    order = _sort([owner, *keys])
    first = is_first(owner[order], *(key[order] for key in keys))
    for index, field in enumerate(concat.schema):
        tied = ~first
        tied[:-1] |= ~first[1:]
        positions = np.flatnonzero(tied)
        if not len(positions):
            break
        rows, group = order[positions], np.cumsum(first)[positions]
        ties = _tie_codes(concat.column(index, rows), field.type)
        again = np.lexsort((*ties[::-1], group))
        order[positions] = rows[again]
        first[positions] = is_first(group, *(code[again] for code in ties))
    ranks = np.empty(length, np.int64)
    ranks[order] = np.cumsum(first) - 1
    return ranks


def order_codes(concat: LazyConcat, order_by: Sequence[Ordering]) -> list[Ints]:
    """What is ordered by, as whole numbers that sort the same way."""
    return [
        _codes(column, descending, nulls_first)
        for column, (_, descending, nulls_first) in zip(_ordered(concat, order_by), order_by)
    ]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Leading:
    """What rows are ordered by first, which can be compared one by one with that of other rows.

    Attributes:
        values: Whole numbers that sort as the values do, or the values themselves.
        missing: Where the value is null.
        descending: Whether larger values come first.
        nulls_first: Whether nulls do.
    """

    values: Ints | pa.Array
    missing: Mask
    descending: bool
    nulls_first: bool

    @staticmethod
    def of(concat: LazyConcat, order_by: Sequence[Ordering]) -> Leading | None:
        """That of some rows; None where values of the type are not compared one by one."""
        (values,) = _ordered(concat, order_by[:1])
        kind = plain_type(values.type)
        values = values.cast(kind)
        missing = values.is_null().to_numpy(zero_copy_only=False)
        if has_code(kind):
            return Leading(code_of(values, kind), missing, *order_by[0][1:])
        types = pa.types
        tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
        if any(test(kind) for test in (*tests, types.is_decimal)):
            return Leading(values, missing, *order_by[0][1:])
        return None

    def before(self, other: Leading, row: int) -> int:
        """How many of these, which are in order, come before a row of others."""
        missing, wanted = bool(other.missing[row]), other._value(row)

        def is_not_before(index: int) -> bool:
            if missing or self.missing[index]:
                is_missing = bool(self.missing[index])
                return is_missing == missing or is_missing != self.nulls_first
            value = self._value(index)
            return bool(value <= wanted if self.descending else value >= wanted)

        return bisect_left(range(len(self.missing)), True, key=is_not_before)

    def _value(self, row: int) -> Any:
        value = self.values[row]
        return value if isinstance(self.values, np.ndarray) else value.as_py()


def _ordered(concat: LazyConcat, order_by: Sequence[Ordering]) -> list[pa.Array]:
    """The values that are ordered by."""
    expressions = [expression for expression, _, _ in order_by]
    needed = frozenset[str]().union(*(expression.columns for expression in expressions))
    return evaluate_all(expressions, concat.columns(needed), len(concat))


def _sort(keys: Sequence[Ints]) -> Ints:
    """Positions that sort by several keys, the first one (not negative) being most important."""
    length = len(keys[0])
    if length < PACKED_SORT_FROM_ROWS:
        return np.lexsort(keys[::-1])
    bits = length.bit_length()
    if len(keys) == 2:
        low, high = int(keys[1].min()), int(keys[1].max())
        span = (high - low).bit_length()
        if int(keys[0].max()).bit_length() + span + bits <= 64:
            # Both in one number.
            return order_by_time((keys[0] << span) + (keys[1] - low))
    order = np.arange(length)
    for key in keys[::-1]:
        sorted_so_far = key[order]
        if int(key.max()) - int(key.min()) < 2 ** (64 - bits):
            order = order[order_by_time(sorted_so_far)]
        else:
            order = order[order_by_id(sorted_so_far.view(np.uint64) ^ _SIGN)]
    return order


def _tie_codes(values: pa.Array, kind: pa.DataType) -> list[np.ndarray]:
    """Whole numbers that sort as the values do, or at least tell them apart."""
    if has_order(kind):
        return [_codes(values, descending=False, nulls_first=True)]
    return [stable_hash([values], len(values), salt) for salt in (0, 1)]


def _codes(values: pa.Array, descending: bool, nulls_first: bool) -> Ints:
    kind = plain_type(values.type)
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_float16(kind):
        kind = pa.float32()
    values = values.cast(kind)
    codes = Codec.of(kind, descending, [values]).encode(values)
    return codes if nulls_first else np.where(codes == NULL, _LAST, codes)
