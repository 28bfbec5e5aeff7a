"""The values of expressions in a worker and in Spark, row by row, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from anabranch.errors import QueryError, StreamError
from anabranch.expressions import evaluation
from anabranch.expressions.evaluation import numbered, select
from anabranch.expressions.expression import Expression
from anabranch.expressions.functions.every import FUNCTIONS
from anabranch.expressions.functions.value import type_in_duckdb
from anabranch.expressions.plain_type import plain_type
from anabranch.expressions.scalar_sql import DIALECT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAILS: Final = "fails"
UNSAID: Final = "unsaid"
ROW: Final = "__row"
_ROUGH: Final = tuple(f"{name}(" for name, each in FUNCTIONS.items() if each.digits)
_BATCH: Final = 80
_LAZY: Final = (exp.Case, exp.If, exp.Coalesce, exp.And, exp.Or, exp.Paren)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """What came out differently, and for which row."""

    text: str
    what: str
    row: object = None
    worker: object = None
    spark: object = None


def is_rough(text: str) -> bool:
    """Whether the last digits of what comes out may differ."""
    return any(name in text for name in _ROUGH)


def admitted(texts: Sequence[str], schema: pa.Schema) -> dict[str, Expression]:
    """The expressions that workers evaluate."""
    found = {}
    for text in texts:
        try:
            found[text] = Expression.parse(text, schema)
        except QueryError:
            continue
    return found


def in_worker(expression: Expression, rows: pa.RecordBatch) -> list[Any]:
    """The value for each row, or FAILS."""
    try:
        return _plain(expression.evaluate(rows, len(rows)))
    except StreamError:
        pass
    if len(rows) == 1:
        return [FAILS]
    try:
        return _each_by_itself(expression, rows)
    except duckdb.Error:
        half = len(rows) // 2
        return in_worker(expression, rows[:half]) + in_worker(expression, rows[half:])


def _each_by_itself(expression: Expression, rows: pa.RecordBatch) -> list[Any]:
    """With DuckDB's TRY, which wants a failure that depends on the row."""
    columns = numbered(expression.columns, expression.schema, rows, len(rows))
    columns = columns.append_column("row", pa.array([str(row) for row in range(len(rows))]))
    text = expression.duckdb_sql.replace("error(", 'fail("row", ')
    connection = evaluation._open[0]
    connection.execute(
        "CREATE MACRO IF NOT EXISTS fail(r, m) AS CAST(CAST(concat('!', r, m) AS INT) AS \"NULL\")"
    )
    found = select([f"TRY(list_value({text}))"], columns).column(0).combine_chunks()
    values = found.flatten().cast(type_in_duckdb(expression.type)).cast(expression.type)
    rest = iter(_plain(values))
    return [next(rest) if there else FAILS for there in found.is_valid().to_pylist()]


def frame_of(spark: SparkSession, rows: pa.RecordBatch) -> DataFrame:
    """The rows in Spark; times without a zone stay so."""
    from pyspark.sql import functions as sf

    table = pa.Table.from_batches([rows])
    clocks = [field.name for field in rows.schema if field.type == pa.timestamp("us")]
    frame = spark.createDataFrame(table)
    return frame.withColumns({name: sf.col(name).cast("timestamp_ntz") for name in clocks})


def failing_arguments(text: str, rows: pa.RecordBatch) -> set[int]:
    """The rows for which an argument of a function inside an expression has no value.

    Whether such an argument is evaluated where another one already decides, being NULL, is open:
    Spark itself answers differently from one plan to the next.
    """
    parts = [
        part.sql(DIALECT)
        for part in sqlglot.parse_one(text, dialect=DIALECT).find_all(exp.Expression)
        if part.parent and not isinstance(part.parent, _LAZY) and not isinstance(part, exp.Column)
    ]
    # Printed again, a pattern that is the usual one is left out: what is nested counts as written.
    lazy = [each for each in _LAZY if each is not exp.Paren]
    if not sqlglot.parse_one(text, dialect=DIALECT).find(*lazy):
        parts += _in_parentheses(text)
    found = set()
    for expression in admitted(parts, rows.schema).values():
        values = in_worker(expression, rows)
        found |= {row for row, value in enumerate(values) if value == FAILS}
    return found


def _in_parentheses(text: str) -> Iterator[str]:
    """All that stands in parentheses, with them; what is in quotes is passed over."""
    opened: list[int] = []
    is_quoted = False
    for at, letter in enumerate(text):
        is_quoted ^= letter == "'"
        if letter == "(" and not is_quoted:
            opened.append(at)
        elif letter == ")" and not is_quoted and opened:
            yield text[opened.pop() : at + 1]


def compare(
    spark: SparkSession,
    expressions: dict[str, Expression],
    rows: pa.RecordBatch,
    unsaid: Mapping[str, set[int]] = MappingProxyType({}),
) -> list[Disagreement]:
    """Where the two disagree: on a value, on a type, or on whether there is a value at all."""
    worker = {text: in_worker(each, rows) for text, each in expressions.items()}
    for text, places in unsaid.items():
        for place in places:
            worker[text][place] = UNSAID
    numbers = pa.array(range(len(rows)))
    frame = frame_of(spark, rows.append_column(ROW, numbers)).coalesce(1).cache()
    some = [text for text in expressions if not {FAILS, UNSAID}.issuperset(map(str, worker[text]))]
    found: list[Disagreement] = []
    for start in range(0, len(some), _BATCH):
        part = {text: expressions[text] for text in some[start : start + _BATCH]}
        found += _compare_values(frame, part, worker, rows)
    frame.unpersist()
    for text, expression in expressions.items():
        if FAILS in worker[text]:
            found += _compare_failure(
                spark, text, expression, rows.take([worker[text].index(FAILS)])
            )
    return found


def _compare_values(
    frame: DataFrame,
    expressions: dict[str, Expression],
    worker: dict[str, list[Any]],
    rows: pa.RecordBatch,
) -> list[Disagreement]:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        columns = [
            f"{_where_defined(each.sql, worker[text])} AS v{place}"
            for place, (text, each) in enumerate(expressions.items())
        ]
        selected = frame.selectExpr(*columns)
        types = to_arrow_schema(selected.schema, timezone="UTC")
        table = selected.toArrow()
    except PySparkException as problem:
        if len(expressions) == 1:
            [text] = expressions
            return [Disagreement(text=text, what="only Spark fails", spark=str(problem)[:200])]
        texts, half = list(expressions), len(expressions) // 2
        return [
            each
            for part in (texts[:half], texts[half:])
            for each in _compare_values(frame, {t: expressions[t] for t in part}, worker, rows)
        ]
    found = []
    for place, (text, each) in enumerate(expressions.items()):
        kind = plain_type(types.field(place).type)
        if kind != plain_type(each.type):
            found.append(Disagreement(text=text, what="type", worker=each.type, spark=kind))
        values = _plain(table.column(place).combine_chunks())
        same = _almost if is_rough(text) else _equal
        pairs = zip(worker[text], values)
        wrong = [
            at for at, (w, s) in enumerate(pairs) if w not in (FAILS, UNSAID) and not same(w, s)
        ]
        for at in wrong[:1]:
            row = {name: rows.column(name)[at] for name in each.columns}
            here = {"worker": worker[text][at], "spark": values[at]}
            found.append(Disagreement(text=text, what="value", row=row, **here))
    return found


def _where_defined(sql: str, values: list[Any]) -> str:
    """The expression, evaluated in Spark only for those rows where the worker does not fail."""
    failing = [str(row) for row, value in enumerate(values) if value in (FAILS, UNSAID)]
    if not failing:
        return sql
    return f"CASE WHEN {ROW} IN ({', '.join(failing)}) THEN NULL ELSE {sql} END"


def _compare_failure(
    spark: SparkSession, text: str, expression: Expression, rows: pa.RecordBatch
) -> list[Disagreement]:
    """A row for which the worker fails must fail in Spark."""
    from pyspark.errors import PySparkException

    names = sorted(expression.columns)
    row = rows.select(names) if names else rows
    try:
        selected = frame_of(spark, row).selectExpr(expression.sql)
        # Spark evaluates rows that it has at hand while it plans, which takes no job.
        selected._jdf.queryExecution().optimizedPlan()
        value = selected.toArrow().column(0)
    except PySparkException:
        return []
    return [Disagreement(text=text, what="only the worker fails", row=row.to_pylist(), spark=value)]


def _plain(values: pa.Array) -> list[Any]:
    """Times as numbers: some of Spark's years are beyond Python's."""
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    return list(values.to_pylist())


def _equal(one: Any, two: Any) -> bool:
    """Equal to the last bit."""
    if isinstance(one, float) and isinstance(two, float):
        return repr(one) == repr(two)
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(map(_equal, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_equal(one[key], two[key]) for key in one)
    return bool(one == two)


def _almost(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float) and math.isfinite(one):
        return math.isclose(one, two, rel_tol=1e-12)
    return _equal(one, two)
