"""COLLECT_LIST and COLLECT_SET: all values as one array, in ascending order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_comparable, list_of
from anabranch.aggregates.lanes import OrderedValues
from anabranch.aggregates.multiset import Weighted, field_by_field
from anabranch.aggregates.sql import SqlCall, SqlForm, SqlReading


def collecting(
    name: str, *aliases: str, form: SqlForm, example: str, once: bool
) -> AggregateFunction:
    """An aggregate that collects values, or each different value once."""

    def finish(values: OrderedValues, parameters: Parameters) -> pa.Array:
        return _lists(values.once() if once or parameters.distinct else values)

    return AggregateFunction(
        name=name,
        example=example,
        aliases=aliases,
        forms=(form,),
        read=_read,
        takes=is_comparable,
        gives=list_of,
        hint="values have to have an order: numbers, strings, times, or structs of them",
        distinct=not once,
        counts_once=once,
        empty=(),
        meaning=_meaning,
        finish_values=finish,
    )


def _read(call: SqlCall) -> SqlReading:
    """`COLLECT_LIST(x)`, `ARRAY_AGG(DISTINCT x ORDER BY x)`."""
    call = replace(call, hint="write COLLECT_LIST(x); values are in ascending order")
    argument, order = call.tree.this, None
    if isinstance(argument, exp.Order):
        order, argument = call.ascending(argument), argument.this
    argument, distinct = call.without_distinct(argument)
    inner = call.bind(argument)
    if order is not None and call.bind(order) != inner:
        raise call.wrong(
            "an array of values is ordered by these values only",
            f"to order by something else, collect structs that begin with it: "
            f"COLLECT_LIST(struct({order.sql(dialect='spark')}, {inner.sql}))",
        )
    return SqlReading(inner, distinct)


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    ordered = sorted(values, key=lambda weighted: field_by_field(weighted[0]))
    return tuple(value for value, count in ordered for _ in range(count))


def _lists(values: OrderedValues) -> pa.Array:
    """One array per group; empty where there is no value."""
    offsets = np.append(0, np.cumsum(values.lengths())).astype(np.int32)
    kind, repeated = list_of(values.values.type), pa.array(values.repeated())
    return pa.ListArray.from_arrays(pa.array(offsets), values.values.take(repeated), type=kind)
