"""Where results go, and how a batch becomes part of them exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias, final

import pyarrow as pa

from anabranch.errors import AnabranchError, EngineError, OperatorError, PlanError
from anabranch.kernels.contract.packed_events import packed_schema, unpack_events
from anabranch.kernels.contract.prepared import check_prepared
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.files.line_writer import element_lines, stable_line
from anabranch.model.files.stream_file import read_batches
from anabranch.model.record import RecordT, plain, record
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.elements.elements import element_schema, element_table
from anabranch.runtime.elements.exchange import from_blob
from anabranch.runtime.messages.heads import OutputHead, head_as, head_of_text
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.job import Delivery
from anabranch.runtime.workers.stage_task import ordered

Keep: TypeAlias = Literal["log", "current", "history"]
"""What a table holds: every element; the events that are not over; every event."""

Callback: TypeAlias = Callable[[pa.Table, int], object]
"""A user's function: the elements of a batch, and its number."""


_DAMAGED: Final = "restore the checkpoint from a copy, or start the query with a new checkpoint"


@final
@dataclass(frozen=True, slots=True)
class ShardResult:
    """What one shard of the last stage gave in a batch."""

    shard: int
    head: OutputHead
    rows: pa.RecordBatch | None

    @staticmethod
    def of_table(table: pa.Table) -> list[ShardResult]:
        """The results that Spark collected, by shard."""
        blobs = table.column("blob").combine_chunks() if table.num_rows else []
        found = [
            ShardResult(
                shard.as_py(),
                head_as(OutputHead, head_of_text(head.as_py())),
                from_blob(blob.as_buffer()) if blob.is_valid else None,
            )
            for shard, head, blob in zip(table.column("shard"), table.column("head"), blobs)
        ]
        return sorted(found, key=lambda result: result.shard)


@final
@dataclass(frozen=True, slots=True)
class Begin:
    """What a sink has to know of the query.

    `query` is its identity, and that of one output where there are several; `fresh` says that no
    batch has been committed yet, `first` which one is the first. `home` is its checkpoint.
    """

    schema: pa.Schema
    query: str
    clock: Clock
    fresh: bool
    first: int = 0
    home: str = ""


class Sink(ABC):
    """Takes in batches on the driver.

    `commit` may be called again with a batch that it has seen, after a crash, and with the same
    content: the outcome is that of one call.
    """

    delivery: Delivery = "ship"
    out: str = ""

    @abstractmethod
    def open(self, begin: Begin) -> None:
        """Get ready, for a new query or one that goes on."""

    @abstractmethod
    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """Take in a batch, all of it or nothing."""

    def close(self) -> None:  # noqa: B027 (most sinks hold nothing open)
        """Let go of what is held open; `commit` may still be called again."""

    def batches(self) -> list[EventBatch]:
        """What has been committed.

        Raises:
            PlanError: The sink does not keep it.
        """
        raise PlanError(
            "the output of this query cannot be read back",
            hint="start the query with to='<folder>', to='<file>.jsonl' or to='memory'",
        )


@final
class LogSink(Sink):
    """A log folder: workers write files, the driver lists them."""

    delivery: Delivery = "log"

    def __init__(self, path: str) -> None:
        """Write to this folder."""
        self.out = str(Path(path).absolute()) if "://" not in path else path
        self.log = LogFolder(self.out)

    def open(self, begin: Begin) -> None:
        """Create the log, or take it up."""
        element_schema(begin.schema)
        if not begin.fresh and not self.log.exists():
            raise PlanError(
                "the query wrote to another log before",
                where=self.out,
                hint="use the same folder, or a new checkpoint",
            )
        self.log.create(begin.schema, query=begin.query, clock=begin.clock, home=begin.home)

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """List the files."""
        files = [file for result in results for file in result.head.files]
        self.log.commit(batch, stable, files)

    def batches(self) -> list[EventBatch]:
        """All batches of the log."""
        return list(self.log.read())


@final
@dataclass(frozen=True, slots=True)
class OutputFile:
    """The file that a query writes to, as its checkpoint remembers it."""

    path: str


@final
@dataclass(frozen=True, slots=True)
class OutputSize:
    """How long the file is after a batch, and the stable point in it."""

    size: int = 0
    stable: int = BEGINNING


@final
class StreamFileSink(Sink):
    """One growing file of JSON lines.

    What a batch makes of the file is written down beside the checkpoint; a batch that comes
    again first cuts the file back to what it was.
    """

    def __init__(self, path: str, sizes: Folder) -> None:
        """Write to this file; `sizes` remembers how long it was after each batch."""
        self.path = Path(path).absolute()
        self._sizes = sizes
        self._schema = pa.schema([])
        self._clock = INTEGERS
        self._first = 0

    def open(self, begin: Begin) -> None:
        """Create the file, or take it up."""
        self._schema, self._clock = begin.schema, begin.clock
        self._first = begin.first
        begun = self._read(OutputFile, "file.json")
        if begun is None:
            if self.path.exists() and self.path.stat().st_size:
                raise PlanError(
                    "the file already exists",
                    where=str(self.path),
                    hint="choose a new file, or continue with the checkpoint of the query that "
                    "wrote it",
                )
            self._sizes.write_json("file.json", plain(OutputFile(str(self.path))))
        elif begun.path != str(self.path):
            raise PlanError(
                "the query wrote to another file before",
                where=f"then {begun.path}, now {self.path}",
                hint="use the same file, or a new checkpoint",
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """Cut the file back to the batches before, then append."""
        before: OutputSize | None = OutputSize()
        if batch > self._first:
            before = self._read(OutputSize, f"{batch - 1}.json")
        if before is None or self.path.stat().st_size < before.size:
            raise EngineError(
                "the output file was changed since the query wrote it",
                where=str(self.path),
                hint="restore the file, or start the query with a new checkpoint and a new file",
            )
        data = element_lines(rows_of_shards(results, self._schema), clock=self._clock)
        if stable > before.stable:
            data += stable_line(stable, clock=self._clock)
        with self.path.open("r+b") as file:
            file.truncate(before.size)
            file.seek(before.size)
            file.write(data)
        after = OutputSize(before.size + len(data), max(int(stable), before.stable))
        self._sizes.write_json(f"{batch}.json", plain(after))
        self._sizes.remove(f"{batch - 3}.json")

    def _read(self, kind: type[RecordT], name: str) -> RecordT | None:
        content = self._sizes.read_json(name)
        where = f"{self._sizes.path}/{name}"
        return None if content is None else record(kind, content, where=where, hint=_DAMAGED)

    def batches(self) -> list[EventBatch]:
        """What the file says."""
        return list(read_batches(self.path, self._schema))


@final
class NothingSink(Sink):
    """Nowhere: the query does its work, and nobody sees what comes of it. For measurements."""

    delivery: Delivery = "nothing"

    def open(self, begin: Begin) -> None:
        """There is nothing to get ready."""

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """There is nothing to keep."""


@final
class LinesSink(Sink):
    """JSON lines into something open, such as standard output; what is written stays."""

    def __init__(self, out: IO[bytes]) -> None:
        """Write to this."""
        self._out = out
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)

    def open(self, begin: Begin) -> None:
        """Remember how times are written."""
        self._begin = begin

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """Write the batch."""
        clock = self._begin.clock
        rows = rows_of_shards(results, self._begin.schema)
        self._out.write(element_lines(rows, clock=clock))
        if stable > promised_before(batch, self._begin, results):
            self._out.write(stable_line(stable, clock=clock))
        self._out.flush()


@final
class MemorySink(Sink):
    """The elements in this process."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._schema = pa.schema([])
        self._batches: dict[int, EventBatch] = {}

    def open(self, begin: Begin) -> None:
        """Refuse to go on where the first part is lost."""
        self._schema = begin.schema
        if not begin.fresh:
            raise PlanError(
                "a table in memory cannot resume from a checkpoint",
                hint="its first part ended with the process that held it; write to a folder",
            )

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """Keep the batch."""
        self._batches[batch] = rows_of_shards(results, self._schema).with_stable(stable)

    def batches(self) -> list[EventBatch]:
        """All batches so far."""
        return [self._batches[batch] for batch in sorted(self._batches)]


@final
class CallbackSink(Sink):
    """A user's function, called with the elements of each batch and its number.

    After a crash the last batch may come again: the number tells.
    """

    def __init__(self, function: Callback) -> None:
        """Call this function."""
        self._function = function
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)

    def open(self, begin: Begin) -> None:
        """Check the names of the columns."""
        self._begin = begin
        element_schema(begin.schema)

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """Call the function."""
        schema = self._begin.schema
        rows = rows_of_shards(results, schema).with_stable(stable)
        table = element_table([rows], schema, after=promised_before(batch, self._begin, results))
        with named_failures(self._function, f"batch {batch}, {table.num_rows} elements"):
            self._function(table, batch)


@contextmanager
def named_failures(function: Callable[..., object], where: str) -> Iterator[None]:
    """What a user's function raises becomes an error that names it."""
    try:
        yield
    except AnabranchError:
        raise
    except Exception as problem:
        name = getattr(function, "__name__", "the function")
        raise OperatorError(
            f"{name} failed: {type(problem).__name__}: {problem}",
            where=where,
            hint="correct the function and start the query again: the batch is repeated",
        ) from problem


def promised_before(batch: int, begin: Begin, results: Sequence[ShardResult]) -> Time:
    """The stable point that a sink has been told of before a batch.

    The shards remember it, so that this is the same when a batch comes again; a sink that has
    just begun has been told of nothing.
    """
    promised = [result.head.stable_before for result in results]
    return BEGINNING if batch <= begin.first else Time(min(promised, default=int(BEGINNING)))


def rows_of_shards(results: Sequence[ShardResult], schema: pa.Schema) -> EventBatch:
    """The rows of all shards, in one order.

    Raises:
        EngineError: A shard has sent other columns than those of the output.
    """
    declared = packed_schema(schema)
    parts = []
    for result in results:
        if result.rows is not None:
            where = f"output {result.head.output}, from shard {result.shard}"
            rows = check_prepared(result.rows, declared, where)
            parts.append(unpack_events(rows, schema, BEGINNING))
    return ordered(EventBatch.concat(parts)) if parts else EventBatch.empty(schema)
