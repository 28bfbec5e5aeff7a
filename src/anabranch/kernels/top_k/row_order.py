"""Rows in an order that leaves nothing open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.algebra.count_window import has_order
from anabranch.algebra.top_k import Ordering
from anabranch.expressions.expression import evaluate_all
from anabranch.expressions.plain_type import plain_type
from anabranch.kernels.columns.extremes import NULL, Codec
from anabranch.kernels.columns.grouped import Ints, is_first, order_by_id, order_by_time
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
    expressions = [expression for expression, _, _ in order_by]
    needed = frozenset[str]().union(*(expression.columns for expression in expressions))
    values = evaluate_all(expressions, concat.columns(needed), len(concat))
    return [
        _codes(column, descending, nulls_first)
        for column, (_, descending, nulls_first) in zip(values, order_by, strict=True)
    ]


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
