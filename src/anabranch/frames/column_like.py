"""Whatever names a column, as text: SQL, a column of ours, one of Spark's; and what does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.frames.column import Column, quoted
from anabranch.runtime.option import shown

ColumnLike: TypeAlias = str | Column | Any
"""SQL text, `stream["price"] * 2`, or a `Column` of Spark, which is translated."""


def text_of(value: ColumnLike, schema: pa.Schema, where: str) -> str:
    """The SQL text of an expression over the columns of a schema.

    Raises:
        PlanError: It is not an expression.
        QueryError: It is a `Column` of Spark that has no such text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Column):
        return value.text
    if is_spark_column(value):
        from anabranch.runtime.spark.column_text import text_of_column

        return text_of_column(value, schema)
    raise PlanError(
        f"{_named(value)} is not an expression",
        where=where,
        hint=_hint(value),
    )


def texts_of(values: Iterable[ColumnLike], schema: pa.Schema, where: str) -> list[str]:
    """The texts of several expressions; lists among them count as what is in them."""
    found: list[str] = []
    for value in values:
        if isinstance(value, list | tuple):
            found += texts_of(value, schema, where)
        else:
            found.append(text_of(value, schema, where))
    return found


def of_mapping(aggregates: Mapping[str, str]) -> list[tuple[str, str]]:
    """The aggregates of a dictionary, as Spark has them: `agg({"price": "max", "*": "count"})`.

    >>> of_mapping({"price": "max", "*": "count"})
    [('max(price)', 'max(price)'), ('count(*)', 'count(*)')]
    """
    return [
        (f"{function}({column})", f"{function}({'*' if column == '*' else quoted(column)})")
        for column, function in aggregates.items()
    ]


def listed(values: ColumnLike | Sequence[ColumnLike], schema: pa.Schema, where: str) -> list[str]:
    """The texts of an option that takes one expression or several."""
    return texts_of(values if isinstance(values, list | tuple) else [values], schema, where)


def is_spark_column(value: object) -> bool:
    """Whether it is a `Column` of Spark, of a session here or on the other side of a connection."""
    kinds = type(value).__mro__
    return any(
        each.__name__ == "Column" and each.__module__.startswith("pyspark.") for each in kinds
    )


def _named(value: object) -> str:
    if callable(value) and hasattr(value, "__name__"):
        name = str(value.__name__)
        return "a lambda" if name == "<lambda>" else f"the function {name}"
    return shown(value)


def _hint(value: object) -> str:
    if callable(value):
        return (
            "write SQL text, 'price > 80', or stream['price'] > 80; a Python function is "
            "registered with engine.register(ab.udf(function)) and called by name"
        )
    constant = f"; a constant is ab.lit({value!r})" if isinstance(value, int | float) else ""
    return f"write SQL text, 'price > 80', or stream['price'] > 80{constant}"
