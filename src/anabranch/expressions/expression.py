"""A scalar SQL expression, bound to a schema: one value per row."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.errors import OperatorError, PlanError, QueryError, StreamError
from anabranch.expressions.functions.casts import WRONG_CONSTANT
from anabranch.expressions.functions.every import FUNCTIONS
from anabranch.expressions.functions.value import NULL, Value, type_in_duckdb
from anabranch.expressions.quick_arithmetic import quick_arithmetic
from anabranch.expressions.quick_array import quick_array
from anabranch.expressions.quick_case import quick_case
from anabranch.expressions.quick_condition import quick_condition
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.expressions.scalar_sql import IN_WORKERS, ScalarSql, bind
from anabranch.model.identity import Identity
from anabranch.model.payload import Payload, payloads, rows_of

_SPARK_HINT: Final = "use it in a filter or projection right above a DataFrame source"
_QUICK: Final = (quick_case, quick_arithmetic, quick_array)
"""Ways to compute values without a query engine, by the text of an expression."""

TypeOracle = Callable[[str, pa.Schema], pa.DataType]
"""The type that Spark gives an expression over the columns of a schema; asks Spark itself."""

ParseScalar: TypeAlias = Callable[[str, pa.Schema], "Expression"]
"""How an expression is read where it stands."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One value per row, as Spark's SQL spells it.

    Two expressions are equal when their canonical texts and schemas are. Casts, divisions by
    zero and overflows fail as they do in Spark (`try_cast`, `try_divide` give NULL instead), and
    `may_fail` says that there may be such rows.

    What is not known to give the same in a worker as in Spark is `spark_only`: it can stand right
    above a DataFrame source, where Spark evaluates it. What calls functions of users is evaluated
    in workers only; they are a part of the expression.

    >>> bids = pa.schema([("itemID", pa.int64()), ("price", pa.float64())])
    >>> dear = Expression.parse("PRICE*2 > 80", bids)
    >>> dear.sql, str(dear.type), sorted(dear.columns)
    ('price * 2 > 80', 'bool', ['price'])
    """

    identity: ClassVar[Identity] = Identity(
        "expression",
        ("sql", "type"),
        ignored={
            "schema": "that of what it is evaluated over, which is a part of the plan",
            "columns": "follow from the text",
            "is_column": "follows from the text",
            "duckdb_sql": "how this version computes it",
            "constant": "follows from the text",
            "spark_only": "who computes it",
            "may_fail": "follows from the text",
            "functions": "named in the text; a query resumes with a changed function",
        },
    )

    sql: str
    schema: pa.Schema
    type: pa.DataType = field(compare=False)
    columns: frozenset[str] = field(compare=False, repr=False)
    is_column: str | None = field(compare=False)
    duckdb_sql: str = field(compare=False, repr=False)
    constant: pa.Array | None = field(compare=False, repr=False)
    spark_only: bool = field(compare=False, default=False)
    may_fail: bool = field(compare=False, default=False, repr=False)
    functions: tuple[ScalarFunction, ...] = field(default=(), repr=False)

    @staticmethod
    def parse(
        text: str,
        schema: pa.Schema,
        types: TypeOracle | None = None,
        functions: Iterable[ScalarFunction] = (),
    ) -> Expression:
        """Read an expression over the columns of a schema.

        What only Spark evaluates needs `types`, which says the type it has there. Of `functions`,
        those of users, the expression keeps the ones that it calls.

        Raises:
            QueryError: a syntax error, an unknown column or function, types that do not fit,
                something that is not one value per row, or something only Spark evaluates.
        """
        return _parse(text, schema, types, named_in(text, functions))

    @staticmethod
    def column(name: str, schema: pa.Schema) -> Expression:
        """A plain reference to a column, whatever characters its name has."""
        return _parse("`" + name.replace("`", "``") + "`", schema, None, ())

    def evaluate(self, rows: pa.RecordBatch, length: int) -> pa.Array:
        """The values for `length` rows; of the columns of `rows`, only those needed count.

        Raises:
            StreamError: the expression fails for one of the rows.
            OperatorError: a user's function in it fails for one of the rows.
            PlanError: the expression is evaluated by Spark only.
        """
        return evaluate_all([self], rows, length)[0]


def named_in(text: str, functions: Iterable[ScalarFunction]) -> tuple[ScalarFunction, ...]:
    """The functions whose names occur in a text, in one order: the others do not matter to it."""
    small = text.lower() if functions else ""
    found = {each for each in functions if each.name in small}
    return tuple(sorted(found, key=lambda each: each.name))


def evaluate_all(
    expressions: Sequence[Expression], rows: pa.RecordBatch, length: int
) -> list[pa.Array]:
    """The values of several expressions over one schema, in one go."""
    for each in expressions:
        if each.spark_only:
            what = f"{each.sql} is evaluated by Spark only"
            raise PlanError(what, where="in a worker", hint=_SPARK_HINT)
    easy = [_easily(each, rows, length) for each in expressions]
    harder = [each for each, values in zip(expressions, easy) if values is None]
    computed = iter(_compute(harder, rows, length))
    return [next(computed) if values is None else values for values in easy]


def _easily(each: Expression, rows: pa.RecordBatch, length: int) -> pa.Array | None:
    """The values, where that takes no query."""
    if each.is_column is not None:
        return rows.column(each.is_column)
    if each.constant is not None:
        return _repeat(each.constant, length)
    if length and each.type == pa.bool_():
        condition = quick_condition(each.sql, each.schema)
        return None if condition is None else condition(rows)
    if length and each.columns:
        for quick in _QUICK:
            values = quick(each.sql, each.schema, each.type)
            if values is not None:
                return values(rows)
    return None


def images(
    expressions: Sequence[Expression], tuples: Sequence[Payload], schema: pa.Schema
) -> dict[Payload, Payload]:
    """What each payload becomes under some expressions: the meaning, one payload at a time."""
    columns = evaluate_all(expressions, rows_of(tuples, schema), len(tuples))
    names = [str(position) for position in range(len(columns))]
    found = payloads(pa.RecordBatch.from_arrays(columns, names=names), len(tuples))
    return dict(zip(tuples, found))


@lru_cache(maxsize=4096)
def _parse(
    text: str,
    schema: pa.Schema,
    types: TypeOracle | None,
    functions: tuple[ScalarFunction, ...],
) -> Expression:
    bound = bind(text, schema, functions)
    if bound.why_not is not None:
        return _for_spark(bound, text, schema, types)
    constant = None
    if bound.value is None:
        assert bound.is_column is not None
        kind = schema.field(bound.is_column).type
    else:
        kind = bound.value.type
        found = _try(bound.value, bound, text, schema)
        constant = None if bound.columns else found
    return Expression(
        sql=bound.sql,
        schema=schema,
        type=kind,
        columns=bound.columns,
        is_column=bound.is_column,
        duckdb_sql=bound.value.text if bound.value is not None else "",
        constant=constant,
        may_fail=bound.value is not None and bound.value.fails and constant is None,
        functions=bound.functions,
    )


def _for_spark(
    bound: ScalarSql, text: str, schema: pa.Schema, types: TypeOracle | None
) -> Expression:
    """An expression that workers cannot evaluate, if it is allowed."""
    assert bound.why_not is not None
    where = f"in: {' '.join(text.split())}"
    if bound.functions:
        name = bound.functions[0].name
        raise QueryError(
            f"{bound.why_not.what}, and '{name}' in workers only",
            where=where,
            hint=f"compute what Spark evaluates in a nested query, and {name} over it",
        )
    if types is None:
        raise QueryError(bound.why_not.what, where=where, hint=_advice(bound.why_not.name))
    return Expression(
        sql=bound.sql,
        schema=schema,
        type=types(bound.sql, schema),
        columns=bound.columns,
        is_column=None,
        duckdb_sql="",
        constant=None,
        spark_only=True,
        may_fail=True,
    )


def _advice(name: str) -> str:
    if name in FUNCTIONS:
        takes = " or ".join(each.described for each in FUNCTIONS[name].signatures)
        return f"in workers {name} takes {takes}; cast its arguments, or {_SPARK_HINT}"
    near = difflib.get_close_matches(name, sorted(IN_WORKERS), n=3, cutoff=0.7)
    return _SPARK_HINT + (f", or one of: {', '.join(near)}" if near else "")


def _try(value: Value, bound: ScalarSql, text: str, schema: pa.Schema) -> pa.Array:
    """The value at compile time, over one row that is all NULL.

    Over columns a failure counts only if it is one whatever the row is, as in `price > 'abc'`:
    `1 / coalesce(count, 0)` is a legal expression.
    """
    # DuckDB takes long to import, and a process that computes only what is easy needs none of it.
    import duckdb

    from anabranch.expressions.evaluation import (
        OF_THE_ROW,
        explain_failure,
        numbered,
        select,
        whole,
    )

    nulls = [pa.nulls(1, schema.field(name).type) for name in bound.columns]
    row = pa.RecordBatch.from_arrays(nulls, names=list(bound.columns))
    try:
        rows = numbered(bound.columns, schema, row, 1)
        table = select([value.text], rows, bound.functions)
    except OperatorError as error:
        if bound.columns:
            return pa.nulls(1)
        where = f"in: {' '.join(text.split())}\n{error.where}"
        raise QueryError(error.what, where=where, hint=error.hint) from None
    except duckdb.Error as error:
        if bound.columns and isinstance(error, OF_THE_ROW) and WRONG_CONSTANT not in str(error):
            return pa.nulls(1)
        what = explain_failure(error, schema.names)
        where = f"in: {' '.join(text.split())}"
        hint = "check the types of columns and constants; cast where they do not fit"
        raise QueryError(what, where=where, hint=hint) from None
    return _as_type(whole(table.column(0)), value.type)


def _compute(
    expressions: Sequence[Expression], rows: pa.RecordBatch, length: int
) -> list[pa.Array]:
    if not length:
        return [pa.array([], each.type) for each in expressions]
    if not expressions:
        return []
    import duckdb

    from anabranch.expressions.evaluation import explain_failure, numbered, select, whole

    schema = expressions[0].schema
    needed = frozenset().union(*(each.columns for each in expressions))
    try:
        table = select(
            [each.duckdb_sql for each in expressions],
            numbered(needed, schema, rows, length),
            dict.fromkeys(function for each in expressions for function in each.functions),
        )
    except duckdb.Error as error:
        if len(expressions) > 1:
            # One by one, so that the one that fails is named.
            return [_compute([each], rows, length)[0] for each in expressions]
        raise StreamError(
            f"cannot evaluate {expressions[0].sql}",
            where=explain_failure(error, schema.names),
            hint="filter such rows out first, or use try_cast, try_divide and the like",
        ) from None
    assert table.num_rows == length
    return [_as_type(whole(column), each.type) for column, each in zip(table.columns, expressions)]


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == NULL:
        return pa.nulls(len(column))
    return column.cast(type_in_duckdb(kind)).cast(kind)


def _repeat(value: pa.Array, length: int) -> pa.Array:
    return value.take(pa.array(np.zeros(length, np.int64)))
