"""Elements in order of time, and those at one instant in an order of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.count_window import has_order
from anabranch.expressions.expression import Expression, evaluate_all
from anabranch.expressions.plain_type import plain_type
from anabranch.kernels.columns.extremes import Codec
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first
from anabranch.model.batch import take_rows
from anabranch.model.numbers.hashing import stable_hash


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sorted:
    """Rows by owner, instant and tie order.

    Attributes:
        order: The rows in this order.
        element: Where in it another element begins: rows of one element are equal in owner,
            instant and payload.
        instant: Where another instant or owner begins.
    """

    order: Ints
    element: Mask
    instant: Mask


def sort_elements(
    order: Ints,
    owner: Ids | Ints,
    times: Ints,
    payload: pa.RecordBatch,
    source: Ints,
    order_by: Sequence[Expression],
) -> Sorted:
    """Sort rows that are in order of owner and time; `source` says where their payloads stand.

    Payloads are looked at only where two rows share an instant.
    """
    instant = is_first(owner[order], times[order])
    tied = ~instant
    tied[:-1] |= ~instant[1:]
    ties = np.flatnonzero(tied)
    if not len(ties):
        return Sorted(order, instant, instant)
    rows = order[ties]
    codes = _tie_codes(take_rows(payload, source[rows]), len(rows), order_by)
    group = np.cumsum(instant)[ties]
    again = np.lexsort((*reversed(codes), group))
    order = order.copy()
    order[ties] = rows[again]
    element = instant.copy()
    element[ties] = is_first(group, *(code[again] for code in codes))
    return Sorted(order, element, instant)


def _tie_codes(
    payload: pa.RecordBatch, length: int, order_by: Sequence[Expression]
) -> list[np.ndarray]:
    """Columns of whole numbers that sort as the ties do, the most important first."""
    codes: list[np.ndarray] = []
    for values in [*evaluate_all(order_by, payload, length), *payload.columns]:
        if has_order(values.type):
            codes.append(_ranks(values))
        else:
            codes += [stable_hash([values], length, salt) for salt in (0, 1)]
    return codes


def _ranks(values: pa.Array) -> Ints:
    """Codes that sort as the values do: NULL first, NaN last, -0.0 like 0.0."""
    kind = plain_type(values.type)
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_float16(kind):
        kind = pa.float32()
    values = values.cast(kind)
    return Codec.of(kind, False, [values]).encode(values)
