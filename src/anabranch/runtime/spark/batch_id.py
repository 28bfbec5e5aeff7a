"""Which batch a task belongs to, and which shard it is."""

from __future__ import annotations

from pyspark import TaskContext

from anabranch.errors import EngineError


def current_batch() -> int:
    """The number of the batch that this task works for."""
    text = _context().getLocalProperty("streaming.sql.batchId")
    if text is None:
        raise EngineError(
            "a task runs outside a streaming query",
            hint="start the result as a stream; please report this if you did",
        )
    return int(text)


def current_partition() -> int:
    """The number of this task's partition: after `repartitionById` that is the shard."""
    return _context().partitionId()


def current_query() -> str:
    """The identity of the streaming query, the same after a restart."""
    return _context().getLocalProperty("sql.streaming.queryId") or ""


def current_property(key: str) -> str | None:
    """What the driver has told the tasks of this batch."""
    return _context().getLocalProperty(key)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "not in a Spark task"
    return context
