"""Workers are started before batches need them, and they are the ones that batches get."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from anabranch.runtime.spark.session import PLAIN_JOBS
from anabranch.runtime.spark.warm_up import start_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TASKS = 2
STAGES = "anabranch.runtime.workers.stage_task"


@pytest.fixture(params=["plain jobs", "DataFrame"])
def fresh(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """A Spark that has no workers yet for the jobs of a test, which are of one kind."""
    environment: dict[str, str] = spark.sparkContext.environment
    environment["ANABRANCH_TEST"] = request.node.name
    spark.conf.set(PLAIN_JOBS, str(request.param == "plain jobs").lower())
    yield spark
    spark.conf.unset(PLAIN_JOBS)
    del environment["ANABRANCH_TEST"]


def imported(nothing: Iterable[object]) -> Iterator[tuple[str, bool]]:
    assert not list(nothing)
    yield os.environ["ANABRANCH_TEST"], STAGES in sys.modules


def imported_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        there = [STAGES in sys.modules] * rows.num_rows
        name = [os.environ["ANABRANCH_TEST"]] * rows.num_rows
        yield pa.RecordBatch.from_pydict({"name": name, "there": there})


def asked_of_batches(spark: SparkSession) -> list[tuple[str, bool]]:
    """The test that workers were started for, and whether they have imported what stages need."""
    if spark.conf.get(PLAIN_JOBS) == "true":
        empty: Any = spark.sparkContext.parallelize((), TASKS)
        return [tuple(each) for each in empty.mapPartitions(imported).collect()]
    rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(imported_rows, "name string, there boolean")
    return [(row["name"], row["there"]) for row in rows.collect()]


def test_batches_find_workers_that_have_imported_everything(
    fresh: SparkSession, request: pytest.FixtureRequest
) -> None:
    start_workers(fresh, TASKS)
    assert asked_of_batches(fresh) == [(request.node.name, True)] * TASKS


def test_without_a_start_they_have_not(fresh: SparkSession, request: pytest.FixtureRequest) -> None:
    assert asked_of_batches(fresh) == [(request.node.name, False)] * TASKS
