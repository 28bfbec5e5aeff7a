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
_WINDOWS: Final = ("window", "session_window")
_QUOTED: Final = re.compile(r"'([^']*)'")
_OF_PYTHON: Final = re.compile(r"(?P<name>[^(]*)\((?:columnnodeexpression|UnresolvedAttribute)\(")


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
            hint=_window_hint(called[0], _QUOTED.findall(printed)),
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


def _window_hint(function: str, spans: list[str]) -> str:
    """What to write for a window of Spark: its size, and how far apart windows begin."""
    size, hop = (spans + ["10 minutes"] * 2)[:2]
    if function == "session_window":
        return f"use stream.sessions('{size}', by=...) before agg"
    windows = f"tumbling('{size}'" if size == hop else f"hopping('{size}', '{hop}'"
    return f"use stream.{windows}, by=..., columns=True) before agg; columns has its bounds"


def _unclear(printed: str, text: str) -> QueryError:
    of_python = _OF_PYTHON.match(printed)
    if of_python is not None:
        return QueryError(
            "a Python function of Spark cannot be translated",
            where=f"{of_python['name']}(...)",
            hint="register it with engine.register(ab.udf(function)), and call it by name in SQL "
            "text: 'function(price)'",
        )
    if " OVER (" in printed:
        return QueryError(
            "a window function of Spark cannot be translated",
            where=printed,
            hint="write stream.rank('at', by='item', place='RANK()', before='LAG(price)'), or "
            "RANK() OVER (...) in the SELECT of engine.sql",
        )
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
