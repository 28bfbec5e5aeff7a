"""A `Column` of Spark as SQL text: what it prints as, read again, and compared with it by Spark.

Spark has no public way to the expression inside a `Column`, but it prints one in prefix form:
`=(name, 'x')`, `CASE WHEN >(a, 1) THEN 'x' ELSE NULL END`. This form leaves things out: that of
`count_distinct("a")` is `count(a)`. So the text that is read from it is handed back to Spark, and
counts only where Spark says that both mean the same (`DataFrame.sameSemantics`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from anabranch.errors import QueryError
from anabranch.runtime.spark.printed_column import NotPlainError, sql_of_printed

_ORDER: Final = re.compile(
    r"(?P<inner>.*) (?P<way>ASC|DESC) NULLS (?P<nulls>FIRST|LAST)", re.DOTALL
)
_WINDOWS: Final = {
    "window": "stream.tumbling('10 minutes', by=...) or stream.hopping(size, hop, by=...) before "
    "agg, with columns=True for its bounds",
    "session_window": "stream.sessions('5 minutes', by=...) before agg",
}


def text_of_column(column: Any, schema: pa.Schema) -> str:
    """The SQL text of a `Column` over the columns of a stream; with its alias, or its order.

    Raises:
        QueryError: It cannot be told for sure what the text is.
    """
    printed = str(column).removeprefix("Column<'").removesuffix("'>")
    called = re.match(r"[a-z_]+(?=\()", printed)
    if called is not None and called[0] in _WINDOWS:
        raise QueryError(
            f"{called[0]} of Spark is not a column of a stream",
            where=printed,
            hint=f"use {_WINDOWS[called[0]]}",
        )
    ordered = _ORDER.fullmatch(printed)
    order = "" if ordered is None else f" {ordered['way']} NULLS {ordered['nulls']}"
    try:
        texts = list(sql_of_printed(printed if ordered is None else ordered["inner"], schema.names))
    except NotPlainError:
        raise _unclear(printed, "") from None
    frame = _empty(schema)
    try:
        wanted = frame.sort(column) if order else frame.select(column)
    except PySparkException as problem:
        first = str(problem).strip().splitlines()[0]
        hint = f"columns are: {', '.join(schema.names)}; as text this would be: {texts[0]!r}"
        raise QueryError(f"Spark cannot read {printed}", where=first[:300], hint=hint) from None
    for text in texts:
        if _same(frame, wanted, text, order):
            return f"{text}{order}"
    raise _unclear(printed, texts[0])


def _same(frame: DataFrame, wanted: DataFrame, text: str, order: str) -> bool:
    """Whether Spark takes the text for the same expression."""
    alias = re.fullmatch(r"(?P<inner>.*) AS `(?P<name>(?:[^`]|``)*)`", text, re.DOTALL)
    try:
        column = sf.expr(text if alias is None else alias["inner"])
        if alias is not None:
            column = column.alias(alias["name"].replace("``", "`"))
        if order:
            way = "desc" if "DESC" in order else "asc"
            column = getattr(column, f"{way}_nulls_{'first' if 'FIRST' in order else 'last'}")()
        return wanted.sameSemantics(frame.sort(column) if order else frame.select(column))
    except PySparkException:
        return False


def _empty(schema: pa.Schema) -> DataFrame:
    """No rows of a schema, in the session that the column was made in."""
    from pyspark.sql.pandas.types import from_arrow_schema

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return session.createDataFrame([], from_arrow_schema(schema, prefer_timestamp_ntz=True))


def _unclear(printed: str, text: str) -> QueryError:
    written = f"{text!r}" if text else "'price * 2 > 80'"
    return QueryError(
        "this Column of Spark cannot be translated",
        where=printed,
        hint=f"write SQL text in its place, such as {written}; Python functions are registered "
        "with engine.register(ab.udf(...)) and called by name",
    )


def functions_in_spark(names: Iterator[str]) -> list[str]:
    """Those names that are functions of the active session, such as registered UDFs."""
    session = SparkSession.getActiveSession()
    if session is None:
        return []
    return [name for name in names if session.catalog.functionExists(name)]
