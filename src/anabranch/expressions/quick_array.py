"""Arrays of columns that need no query engine: `array(low, high)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from anabranch.expressions.quick_condition import column_of
from anabranch.expressions.scalar_sql import DIALECT

Arrays: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
"""An array for every row."""


@lru_cache(maxsize=1024)
def quick_array(sql: str, schema: pa.Schema, kind: pa.DataType) -> Arrays | None:
    """An array of columns of one type; None where something else is in it.

    >>> both = quick_array("ARRAY(low, high)", pa.schema(
    ...     [("low", pa.int64()), ("high", pa.int64())]), pa.list_(pa.int64()))
    >>> both(pa.record_batch({"low": [1, None], "high": [3, 4]})).to_pylist()
    [[1, 3], [None, 4]]
    """
    if not pa.types.is_list(kind) or not sql.startswith("ARRAY("):
        return None
    tree = sqlglot.parse_one(sql, dialect=DIALECT)
    if not isinstance(tree, exp.Array):
        return None
    names = [
        column_of(each, schema) if isinstance(each, exp.Column) else None
        for each in tree.expressions
    ]
    wanted = [name for name in names if name and schema.field(name).type == kind.value_type]
    if not names or len(wanted) < len(names):
        return None

    def arrays(rows: pa.RecordBatch) -> pa.Array:
        length, width = rows.num_rows, len(wanted)
        # Row by row instead of column by column.
        order = np.arange(length * width).reshape(width, length).T.ravel()
        items = pa.concat_arrays([rows.column(name) for name in wanted]).take(pa.array(order))
        offsets = np.arange(0, length * width + 1, width, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=kind)

    return arrays
