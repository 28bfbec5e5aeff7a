"""The types that Spark gives to expressions which only Spark evaluates."""

from __future__ import annotations

import re

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from anabranch.errors import QueryError
from anabranch.expressions.expression import TypeOracle
from anabranch.expressions.functions.value import type_in_spark
from anabranch.expressions.plain_type import plain_type
from anabranch.runtime.spark.session_free import pinned


def spark_type(session: SparkSession) -> TypeOracle:
    """Asks a session for types: what an expression would be over a DataFrame without rows."""

    def ask(text: str, schema: pa.Schema) -> pa.DataType:
        kinds = [(field.name, type_in_spark(field.type)) for field in schema]
        columns = pa.schema([(name, kind) for name, kind in kinds if kind is not None])
        there = from_arrow_schema(columns, prefer_timestamp_ntz=True)
        try:
            with pinned(session):
                found = session.createDataFrame([], there).select(sf.expr(text).alias("v")).schema
            return plain_type(to_arrow_schema(found, timezone="UTC").field("v").type)
        except PySparkException as problem:
            raise QueryError(
                _complaint(problem), where=f"in: {text}", hint="this is the message of Spark"
            ) from None

    return ask


def _complaint(problem: PySparkException) -> str:
    """The sentence of Spark's message, without its class and its plan."""
    line = str(problem).strip().split("\n", 1)[0]
    return re.sub(r"^\[[A-Z0-9_.]+\] | SQLSTATE: .*$", "", line)[:300]
