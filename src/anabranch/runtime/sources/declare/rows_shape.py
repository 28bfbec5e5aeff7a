"""Which columns of a table are times, and which are payload."""

from __future__ import annotations

from difflib import get_close_matches

import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.files.stream_parquet import (
    ORDER_COLUMNS,
    REVISION_COLUMN,
    has_order,
    noted_clock,
    plain_type,
)
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.rows import time_type
from anabranch.runtime.sources.spec import ELEMENTS, USUAL, Shape


def shape_of(declared: Declared, there: pa.Schema) -> Shape:
    """Which of the columns that are there are times."""
    if declared.relation and declared.start is None:
        if declared.end is not None:
            raise PlanError(
                "a relation with an end needs a start as well",
                where=f"relation '{declared.name}'",
                hint="name both columns of the period: start='<column>', end='<column>'",
            )
        return Shape(start=None)
    start = declared.start or "start"
    end, new_end = declared.end, None
    if declared.kind is not None:
        end = end or ("end" if "end" in there.names else None)
        new_end = "new_end" if "new_end" in there.names else None
    shape = Shape(start=start, end=end, new_end=new_end, kind=declared.kind)
    for name in shape.columns:
        if name not in there.names:
            near = get_close_matches(name, there.names, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            if "(" in name:
                hint = "name a column, not an expression; compute it in the data first; "
            raise PlanError(
                f"source '{declared.name}' has no column '{name}'",
                where=f"the column of {'the kind' if name == shape.kind else 'time'}",
                hint=f"{hint}columns are: {', '.join(there.names)}",
            )
        if name != shape.kind and not time_type(there.field(name).type):
            raise PlanError(
                f"column '{name}' holds {there.field(name).type}, not times",
                where=f"source '{declared.name}'",
                hint="times are integers or timestamps; texts in ISO form can be declared as such: "
                "CREATE STREAM name (column TIMESTAMP, ...), or schema=pa.schema(...)",
            )
    return shape


def payload_of(declared: Declared, shape: Shape, there: pa.Schema) -> pa.Schema:
    """The payload columns.

    The times of elements do not belong to the payload: an adjust would change it. Nor do columns
    that are called as in element tables. Other columns stay, those with times as well.
    """
    taken = set(shape.columns) if shape.kind is not None or declared.hides_times else set()
    if declared.schema is not None:
        kept = [field for field in declared.schema if field.name not in taken]
        return pa.schema([pa.field(field.name, field.type) for field in kept])
    taken |= set(ELEMENTS.columns) & set(shape.columns)
    if shape.kind is not None and has_order(there):
        taken.add(REVISION_COLUMN)
    return pa.schema([pa.field(f.name, plain_type(f.type)) for f in there if f.name not in taken])


def order_of(declared: Declared, shape: Shape, there: pa.Schema) -> tuple[str, ...]:
    """The columns that tell the order of elements, unless they are declared as payload."""
    own = () if declared.schema is None else declared.schema.names
    is_ordered = shape.kind is not None and has_order(there) and not {*own} & {*ORDER_COLUMNS}
    return ORDER_COLUMNS if is_ordered else ()


def refuse_limits(declared: Declared, where: str) -> None:
    """Refuse to cut elements that have no order: all that is there makes one batch."""
    if declared.limits != USUAL:
        raise PlanError(
            "a table of elements cannot be cut into batches",
            where=f"source '{declared.name}': {where}",
            hint="its rows have no order, so all of them are one batch; leave the limit "
            "out, or write the stream to a log folder and read that",
        )


def clock_at(start: pa.Field) -> Clock:
    """How a column counts time: timestamps as microseconds, numbers as a note at it says."""
    if not pa.types.is_integer(start.type):
        return MICROSECONDS
    return noted_clock(start) or INTEGERS
