"""The job that tasks of a batch work by: that of Spark's DataFrame, or one that took its place.

A DataFrame carries its job for as long as Spark's query runs. When the plan of the query changes,
the driver leaves the new job in a file of the checkpoint, named by its hash, and tells its name to
the tasks of every batch from then on, by a local property of Spark. So a plan is exchanged between
two batches without a new DataFrame, and all tasks of a batch work by the same one.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from anabranch.errors import EngineError
from anabranch.runtime.spark.batch_id import current_property, current_query
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.job import Job, unseal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX: Final = "job-"
_SUFFIX: Final = ".pickle"

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_STARTING: Final = threading.Lock()
"""Held while a setting of a session is another one than its owner's."""


def current_job(sealed: bytes, home: str) -> Job:
    """The job of the batch that this task works for.

    Args:
        sealed: The job that Spark's DataFrame was made with.
        home: The checkpoint of the query; nothing for one whose plan never changes.
    """
    name = current_property(_property(home)) if home else None
    return unseal(sealed if name is None else stored_job(home, name), current_query())


def store_job(home: str, sealed: bytes, *, keep: Collection[str] = ()) -> str:
    """Leave a job in the checkpoint of its query; all others but `keep` go."""
    name = f"{_PREFIX}{hashlib.sha256(sealed).hexdigest()}{_SUFFIX}"
    Folder.at(home).write(name, sealed)
    clear_jobs(home, keep=(name, *keep))
    return name


def clear_jobs(home: str, *, keep: Collection[str] = ()) -> None:
    """Remove the jobs of a checkpoint that no batch needs any more."""
    folder = Folder.at(home)
    for name in folder.names():
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX) and name not in keep:
            folder.remove(name)


def can_tell(spark: SparkSession) -> bool:
    """Whether tasks of a query can be told of another job: not by a session in another process."""
    try:
        context: Any = spark.sparkContext
        return context is not None
    except (AttributeError, NotImplementedError):
        return False


@contextmanager
def tellable(spark: SparkSession) -> Iterator[None]:
    """A query that starts in here can tell its tasks of another job, whatever its session says.

    Where Spark plans adaptively, it starts some of the tasks of a batch from threads of its own,
    which do not know what this thread was told. A query copies the settings of its session when it
    starts, and keeps the copy. So the session plans adaptively again right behind the start, also
    if that has failed.
    """
    if not can_tell(spark):
        yield
        return
    with _STARTING:
        usual = spark.conf.get(_ADAPTIVE, "true") or "true"
        spark.conf.set(_ADAPTIVE, "false")
        try:
            yield
        finally:
            spark.conf.set(_ADAPTIVE, usual)


def tell_tasks(spark: SparkSession, home: str, name: str) -> None:
    """From here on the tasks that this thread of Spark starts work by a job that is stored."""
    context: Any = spark.sparkContext
    context.setLocalProperty(_property(home), name)


def _property(home: str) -> str:
    # A thread that is started in a batch inherits the property; another query must not take it up.
    return f"anabranch.job {home}"


@lru_cache(maxsize=16)
def stored_job(home: str, name: str) -> bytes:
    """The job that was left under a name.

    Raises:
        EngineError: It is not there, or not what was written.
    """
    data = Folder.at(home).read(name)
    if data is None or name != f"{_PREFIX}{hashlib.sha256(data).hexdigest()}{_SUFFIX}":
        # Nothing is unpickled but what the driver has written: its name says what is in it.
        raise EngineError(
            "a file of the checkpoint is missing or damaged",
            where=f"{home}/{name}",
            hint="start the query again: it writes what it needs",
        )
    return data
