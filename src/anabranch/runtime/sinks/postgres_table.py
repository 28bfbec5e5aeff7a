"""A table of PostgreSQL: where it is, the types of its columns, and values as it reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import PlanError
from anabranch.runtime.sinks.sinks import Keep

_HOW: Final = "postgresql://user@host/database?table=<name>&keep=log|current|history"
_TYPES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
}


@final
@dataclass(frozen=True, slots=True)
class PostgresTable:
    """Where results go; `address` may hold a password and is never shown."""

    address: str
    shown: str
    table: tuple[str, ...]
    keep: Keep

    @staticmethod
    def parse(to: str) -> PostgresTable:
        """What `postgresql://host/database?table=name&keep=current` means.

        >>> place = PostgresTable.parse("postgresql://ann:secret@db/shop?table=sales.top")
        >>> place.shown, place.table, place.keep
        ('postgresql://db/shop', ('sales', 'top'), 'log')

        Raises:
            PlanError: The table is not named, or there is no such kind of table.
        """
        parts = urlsplit(to)
        options = dict(parse_qsl(parts.query))
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        table = tuple(options.pop("table", "").split("."))
        if not all(table):
            raise PlanError("the name of the table is missing", where=shown, hint=_HOW)
        keep = options.pop("keep", "log")
        for choice in get_args(Keep):
            if keep == choice:
                address = urlunsplit(parts._replace(query=urlencode(options)))
                return PostgresTable(address, shown, table, choice)
        raise PlanError(f"a table cannot keep '{keep}'", where=shown, hint=_HOW)

    def column_type(self, field: pa.Field) -> str:
        """The type that a column has there.

        Raises:
            PlanError: It has none.
        """
        kind = field.type
        found = _TYPES.get(kind)
        if found is None and pa.types.is_timestamp(kind):
            found = "timestamp" if kind.tz is None else "timestamptz"
        if found is None and pa.types.is_decimal(kind):
            found = f"numeric({kind.precision}, {kind.scale})"
        if found is None:
            raise PlanError(
                f"column '{field.name}' holds {kind}, which has no column type in PostgreSQL",
                where=self.shown,
                hint="cast it to a string or a number in the query",
            )
        return found


def as_text(rows: pa.Table) -> pa.Table:
    """Binary values in the way PostgreSQL reads them."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_binary(field.type):
            digits = pa.chunked_array(
                [_hex(each) for each in rows.column(position).chunks], pa.string()
            )
            rows = rows.set_column(
                position, field.name, pc.binary_join_element_wise("\\x", digits, "")
            )
    return rows


def _hex(column: pa.Array) -> pa.Array:
    """Two digits per byte: those of all values at once, then cut."""
    valid, offsets, data = column.buffers()
    digits = (data or pa.py_buffer(b"")).to_pybytes().hex().encode()
    ends = np.frombuffer(offsets, np.int32)[: column.offset + len(column) + 1] * 2
    buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.string(), len(column), buffers, offset=column.offset)
