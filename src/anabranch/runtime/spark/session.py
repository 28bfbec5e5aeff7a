"""A Spark session with settings that suit small, frequent batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from anabranch.errors import PlanError
from anabranch.runtime.sources.files.batch_sizing import SizeLimits
from anabranch.runtime.spark.class_archive import archive_options
from anabranch.runtime.spark.java import use_java
from anabranch.runtime.spark.quiet import quiet_start
from anabranch.runtime.spark.spark_home import linked_home, spark_home

ROWS_PER_TASK: Final = "spark.anabranch.rowsPerTask"
TASK_ROWS: Final = 100_000
"""The setting, unless somebody sets it."""

DRIVER_ROWS: Final = "spark.anabranch.driverRows"
DRIVER_BYTES: Final = "spark.anabranch.driverBytes"
DRIVER_MS: Final = "spark.anabranch.driverMilliseconds"

BATCH_ROWS: Final = "spark.anabranch.batchRows"
BATCH_BYTES: Final = "spark.anabranch.batchBytes"

CATCH_UP: Final = "spark.anabranch.catchUpRounds"

PLAIN_JOBS: Final = "spark.anabranch.plainJobs"

_LOCAL_SHARE: Final = {DRIVER_ROWS: 2_000_000, DRIVER_BYTES: 512 << 20, DRIVER_MS: 1_000}
_CLUSTER_SHARE: Final = {DRIVER_ROWS: 50_000, DRIVER_BYTES: 64 << 20, DRIVER_MS: 100}
"""What a driver computes itself at the most: on a cluster it has to stay free for others."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
REPLAY_POOL: Final = "anabranch-replay"
"""What replays run in, so that they take at most half of the cores while queries have work."""

_POOL: Final = "spark.scheduler.pool"
_QUIET: Final = Path(__file__).with_name("log4j2.properties")
_FAST: Final[Mapping[str, str]] = {
    # The default manager costs 60-80 ms per batch on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
    "spark.python.unix.domain.socket.enabled": "true",
    # Replays have a pool of their own, beside the batches of queries; in a pool first come is first
    # served, as without pools.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "500",
    # How long to wait before looking for new data again; there is no wait while there are some.
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def local_session(
    cores: int | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark in this process, or take the session that is there.

    A task whose Python worker dies is tried again, which plain `local[N]` does not do.
    """
    use_java()
    # The only way that Spark takes the interpreter of workers from in local mode.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    count = cores or min(os.cpu_count() or 1, 8)
    builder = SparkSession.builder.master(f"local[{count},4]").appName("anabranch")
    builder = builder.config("spark.sql.shuffle.partitions", str(count))
    home = linked_home(settings or {})
    archive = archive_options(os.environ["JAVA_HOME"], pyspark.__version__, home)
    fast = {**_FAST, _JAVA_OPTIONS: f"{_FAST[_JAVA_OPTIONS]} {archive}".strip()}
    for name, value in {**fast, **(settings or {})}.items():
        builder = builder.config(name, value)
    with quiet_start(), spark_home(home):
        return builder.getOrCreate()


def is_running() -> bool:
    """Whether this process has a Spark already, which `local_session` would take."""
    return SparkContext._active_spark_context is not None


@contextmanager
def in_pool(spark: SparkSession, pool: str) -> Iterator[None]:
    """Start queries of this thread in a pool, where the session has several (FAIR)."""
    try:
        # None takes a property away, which its type does not tell.
        context: Any = spark.sparkContext
    except (AttributeError, NotImplementedError):
        # A session on the other side of a connection shares out its cores by itself.
        yield
        return
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, pool)
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except (AttributeError, NotImplementedError):
        # A session on the other side of a connection does not say.
        return 4


def rows_per_task(spark: SparkSession) -> int:
    """The rows of files for which one more task pays; fewer are read faster by one.

    Raises:
        PlanError: The setting is no positive number.
    """
    return _number(spark, ROWS_PER_TASK, TASK_ROWS, least=1, what="rows")


def batch_sizes(spark: SparkSession) -> SizeLimits:
    """The bounds within which the size of batches adapts while a query is behind.

    Raises:
        PlanError: A setting is not a number.
    """
    usual = SizeLimits()
    return SizeLimits(
        start=_number(spark, BATCH_ROWS, usual.start, least=1, what="rows"),
        bytes=_number(spark, BATCH_BYTES, usual.bytes, least=0, what="bytes"),
    )


def catch_up_rounds(spark: SparkSession, usual: int) -> int:
    """How often a replay catches up with a query whose state is exchanged, before that waits.

    Raises:
        PlanError: The setting is not a number.
    """
    return _number(spark, CATCH_UP, usual, least=0, what="rounds")


def driver_limits(spark: SparkSession) -> dict[str, int]:
    """How many rows, bytes and milliseconds of a batch the driver computes itself at the most.

    Raises:
        PlanError: A setting is not a number.
    """
    usual = _LOCAL_SHARE if is_local(spark) else _CLUSTER_SHARE
    return {
        word: _number(spark, name, usual[name], least=0, what=word)
        for word, name in (
            ("rows", DRIVER_ROWS),
            ("bytes", DRIVER_BYTES),
            ("milliseconds", DRIVER_MS),
        )
    }


def plain_jobs(spark: SparkSession) -> bool:
    """Whether batches may run as plain jobs instead of Spark's DataFrame.

    Only where Spark is one process, and where nobody has switched it off.

    Raises:
        PlanError: The setting is neither true nor false.
    """
    text = spark.conf.get(PLAIN_JOBS, "true") or ""
    if text not in ("true", "false"):
        raise PlanError(
            f"'{text}' is neither true nor false",
            where=f"the setting {PLAIN_JOBS}",
            hint="set true or false, or leave it out",
        )
    return text == "true" and is_local(spark)


def is_local(spark: SparkSession) -> bool:
    """Whether Spark is one process: all tasks run in it and its children.

    `local-cluster[2,1,1024]` has executors of its own, as a cluster has, on this machine.
    """
    master = spark.conf.get("spark.master", "") or ""
    return master == "local" or master.startswith("local[")


def _number(spark: SparkSession, name: str, usual: int, *, least: int, what: str) -> int:
    text = spark.conf.get(name, str(usual)) or ""
    if not text.isdigit() or int(text) < least:
        raise PlanError(
            f"'{text}' is not a number of {what}",
            where=f"the setting {name}",
            hint=f"set a whole number, {least} or more, or leave it out",
        )
    return int(text)
