"""MODE: the most frequent value; of several that are equally frequent, the smallest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_ordered, same_kind
from anabranch.aggregates.lanes import OrderedValues
from anabranch.aggregates.multiset import Weighted, nan_last
from anabranch.aggregates.sql import SqlCall, SqlForm, SqlReading


def _read(call: SqlCall) -> SqlReading:
    """`MODE(x)`, `MODE(x, true)`, `MODE() WITHIN GROUP (ORDER BY x)`.

    Spark's second argument asks for the smallest of several; that is what is given in any case, so
    it may be there and is not kept.
    """
    call = replace(call, hint="write MODE(x), or MODE() WITHIN GROUP (ORDER BY x)")
    argument, certain = call.tree.this, call.tree.args.get("deterministic")
    if certain is not None and not isinstance(call.constant(certain, "MODE's second part"), bool):
        raise call.wrong("the second part of MODE is TRUE or FALSE")
    if (argument is None) != (call.order is not None):
        raise call.wrong("MODE takes one expression")
    if call.order is not None:
        argument = call.ascending(call.order)
    argument, distinct = call.without_distinct(argument)
    return SqlReading(call.bind(argument), distinct)


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    del parameters
    counts: Counter[tuple[bool, Any]] = Counter()
    for value, count in values:
        counts[nan_last(value)] += count
    most = max(counts.values())
    first = min(key for key, count in counts.items() if count == most)
    return next(value for value, _ in values if nan_last(value) == first)


def _finish(values: OrderedValues, parameters: Parameters) -> pa.Array:
    """Values are in order, so the first of the most frequent ones is the smallest."""
    del parameters
    values = values.merged()
    if not len(values.counts):
        return values.spread(np.empty(0, np.int64))
    starts = np.flatnonzero(np.append(True, values.group[1:] != values.group[:-1]))
    most = np.maximum.reduceat(values.counts, starts)
    lengths = np.diff(np.append(starts, len(values.counts)))
    found = np.flatnonzero(values.counts == np.repeat(most, lengths))
    groups = values.group[found]
    found = found[np.append(True, groups[1:] != groups[:-1])]
    result = values.spread(found)
    # Zeros are equal, so that either may be the first of them: it is 0.0, whatever came first.
    return pc.add(result, 0.0).cast(result.type) if pa.types.is_floating(result.type) else result


FUNCTION: Final = AggregateFunction(
    name="mode",
    example="MODE(x)",
    forms=(SqlForm(exp.Mode, checked=("deterministic",), within_group=True),),
    read=_read,
    takes=is_ordered,
    gives=same_kind,
    meaning=_meaning,
    finish_values=_finish,
)
