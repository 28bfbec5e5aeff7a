"""Percentiles: how they are written, and what they are out of the values around a fraction."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.lanes import LaneView, Rank, Statistic
from anabranch.aggregates.multiset import Weighted, in_order
from anabranch.aggregates.sql import SqlCall, SqlReading

_HINT: Final = "write PERCENTILE(x, 0.9), or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)"


def read_percentile(call: SqlCall) -> SqlReading:
    """`PERCENTILE(x, p)`, or `PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)`."""
    call = replace(call, hint=_HINT)
    tree = call.tree
    argument: exp.Expr
    if call.order is None:
        argument, at = tree.this, tree.args.get("quantile") or tree.args.get("expression")
    else:
        argument, at = call.ascending(call.order), tree.this
    argument, distinct = call.without_distinct(argument)
    if tree.meta.get("frequencies") or call.commas() > 1:
        # Spark's third argument; the parser would leave it out.
        raise call.wrong(
            "a percentile with frequencies is not supported",
            "a row that occurs several times counts several times; " + _HINT,
        )
    if at is None:
        raise call.wrong(f"'{call.text.strip()}' has no fraction")
    inner = call.bind(argument)
    fraction = call.constant(at, "the fraction of a percentile")
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | Decimal):
        raise call.wrong(f"{at.sql(dialect='spark')} is not a fraction")
    if not 0 <= fraction <= 1:
        raise call.wrong(
            f"the fraction of a percentile cannot be {fraction}",
            "a fraction lies between 0 (the smallest value) and 1 (the largest): 0.9, not 90",
        )
    return SqlReading(inner, distinct, fraction=float(fraction))


def percentile_of(values: Weighted, fraction: float) -> float:
    """Spark's `percentile`: where no value lies at the fraction, between the two next to it."""
    ordered = [float(value) for value in in_order(values)]
    position = (len(ordered) - 1) * fraction
    lower, higher = ordered[math.floor(position)], ordered[math.ceil(position)]
    if lower == higher or math.floor(position) == math.ceil(position):
        return lower
    return (math.ceil(position) - position) * lower + (position - math.floor(position)) * higher


def percentile_disc_of(values: Weighted, fraction: float) -> Any:
    """Spark's `percentile_disc`: the first value that at least this fraction lies at or below."""
    ordered = in_order(values)
    return ordered[max(math.ceil(len(ordered) * fraction) - 1, 0)]


def neighbours(fraction: float) -> tuple[Statistic, Statistic]:
    """The values that a percentile lies between."""
    return Statistic(Rank.LOW, fraction), Statistic(Rank.HIGH, fraction)


def between_neighbours(view: LaneView, fraction: float) -> pa.Array:
    """The percentile of each row, null where there is no value."""
    low, high = (view.number_at(statistic) for statistic in neighbours(fraction))
    missing = view.count == 0
    position = np.where(missing, 0.0, (view.count - 1) * fraction)
    between = low != high
    below = np.where(between, np.ceil(position) - position, 0.0)
    above = np.where(between, position - np.floor(position), 0.0)
    exact = ~between | (below + above == 0)
    with np.errstate(invalid="ignore", over="ignore"):
        mixed = below * low + above * high
    return pa.array(np.where(exact, low, mixed), mask=missing)
