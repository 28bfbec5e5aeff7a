"""What an exchange carries: one declared schema per edge, which all its senders keep to.

Senders see different rows and share nothing, so a schema that followed from the rows at hand would
differ between them, and the receiver could not put their rows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from anabranch.errors import EngineError


def hashes(*names: str) -> list[tuple[str, pa.DataType]]:
    """Columns of 64-bit hashes: ids, and the second hashes that check them."""
    return [(name, pa.uint64()) for name in names]


def numbers(*names: str) -> list[tuple[str, pa.DataType]]:
    """Columns of whole numbers: times, counts and weights."""
    return [(name, pa.int64()) for name in names]


def keyed(types: Iterable[pa.DataType]) -> list[tuple[str, pa.DataType]]:
    """The columns of a payload, or of what is grouped by, under the names they travel with."""
    return [(f"key{position}", kind) for position, kind in enumerate(types)]


def assemble(schema: pa.Schema, given: Mapping[str, pa.Array | np.ndarray]) -> pa.RecordBatch:
    """Rows of a declared schema, out of its columns by name."""
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values)
        for values in (given[name] for name in schema.names)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_prepared(rows: pa.RecordBatch, declared: pa.Schema, where: str) -> pa.RecordBatch:
    """The rows, if their columns are the declared ones: names, types and order.

    Raises:
        EngineError: They are not. Without this check another sender would look guilty.
    """
    if rows.schema.equals(declared):
        return rows
    found, wanted = ([f"{field.name} {field.type}" for field in s] for s in (rows.schema, declared))
    pairs = zip_longest(found, wanted, fillvalue="nothing")
    difference = next((f"{a} instead of {b}" for a, b in pairs if a != b), "NULLs or their absence")
    raise EngineError(
        "rows on their way to an operator do not have the columns that it declares",
        where=f"{where}: {difference}",
        hint="please report this with the query and the plan that `anabranch explain` prints",
    )
