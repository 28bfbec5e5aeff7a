"""MAX_BY and MIN_BY: the value of the row in which something else is largest or smallest.

Both are the extreme of a pair: what is looked at, then the value. So a tie is decided by the value,
the answer depends on no order of arrival, and the lanes of MIN and MAX keep it up to date.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import expressions as exp

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.kinds import is_comparable
from anabranch.aggregates.lanes import LaneView, ValueLane
from anabranch.aggregates.multiset import Weighted, field_by_field
from anabranch.aggregates.sql import SqlCall, SqlForm, SqlReading
from anabranch.expressions.expression import Expression

BY: Final = "by"
VALUE: Final = "value"


def by_extreme(name: str, tree: type[exp.Expr], *, largest: bool) -> AggregateFunction:
    """`MAX_BY(value, by)`, or `MIN_BY(value, by)`."""
    lane = ValueLane.LARGEST if largest else ValueLane.SMALLEST
    choose = max if largest else min

    def meaning(values: Weighted, parameters: Parameters) -> Any:
        del parameters
        return choose((pair for pair, _ in values), key=field_by_field)[1]

    def finish(view: LaneView, parameters: Parameters) -> pa.Array:
        del parameters
        return pc.struct_field(view.extreme(lane), VALUE)

    return AggregateFunction(
        name=name,
        example=f"{name.upper()}(x, y)",
        forms=(SqlForm(tree, ("this", "expression"), refused=("count",)),),
        read=_read,
        shown=_shown,
        takes=_is_pair,
        gives=_value_kind,
        hint="both arguments are numbers, strings, times, or structs of them",
        ignores_duplicates=True,
        meaning=meaning,
        lanes=(lane,),
        finish=finish,
    )


def _read(call: SqlCall) -> SqlReading:
    """Rows in which the second argument is NULL do not count; the value may be NULL."""
    call = replace(call, hint=f"write {call.hint.removeprefix('write ')}: the x of the row with y")
    value, by = call.tree.this, call.tree.args.get("expression")
    if value is None or by is None or call.tree.args.get("count") is not None:
        raise call.wrong(f"'{call.text.strip()}' does not have two arguments")
    value, distinct = call.without_distinct(value)
    if distinct:
        raise call.wrong("DISTINCT changes nothing here", "leave DISTINCT out")
    for part in (value, by):
        if not is_comparable(call.bind(part).type):
            raise call.wrong(f"values of type {call.bind(part).type} have no order")
    pair = exp.func("named_struct", exp.Literal.string(BY), by, exp.Literal.string(VALUE), value)
    return SqlReading(call.bind(exp.case().when(by.is_(exp.null()).not_(), pair)))


def _is_pair(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and kind.num_fields == 2 and is_comparable(kind)


def _value_kind(kind: pa.DataType) -> pa.DataType:
    return kind.field(1).type if pa.types.is_struct(kind) else kind


def _shown(argument: Expression) -> str:
    """`price, at` for the pair of both."""
    pair = sqlglot.parse_one(argument.sql, dialect="spark").find(exp.Struct)
    if pair is None or len(pair.expressions) != 2:
        return argument.sql
    by, value = (part.expression.sql(dialect="spark") for part in pair.expressions)
    return f"{value}, {by}"
