from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from anabranch.bench.rows import write_rows
from anabranch.bench.spark_times import with_setting, without_empty_batches
from tests.bench import peers

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Settings:
    """The settings of a session, and nothing else of it."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.conf = self

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        del self.values[name]


def test_a_setting_is_as_before_afterwards() -> None:
    spark = Settings(a="1")
    for name in ("a", "b"):
        with with_setting(spark, name, "2"):
            assert spark.values[name] == "2"
    assert spark.values == {"a": "1"}


@pytest.mark.spark
def test_a_query_without_empty_batches_stays_so_when_the_setting_is_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = tmp_path / "rows"
    write_rows(rows, files=2, rows_per_file=100, keys=5, per_second=5)

    with without_empty_batches(spark):
        tuned = peers.native_tumbling(spark, rows, tmp_path / "tuned", 1)
    usual = peers.native_tumbling(spark, rows, tmp_path / "usual", 1)
    assert _batches(tuned) == [100, 100]
    assert 0 in _batches(usual)


def _batches(query: StreamingQuery) -> list[int]:
    query.awaitTermination()
    return [each.numInputRows for each in query.recentProgress if "addBatch" in each.durationMs]
