"""A scalar SQL expression, bound to a schema: one value per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import final

import duckdb
import numpy as np
import pyarrow as pa

from anabranch.algebra.evaluation import explain_failure, numbered, plain_type, select
from anabranch.algebra.scalar_sql import ScalarSql, bind
from anabranch.errors import QueryError, StreamError
from anabranch.model.batch import no_rows
from anabranch.model.payload import Payload, payloads, rows_of


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One value per row, as Spark's SQL spells it.

    Two expressions are equal when their canonical texts and schemas are. Casts, divisions by
    zero and overflows fail as they do in Spark (`try_cast`, `try_divide` give NULL instead).

    >>> bids = pa.schema([("itemID", pa.int64()), ("price", pa.float64())])
    >>> dear = Expression.parse("PRICE*2 > 80", bids)
    >>> dear.sql, str(dear.type), sorted(dear.columns)
    ('price * 2 > 80', 'bool', ['price'])
    """

    sql: str
    schema: pa.Schema
    type: pa.DataType = field(compare=False)
    columns: frozenset[str] = field(compare=False)
    is_column: str | None = field(compare=False)
    duckdb_sql: str = field(compare=False, repr=False)
    constant: pa.Array | None = field(compare=False, repr=False)

    @staticmethod
    def parse(text: str, schema: pa.Schema) -> Expression:
        """Read an expression over the columns of a schema.

        Raises:
            QueryError: a syntax error, an unknown column, types that do not fit, or something
                that is not one value per row.
        """
        return _parse(text, schema)

    @staticmethod
    def column(name: str, schema: pa.Schema) -> Expression:
        """A plain reference to a column, whatever characters its name has."""
        return _parse("`" + name.replace("`", "``") + "`", schema)

    def evaluate(self, rows: pa.RecordBatch, length: int) -> pa.Array:
        """The values for `length` rows; of the columns of `rows`, only those needed count.

        Raises:
            StreamError: the expression fails for one of the rows.
        """
        return evaluate_all([self], rows, length)[0]


def evaluate_all(
    expressions: Sequence[Expression], rows: pa.RecordBatch, length: int
) -> list[pa.Array]:
    """The values of several expressions over one schema, in one go."""
    harder = [each for each in expressions if each.is_column is None and each.constant is None]
    computed = iter(_compute(harder, rows, length))
    return [
        rows.column(each.is_column)
        if each.is_column is not None
        else _repeat(each.constant, length)
        if each.constant is not None
        else next(computed)
        for each in expressions
    ]


def images(
    expressions: Sequence[Expression], tuples: Sequence[Payload], schema: pa.Schema
) -> dict[Payload, Payload]:
    """What each payload becomes under some expressions: the meaning, one payload at a time."""
    columns = evaluate_all(expressions, rows_of(tuples, schema), len(tuples))
    names = [str(position) for position in range(len(columns))]
    found = payloads(pa.RecordBatch.from_arrays(columns, names=names), len(tuples))
    return dict(zip(tuples, found))


@lru_cache(maxsize=4096)
def _parse(text: str, schema: pa.Schema) -> Expression:
    bound = bind(text, schema)
    if bound.is_column is not None:
        kind, constant = schema.field(bound.is_column).type, None
    else:
        # By version, DuckDB calls NULL an integer.
        value = pa.nulls(1) if bound.sql == "NULL" else _try(bound, text, schema)
        kind = plain_type(value.type)
        constant = None if bound.columns else value.cast(kind)
    return Expression(
        sql=bound.sql,
        schema=schema,
        type=kind,
        columns=bound.columns,
        is_column=bound.is_column,
        duckdb_sql=bound.duckdb,
        constant=constant,
    )


def _try(bound: ScalarSql, text: str, schema: pa.Schema) -> pa.Array:
    """The value at compile time: over no rows, or over one where no column is needed."""
    nothing = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["nothing"])
    rows = numbered(bound.columns, schema, no_rows(schema)) if bound.columns else nothing
    where = f"in: {' '.join(text.split())}"
    try:
        table = select([bound.duckdb], rows)
        if bound.columns:
            _look_at_constants(bound, schema)
    except duckdb.Error as error:
        what = explain_failure(error, schema.names)
        hint = "check names of functions and types of columns; cast where types do not fit"
        raise QueryError(what, where=where, hint=hint) from None
    if table.num_rows != rows.num_rows:
        what = "the expression does not give one value per row"
        raise QueryError(what, where=where, hint="aggregates stand beside GROUP BY")
    return _whole(table.column(0))


def _look_at_constants(bound: ScalarSql, schema: pa.Schema) -> None:
    """Raise where a constant does not fit its place, as in `price > 'abc'`.

    DuckDB converts such a constant only when there is a row: here one that is all NULL. Other
    failures are left to the rows: `1 / coalesce(count, 0)` is a legal expression.
    """
    nulls = [pa.nulls(1, field.type) for field in schema]
    row = pa.RecordBatch.from_arrays(nulls, names=schema.names)
    try:
        select([bound.duckdb], numbered(bound.columns, schema, row))
    except duckdb.ConversionException:
        raise
    except duckdb.Error:
        return


def _compute(
    expressions: Sequence[Expression], rows: pa.RecordBatch, length: int
) -> list[pa.Array]:
    if not length:
        return [pa.array([], each.type) for each in expressions]
    if not expressions:
        return []
    schema = expressions[0].schema
    needed = frozenset().union(*(each.columns for each in expressions))
    try:
        table = select([each.duckdb_sql for each in expressions], numbered(needed, schema, rows))
    except duckdb.Error as error:
        if len(expressions) > 1:
            # One by one, so that the one that fails is named.
            return [_compute([each], rows, length)[0] for each in expressions]
        raise StreamError(
            f"cannot evaluate {expressions[0].sql}",
            where=explain_failure(error, schema.names),
            hint="leave such rows out beforehand, or use try_cast, try_divide and the like",
        ) from None
    assert table.num_rows == length
    return [_whole(column).cast(each.type) for column, each in zip(table.columns, expressions)]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _repeat(value: pa.Array, length: int) -> pa.Array:
    return value.take(pa.array(np.zeros(length, np.int64)))
