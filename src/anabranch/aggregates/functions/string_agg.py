"""STRING_AGG: all values as one text, in ascending order; also LISTAGG."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_text, one_text
from anabranch.aggregates.lanes import OrderedValues
from anabranch.aggregates.multiset import Weighted, in_order
from anabranch.aggregates.sql import SqlCall, SqlForm, SqlReading


def _read(call: SqlCall) -> SqlReading:
    """`STRING_AGG(x, ', ')`, also with an order, as long as that is the order of the values."""
    call = replace(call, hint="write STRING_AGG(x, ', '); values are in ascending order")
    argument = call.tree.this
    order = None
    if isinstance(argument, exp.Order):
        order, argument = call.ascending(argument), argument.this
    argument, distinct = call.without_distinct(argument)
    inner = call.bind(argument)
    if order is not None and call.bind(order) != inner:
        raise call.wrong(
            "STRING_AGG orders by its own values only",
            f"write ORDER BY {inner.sql}, or leave the order out",
        )
    given = call.tree.args.get("separator")
    separator: object = ""
    if given is not None:
        separator = call.constant(given, "the separator of STRING_AGG")
    if not isinstance(separator, str):
        raise call.wrong(
            f"the separator {given.sql(dialect='spark') if given else ''} is not a string"
        )
    return SqlReading(inner, distinct, separator=separator)


def _meaning(values: Weighted, parameters: Parameters) -> Any:
    assert parameters.separator is not None
    return parameters.separator.join(in_order(values))


def _finish(values: OrderedValues, parameters: Parameters) -> pa.Array:
    """One text per group; null where there is no value.

    Every value is there with the separator behind it and, for the last one of a group, without. So
    picking them side by side copies every byte of the results to where it belongs.

    Example: "a", "b" with "-" are "a-", "b-", "a", "b"; the groups a, b and b are picked as
    "a-", "b", "b", which is the text "a-bb" with cuts at 0, 3 and 4.
    """
    values = values.once() if parameters.distinct else values
    texts, rows, lengths = values.values.cast(pa.string()), values.repeated(), values.lengths()
    stops = np.cumsum(lengths)
    if parameters.separator:
        rows = np.array(rows)
        rows[stops[lengths > 0] - 1] += len(texts)
        texts = pa.concat_arrays(
            [pc.binary_join_element_wise(texts, "", parameters.separator), texts]
        )
    picked = texts.take(pa.array(rows))
    cuts = np.frombuffer(picked.buffers()[1] or bytes(4), np.int32)[picked.offset :]
    return pa.StringArray.from_buffers(
        values.length,
        pa.py_buffer(cuts[np.append(0, stops)]),
        picked.buffers()[2] or pa.py_buffer(b""),
        pa.array(lengths > 0).buffers()[1],
    )


FUNCTION: Final = AggregateFunction(
    name="string_agg",
    example="STRING_AGG(x, ', ')",
    aliases=("listagg",),
    forms=(SqlForm(exp.GroupConcat, ("this", "separator"), refused=("on_overflow",)),),
    read=_read,
    takes=is_text,
    gives=one_text,
    hint="string_agg(CAST(x AS STRING), ', ') takes any value that can be cast to a string",
    parameters=("separator",),
    distinct=True,
    meaning=_meaning,
    finish_values=_finish,
)
