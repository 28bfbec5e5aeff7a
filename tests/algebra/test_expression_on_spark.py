"""Expressions mean in the worker what they mean in Spark."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from anabranch.errors import QueryError, StreamError
from anabranch.expressions.expression import Expression
from anabranch.model.payload import freeze

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "i": 7,
            "n": -3,
            "x": 2.5,
            "s": "ab c",
            "t": " 12 ",
            "b": True,
            "d": Decimal("1.25"),
            "ts": datetime(2026, 11, 15, 10, 30, 5),
            "tz": datetime(2026, 11, 15, 23, 30, tzinfo=timezone.utc),
            "l": [10, None, 20],
            "p": {"x": 3, "name": "é"},
            "zero": 0,
            "big": 2_000_000_000,
        },
        {"x": math.nan, "s": "", "zero": 1, "i": 0, "n": 1, "t": "7"},
        {"x": -0.0, "s": "Ünï", "b": False, "zero": 2, "i": -7, "n": 2},
        {"zero": 1},
    ],
    schema=pa.schema(
        [
            ("i", pa.int64()),
            ("n", pa.int32()),
            ("x", pa.float64()),
            ("s", pa.string()),
            ("t", pa.string()),
            ("b", pa.bool_()),
            ("d", pa.decimal128(10, 2)),
            ("ts", pa.timestamp("us")),
            ("tz", pa.timestamp("us", "UTC")),
            ("l", pa.list_(pa.int64())),
            ("p", pa.struct([("x", pa.int32()), ("name", pa.string())])),
            ("zero", pa.int64()),
            ("big", pa.int32()),
        ]
    ),
)

TEXTS = """
i + 1 ; -i ; i - n * 2 ; i / 2 ; i / zero ; i div 2 ; -7 div 2 ; i div zero ; i % 3 ; -i % 3
i % zero ; n + n ; big + big ; big * big ; i * n ; i & 3 ; i | 8 ; i ^ 2 ; x * 2 ; x / 0 ; x + i
3 / 2 ; 2 * 3.5 ; d * 2 ; d + i ; d + d ; d - 1.5 ; d > 1 ; d = 1.25 ; 1 = 1.0 ; '1' = 1
i = '7' ; i > '3' ; x > 2 ; x = x ; x > cast('inf' as double) ; x = 0 ; x <> x ; x <=> null
x is null ; isnan(x) ; b ; not b ; b and x > 2 ; b or null ; b and null ; x > 2 and i / zero > 1
zero <> 0 and i / zero > 1 ; zero = 0 or i % zero = 1 ; if(zero = 0, 0, i div zero)
case when i > 0 then 'p' when i < 0 then 'n' end ; case i when 7 then 'seven' else s end
coalesce(x, i, 0) ; nullif(i, 7) ; nvl(x, 0) ; ifnull(s, 'none') ; i in (1, 7) ; i not in (1, 7)
i in (1, null) ; i between -7 and 0 ; s like 'a%' ; s rlike '^[a-b]+' ; s || '!'
concat(s, 'x', null) ; upper(s) ; lower(s) ; length(s) ; trim(t) ; substring(s, 2, 2)
substring(s, -1, 1) ; replace(s, 'b', 'x') ; reverse(s) ; repeat(s, 2) ; instr(s, 'b')
initcap('ab cd') ; lpad(s, 6, '-') ; split(s, ' ') ; md5(s) ; sha2(s, 256) ; s < 'b'
s = 'ab c' ; abs(n) ; sign(n) ; round(x) ; round(-x) ; round(x, 1) ; floor(x) ; ceil(x)
sqrt(i + 7) ; exp(0) ; ln(i + 8) ; log10(zero + 1) ; pow(2, n) ; mod(-7, 3) ; greatest(i, n)
least(i, n, null) ; cast(x as int) ; cast(-x as bigint) ; cast(d as int) ; cast(2.5 as int)
cast(-2.5 as int) ; cast(t as int) ; cast(t as double) ; cast(s as int) ; try_cast(s as int)
try_cast(t as int) ; cast('2.5' as int) ; try_cast('2.5' as int) ; try_cast('1e3' as int)
cast('+5' as int) ; cast(b as int) ; cast('true' as boolean) ; cast(i as string)
cast(b as string) ; cast(d as double) ; cast(ts as date)
cast(ts as string) ; cast('2026-11-15 10:00:00' as timestamp) < tz ; cast(i as double)
try_divide(i, zero) ; i / nullif(zero, 0) ; year(ts) ; month(ts) ; day(ts) ; hour(ts) ; hour(tz)
minute(ts) ; second(ts) ; quarter(ts) ; dayofyear(ts) ; dayofweek(ts) ; weekday(ts)
weekofyear(ts) ; date_trunc('hour', ts) ; date_trunc('day', tz) ; ts + interval 1 day
ts - interval 90 minutes ; ts < tz ; ts = timestamp '2026-11-15 10:30:05'
date_add(cast(ts as date), 3) ; date_sub(cast(ts as date), 3) ; add_months(cast(ts as date), 1)
datediff(ts, date '2026-11-01') ; last_day(cast(ts as date)) ; date_format(ts, 'yyyy-MM')
l[0] ; element_at(l, -1) ; size(l) ; array_contains(l, 10)
transform(l, e -> e + i) ; filter(l, e -> e > 10) ; array(i, n) ; p.x ; p.name ; p.x + i
named_struct('a', i, 'b', s) ; p
"""


def texts() -> list[str]:
    return [text.strip() for line in TEXTS.strip().split("\n") for text in line.split(" ; ")]


def plain(value: Any) -> Any:
    """Rows and lists as tuples, instants without their zone, floats to twelve digits."""
    if isinstance(value, float):
        return freeze(float(f"{value:.12g}"))
    if isinstance(value, (list, tuple)):
        return tuple(plain(part) for part in value)
    if isinstance(value, dict):
        return tuple(plain(part) for part in value.values())
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return freeze(value)


def in_the_worker(text: str) -> Any:
    try:
        found = Expression.parse(text, ROWS.schema).evaluate(ROWS, len(ROWS))
    except (QueryError, StreamError):
        return "fails"
    return [plain(value) for value in found.to_pylist()]


def in_spark(frame: DataFrame, texts: list[str]) -> dict[str, Any]:
    """All at once if none fails, else half by half."""
    from pyspark.errors import PySparkException

    try:
        rows = frame.selectExpr(*(f"{spelled(text)} AS v{i}" for i, text in enumerate(texts)))
        columns = list(zip(*rows.collect()))
    except PySparkException:
        if len(texts) == 1:
            return {texts[0]: "fails"}
        half = len(texts) // 2
        return in_spark(frame, texts[:half]) | in_spark(frame, texts[half:])
    return {text: [plain(value) for value in column] for text, column in zip(texts, columns)}


def spelled(text: str) -> str:
    """The canonical text, if there is one."""
    try:
        return Expression.parse(text, ROWS.schema).sql
    except QueryError:
        return text


def test_the_worker_and_spark_give_the_same_values(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.Table.from_batches([ROWS])).coalesce(1)
    worker = {text: in_the_worker(text) for text in texts()}
    fine = [text for text in texts() if worker[text] != "fails"]
    native = in_spark(frame, fine)
    for text in worker.keys() - native.keys():
        native |= in_spark(frame, [text])
    different = {
        text: {"worker": worker[text], "spark": native[text]}
        for text in texts()
        if worker[text] != native[text]
    }
    assert different == {}
