"""The aggregates of the language as modules, so that they answer for windows of the time axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.aggregate_functions import AggregateCall, Function
from anabranch.algebra.grouped_values import Floats, Ints, ValueGroups, as_numbers
from anabranch.algebra.modules.module import WINDOW, Code, Module, Property
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.model.numbers.digits import SQUARES, SUMS, WHOLE_SQUARES, split, split_squares
from anabranch.model.numbers.exact_numbers import Exact, quotients

VALUE: Final = "value"
"""The column of a frame with the argument."""

_MOMENTS: Final = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_PROPERTIES: Final[frozenset[Property]] = frozenset({"deterministic", "group_filter"})


def builtin_module(call: AggregateCall) -> tuple[Module, tuple[Expression, ...]]:
    """A built-in aggregate as a module, and what it is applied to.

    >>> price = Expression.column("price", pa.schema([("price", pa.float64())]))
    >>> module, arguments = builtin_module(AggregateCall(function="max", argument=price))
    >>> module.label, module.shape, [each.sql for each in arguments]
    ('max', 'UDA, on arrow', ['price'])
    """
    kind = pa.null() if call.argument is None else call.argument.type
    given: Mapping[str, Any] = {
        "distinct": call.distinct or None,
        "fraction": call.fraction,
        "separator": call.separator,
    }
    module = Module(
        name=call.function,
        kind="uda",
        takes=() if call.argument is None else ((VALUE, kind),),
        gives=pa.schema([(call.function, call.type)]),
        frame="arrow",
        parameters=tuple((name, value) for name, value in given.items() if value is not None),
        properties=_PROPERTIES,
        on_empty=(0,) if call.function == "count" else (None,),
        code=Builtin(
            function=call.function,
            gives=call.type,
            text="" if call.argument is None else call.argument.sql,
            distinct=call.distinct,
            fraction=0.5 if call.function == "median" else call.fraction,
            separator=call.separator,
        ),
    )
    return module, () if call.argument is None else (call.argument,)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin(Code):
    """One aggregate over many windows.

    What it gives does not depend on the order of events: values are put in order, or added up
    exactly, with one rounding at the end.
    """

    function: Function
    gives: pa.DataType
    text: str = ""
    distinct: bool = False
    fraction: float | None = None
    separator: str | None = None

    @property
    def can_migrate(self) -> bool:
        """It has no state."""
        return False

    def compute_frame(self, events: pa.Table) -> pa.Table:
        """One row per window.

        Raises:
            StreamError: A sum is too large.
        """
        numbers = _array(events, WINDOW).to_numpy()
        windows, group = np.unique(numbers, return_inverse=True)
        found = self._found(events, group.reshape(-1), len(windows))
        return pa.table({WINDOW: windows, self.function: found})

    def _found(self, events: pa.Table, group: Ints, length: int) -> pa.Array:
        if VALUE not in events.column_names:
            return pa.array(np.bincount(group, minlength=length).astype(np.int64))
        values = _array(events, VALUE)
        groups = ValueGroups.of(group, values, length)
        groups = groups.distinct() if self.distinct else groups
        if self.function == "count":
            counts = np.zeros(length, np.int64)
            counts[groups.which] = groups.counts
            return pa.array(counts)
        if not len(groups.which):
            return pa.nulls(length, self.gives)
        return groups.spread(self._over(groups))

    def _over(self, groups: ValueGroups) -> pa.Array:
        """The result of each group that has values."""
        match self.function:
            case "min" | "max":
                return _extremes(groups, largest=self.function == "max")
            case "median" | "percentile":
                assert self.fraction is not None
                return _between(groups, self.fraction)
            case "percentile_disc":
                assert self.fraction is not None
                ordered = groups.ordered()
                place = np.ceil(groups.counts * self.fraction).astype(np.int64) - 1
                return ordered.values.take(pa.array(groups.starts + np.maximum(place, 0)))
            case "string_agg":
                assert self.separator is not None
                return _joined(groups.ordered(), self.separator)
            case _ if self.function in _MOMENTS:
                return _moments(groups, self.function)
        if pa.types.is_floating(groups.values.type):
            return _float_sums(groups, self.function)
        if self.function == "avg":
            return pa.array(quotients(_whole_total(groups), [groups.counts], _scale(groups)))
        return self._whole_sums(groups)

    def _whole_sums(self, groups: ValueGroups) -> pa.Array:
        top, *limbs = groups.whole_totals()
        if len(limbs) == 1:
            if ((top > 2**31 - 1) | (top < -(2**31))).any():
                raise self._too_large("BIGINT", f"SUM(CAST({self.text} AS DECIMAL(38, 0)))")
            return pa.array((top << 32) | limbs[0])
        # 10^38 lies between 2^126 and 2^127: the top says when 38 digits are not enough.
        high = (top << 32) | limbs[0]
        far = (top > 2**31 - 1) | (top < -(2**31))
        if (far | (np.abs(high.astype(np.float64)) >= 1e38 / 2.0**64)).any():
            raise self._too_large("DECIMAL(38)", f"SUM(CAST({self.text} AS DOUBLE))")
        words = np.empty(2 * len(high), np.int64)
        words[0::2], words[1::2] = (limbs[1] << 32) | limbs[2], high
        return pa.Array.from_buffers(self.gives, len(high), [None, pa.py_buffer(words)])

    def _too_large(self, kind: str, instead: str) -> StreamError:
        return StreamError(
            f"a sum does not fit into {kind}", where=f"SUM({self.text})", hint=f"use {instead}"
        )


def _array(events: pa.Table, name: str) -> pa.Array:
    column = events.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _extremes(groups: ValueGroups, *, largest: bool) -> pa.Array:
    numbers = as_numbers(groups.values)
    if numbers is None:
        ordered = groups.ordered()
        place = groups.counts - 1 if largest else np.zeros_like(groups.counts)
        return ordered.values.take(pa.array(groups.starts + place))
    # NaN is the largest: any of them is a maximum, and a minimum where there is nothing else.
    found = (np.maximum if largest else np.fmin).reduceat(numbers, groups.starts)
    return pa.array(found).cast(groups.values.type)


def _between(groups: ValueGroups, fraction: float) -> pa.Array:
    """Spark's `percentile`: where no value lies at the fraction, between the two next to it."""
    numbers = _floats(groups.values)
    numbers = numbers[np.lexsort((numbers, groups.owners))]
    position = (groups.counts - 1) * fraction
    below, above = np.floor(position), np.ceil(position)
    low = numbers[groups.starts + below.astype(np.int64)]
    high = numbers[groups.starts + above.astype(np.int64)]
    with np.errstate(invalid="ignore", over="ignore"):
        mixed = (above - position) * low + (position - below) * high
    return pa.array(np.where((low == high) | (below == above), low, mixed))


def _joined(ordered: ValueGroups, separator: str) -> pa.Array:
    offsets = np.append(ordered.starts, len(ordered.values))
    lists = pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), ordered.values.cast(pa.string())
    )
    return pc.binary_join(lists, separator).cast(pa.string())


def _floats(values: pa.Array) -> Floats:
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _scale(groups: ValueGroups) -> int:
    """A decimal is a whole number over 10^scale."""
    kind = groups.values.type
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _whole_total(groups: ValueGroups) -> Exact:
    """Sums of whole numbers, in units of the last digit."""
    limbs = groups.whole_totals()[::-1]
    return Exact.of_parts([(limb, 32 * at) for at, limb in enumerate(limbs)], 0, len(limbs) + 2)


def _odd_sums(groups: ValueGroups, numbers: Floats) -> Floats:
    """What NaN and infinities add up to, 0 without any."""
    with np.errstate(invalid="ignore"):
        return np.add.reduceat(np.where(np.isfinite(numbers), 0.0, numbers), groups.starts)


def _float_sums(groups: ValueGroups, function: Function) -> pa.Array:
    numbers = _floats(groups.values)
    total = groups.exact_total(split(numbers, SUMS), SUMS)
    found = total.rounded() if function == "sum" else quotients(total, [groups.counts])
    special = _odd_sums(groups, numbers)
    return pa.array(np.where(special != 0, special, found))


def _moments(groups: ValueGroups, function: Function) -> pa.Array:
    """Variance from exact sums, rounded once: (n * squares - total^2) / n / n, or / (n - 1)."""
    odd = np.zeros(len(groups.counts), np.bool_)
    if pa.types.is_floating(groups.values.type):
        numbers = _floats(groups.values)
        odd = _odd_sums(groups, numbers) != 0
        total = groups.exact_total(split(numbers, SUMS), SUMS)
        squares = groups.exact_total(split_squares(numbers, SQUARES), SQUARES)
    else:
        total = _whole_total(groups)
        squares = groups.exact_total(groups.whole_values().squared().to_digits(), WHOLE_SQUARES)
    sample = function in ("var_samp", "stddev_samp")
    none = (groups.counts == 1) & sample
    counts = np.where(none, 2, groups.counts)
    divisors = [counts, counts - 1 if sample else counts]
    spread = squares.times(counts).minus(total.squared())
    found = quotients(spread, divisors, 2 * _scale(groups))
    found = np.sqrt(found) if function.startswith("stddev") else found
    return pa.array(np.where(odd, np.nan, found), mask=none)
