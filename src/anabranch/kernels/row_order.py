"""Rows in an order that leaves nothing open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.algebra.count_window import has_order
from anabranch.algebra.evaluation import plain_type
from anabranch.algebra.expression import evaluate_all
from anabranch.algebra.top_k import Ordering
from anabranch.kernels.columns import Ints, is_first
from anabranch.kernels.extremes import NULL, Codec
from anabranch.model.batch import take_rows
from anabranch.model.hashing import stable_hash

_LAST: Final = np.int64(2**63 - 1)


def rank_rows(payload: pa.RecordBatch, length: int, order_by: Sequence[Ordering]) -> Ints:
    """The place of each row, from 0 on; equal payloads share one, others never do.

    Rows that are equal in what is ordered by stand in the order of their columns; these are
    looked at only there.
    """
    values = evaluate_all([expression for expression, _, _ in order_by], payload, length)
    keys = [
        _codes(column, descending, nulls_first)
        for column, (_, descending, nulls_first) in zip(values, order_by, strict=True)
    ]
    order = np.lexsort(keys[::-1])
    first = is_first(*(key[order] for key in keys))
    tied = ~first
    tied[:-1] |= ~first[1:]
    places = np.flatnonzero(tied)
    if len(places):
        rows = order[places]
        group = np.cumsum(first)[places]
        ties = _tie_codes(take_rows(payload, rows), len(rows))
        again = np.lexsort((*ties[::-1], group))
        order[places] = rows[again]
        first[places] = is_first(group, *(code[again] for code in ties))
    ranks = np.empty(length, np.int64)
    ranks[order] = np.cumsum(first) - 1
    return ranks


def _tie_codes(payload: pa.RecordBatch, length: int) -> list[np.ndarray]:
    """Whole numbers that sort as the columns do, or at least tell them apart."""
    codes: list[np.ndarray] = []
    for values in payload.columns:
        if has_order(values.type):
            codes.append(_codes(values, descending=False, nulls_first=True))
        else:
            codes += [stable_hash([values], length, salt) for salt in (0, 1)]
    return codes


def _codes(values: pa.Array, descending: bool, nulls_first: bool) -> Ints:
    kind = plain_type(values.type)
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_float16(kind):
        kind = pa.float32()
    values = values.cast(kind)
    codes = Codec.of(kind, descending, [values]).encode(values)
    return codes if nulls_first else np.where(codes == NULL, _LAST, codes)
