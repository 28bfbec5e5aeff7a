"""Files as a streaming source of Spark: plans on the driver, packs in the workers.

Spark imports this module in several short-lived processes of its own, so what takes long to
import is imported where it is used.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from anabranch.errors import EngineError
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.without_pandas import spare_pandas

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.runtime.sources.files.planner import FilePlanner
    from anabranch.runtime.workers.file_task import FileJob

_FORMAT: Final = "anabranch_files"
_SCHEMA: Final = (
    "shard int, shared boolean, target int, edge int, part int, chunk int, head string, blob binary"
)


def read_files(spark: SparkSession, job: FileJob, folder: str) -> DataFrame:
    """A streaming DataFrame of parcels; what workers need to know is left in the folder.

    In an option it would be too long for Spark, which searches options for secrets.
    """
    _register(spark)
    name = leave_job(job, folder)
    return spark.readStream.format(_FORMAT).option("folder", folder).option("job", name).load()


def leave_job(job: FileJob, folder: str) -> str:
    """Write what processes of Spark need to know into a folder, in place of what was there."""
    data = pickle.dumps(job)
    name = f"files-{hashlib.sha256(data).hexdigest()}.pickle"
    store = Folder.at(folder)
    for old in store.names():
        if old.startswith("files-") and old != name:
            store.remove(old)
    store.write(name, data)
    return name


def _register(spark: SparkSession) -> None:
    """Make the source known to a session.

    Spark asks the active session whether it knows the name already, but registers with the one it
    is given: a session made by `newSession` would neither know the source nor get it.
    """
    sessions: Any = spark._jvm.SparkSession  # type: ignore[union-attr]
    active = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        spark.dataSource.register(FileDataSource)
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()


@lru_cache(maxsize=16)
def _opened(folder: str, name: str) -> FileJob:
    data = Folder.at(folder).read(name)
    if data is None or name != f"files-{hashlib.sha256(data).hexdigest()}.pickle":
        # Nothing is unpickled but what the driver has written: its name says what is in it.
        raise EngineError(
            "a file of the checkpoint is missing or damaged",
            where=f"{folder}/{name}",
            hint="start the query again: it rewrites the file",
        )
    job: FileJob = pickle.loads(data)  # noqa: S301 (written by `read_files`)
    return job


class FileDataSource(DataSource):
    """All sources in files of a query."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return _FORMAT

    def schema(self) -> str:
        """Parcels."""
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """The reader; Spark makes one for planning and one for the workers."""
        return FileReader(self.options["folder"], self.options["job"])


Offset: TypeAlias = dict[str, int]
"""An offset as Spark keeps it in its checkpoint: the number of an entry of the plan."""


def _offset(entry: int) -> Offset:
    return {"entry": entry}


def _entry(offset: Offset) -> int:
    """The entry that an offset stands for.

    Raises:
        EngineError: Spark's checkpoint is not ours.
    """
    if offset.keys() != {"entry"}:
        raise EngineError(
            f"{offset} is not an offset of the file source",
            where="Spark's part of the checkpoint",
            hint="restore the checkpoint from a copy, or start the query with a new checkpoint",
        )
    return offset["entry"]


class FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets count planned batches; see `FilePlanner`."""

    def __init__(self, folder: str, name: str) -> None:
        """Read what the `FileJob` in this file says."""
        self._folder = folder
        self._name = name
        self._planner: FilePlanner | None = None

    @property
    def _job(self) -> FileJob:
        return _opened(self._folder, self._name)

    def _plan(self) -> FilePlanner:
        if self._planner is None:
            spare_pandas()
            self._planner = self._job.planner()
        return self._planner

    def initialOffset(self) -> Offset:  # noqa: N802
        """Nothing is planned yet."""
        return _offset(0)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Plan one more batch, if there is something new."""
        limited = not isinstance(limit, ReadAllAvailable)
        latest = self._plan().latest(_entry(start), limited=limited)
        if latest > _entry(start):
            reached("planned", latest - 1)
        return _offset(latest)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """That there is a limit; the planner knows which."""
        return ReadMaxRows(1) if self._job.is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on does not count."""
        self._plan().freeze()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One partition per part of a source."""
        parts = self._plan().parts(_entry(start), _entry(end))
        return [InputPartition(part) for part in parts]

    def commit(self, end: Offset) -> None:
        """Forget plans that are not needed any more."""
        self._plan().commit(_entry(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and pack one part."""
        from anabranch.runtime.spark.batch_id import current_batch
        from anabranch.runtime.spark.job_in_force import current_job
        from anabranch.runtime.workers.begin_task import begin_task

        begin_task()
        batch = current_batch()
        job = current_job(self._job.job, self._folder)
        yield from self._job.send(partition.value, batch, job)
        reached("read", batch)
