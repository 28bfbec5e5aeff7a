"""A Spark session with settings that suit small, frequent batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from anabranch.errors import PlanError
from anabranch.runtime.spark.java import use_java

ROWS_PER_TASK: Final = "spark.anabranch.rowsPerTask"
TASK_ROWS: Final = 100_000
"""The setting, unless somebody sets it."""

_QUIET: Final = Path(__file__).with_name("log4j2.properties")
_FAST: Final[Mapping[str, str]] = {
    # The default manager costs 60-80 ms per batch on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
    "spark.python.unix.domain.socket.enabled": "true",
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
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
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
    for name, value in {**_FAST, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


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
    text = spark.conf.get(ROWS_PER_TASK, str(TASK_ROWS)) or ""
    if not text.isdigit() or int(text) < 1:
        raise PlanError(
            f"'{text}' is not a number of rows",
            where=f"the setting {ROWS_PER_TASK}",
            hint="set a whole number, 1 or more, or leave it out",
        )
    return int(text)
