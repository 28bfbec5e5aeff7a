"""Where results go, and how a batch becomes part of them exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, final

import pyarrow as pa

from anabranch.errors import AnabranchError, OperatorError, PlanError
from anabranch.kernels.contract.packed_events import packed_schema, unpack_events
from anabranch.kernels.contract.prepared import check_prepared
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.elements.elements import element_schema, element_table, revised_table
from anabranch.runtime.elements.exchange import from_blob
from anabranch.runtime.messages.heads import OutputHead, head_as, head_of_text
from anabranch.runtime.sources.files.log_folder import LogFolder, write_revision
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.runtime.workers.job import Delivery
from anabranch.runtime.workers.row_order import ordered

Keep: TypeAlias = Literal["log", "current", "history"]
"""What a table holds: every element; the events that are not over; every event."""

Callback: TypeAlias = Callable[[pa.Table, int], object]
"""A user's function: the elements of a batch with its revisions, and its number."""


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
    `revisable` says that revisions may come. `properties` are what is known of the results.
    `others` are the identities of all outputs that the checkpoint has.
    """

    schema: pa.Schema
    query: str
    clock: Clock
    fresh: bool
    first: int = 0
    home: str = ""
    revisable: bool = False
    properties: LogProperties | None = None
    others: tuple[str, ...] = ()


def known_parts(parts: Iterable[EventBatch | Revision], known: Any) -> list[EventBatch | Revision]:
    """Those that counted after the revision of a number (0: before any); None: all.

    Raises:
        PlanError: It is not the number of a revision.
    """
    if known is None:
        return list(parts)
    if isinstance(known, bool) or not isinstance(known, int) or known < 0:
        raise PlanError(
            f"known must be the number of a revision, not {known!r}",
            where="snapshot(...)",
            hint="pass known=3 for after revision 3 of this output, known=0 for before any",
        )
    return [part for part in parts if not isinstance(part, Revision) or part.number <= known]


class Sink(ABC):
    """Takes in batches on the driver.

    `commit` may be called again with a batch that it has seen, after a crash, and with the same
    content: the outcome is that of one call. A revision is known by its number: it may come again
    with its batch or with a later one, and counts once. Revisions are given in ascending order.
    """

    delivery: Delivery = "ship"
    out: str = ""
    carries_revisions: ClassVar[bool] = False
    """Whether revisions may come though nobody said so when it was opened."""

    @abstractmethod
    def open(self, begin: Begin) -> None:
        """Get ready, for a new query or one that goes on."""

    def rely_on(self, properties: LogProperties | None) -> None:
        """Note what is known of all results from now on; most sinks tell nobody."""
        del properties

    @abstractmethod
    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Take in a batch, all of it or nothing: first the revisions, then the rows."""

    def close(self) -> None:  # noqa: B027 (most sinks hold nothing open)
        """Let go of what is held open; `commit` may still be called again."""

    def parts(self) -> list[EventBatch | Revision]:
        """What has been committed: batches, and revisions in front of the batch they came with.

        Raises:
            PlanError: The sink does not keep it.
        """
        raise PlanError(
            "the output of this query cannot be read back",
            where="a run shows answers out of a log folder, a stream file or memory",
            hint="start the query with to='<folder>', to='<file>.jsonl' or to='memory'; or read "
            "its table: deltalake.DeltaTable('path').to_pandas(), or SELECT in PostgreSQL",
        )

    def batches(self, known: int | None = None) -> list[EventBatch]:
        """The same with the changes of revisions as rows of their batch, in front of the others.

        All moves together add up to the snapshots after all revisions; with `known` after those
        up to this number (0: before any).
        """
        found: list[EventBatch] = []
        changes: list[EventBatch] = []
        stable = BEGINNING
        for part in known_parts(self.parts(), known):
            if isinstance(part, Revision):
                changes.append(part.changes)
            else:
                stable = Time(max(stable, part.stable))
                found.append(EventBatch.concat([*changes, part]).with_stable(stable))
                changes = []
        return found

    def batches_from(
        self, position: int, *, before: int | None = None
    ) -> tuple[int, list[EventBatch]]:
        """What `batches` has from a position on, and the position behind that; 0 is the first.

        With `before` only batches before that one count, where the sink tells their numbers: a
        batch that is done again may be there from the first time.
        """
        del before
        found = self.batches()
        return len(found), found[position:]

    def revisions(self) -> list[Revision]:
        """The revisions that have been committed, in ascending order."""
        return [part for part in self.parts() if isinstance(part, Revision)]


@final
class LogSink(Sink):
    """A log folder: workers write files, the driver lists them."""

    delivery: Delivery = "log"
    carries_revisions: ClassVar[bool] = True

    def __init__(self, path: str) -> None:
        """Write to this folder."""
        self.out: str = str(Path(path).absolute()) if "://" not in path else path
        self.log: LogFolder = LogFolder(self.out)
        self._clock = INTEGERS
        self._revised: dict[int, int] | None = None
        self._removed = 0
        self._resumes = False

    def open(self, begin: Begin) -> None:
        """Create the log, or take it up."""
        element_schema(begin.schema)
        self._clock, self._revised = begin.clock, None
        self._resumes = not begin.fresh
        if not begin.fresh and not self.log.exists():
            raise PlanError(
                "the query wrote to another log before",
                where=self.out,
                hint="use the same folder, or a new checkpoint",
            )
        self.log.create(
            begin.schema,
            query=begin.query,
            clock=begin.clock,
            home=begin.home,
            properties=begin.properties,
            others=begin.others,
        )

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Write a file for each new revision, then list all files."""
        if self._resumes:
            # A batch that was interrupted comes again as it was. Whatever is behind it was
            # written after the checkpoint: that is older than the log, as from a backup.
            self.log.rewind(batch + 1)
            self._resumes = False
        files = [file for result in results for file in result.head.files]
        # A batch that comes again lists its revisions again; one of another batch is no news.
        new = [each for each in revisions if self._batch_of(each.number, batch) == batch]
        written = [write_revision(self.out, batch, each, clock=self._clock) for each in new]
        self.log.commit(batch, stable, files, written)

    def rely_on(self, properties: LogProperties | None) -> None:
        """Weaken what the log says of itself, where the plan in force promises less."""
        self.log.weaken(properties)

    def _batch_of(self, revision: int, batch: int) -> int:
        """With which batch a revision has come; with this one if it has not yet."""
        if self._revised is None:
            # Looked up when the first revision comes, for few logs have any and many are long.
            entries = self.log.entries()
            self._revised = {each.number: e.batch for e in entries for each in e.revisions}
            about = self.log.record()
            self._removed = 0 if about is None else about.revised
        return -1 if revision <= self._removed else self._revised.setdefault(revision, batch)

    def parts(self) -> list[EventBatch | Revision]:
        """All batches and revisions of the log."""
        return list(self.log.parts())

    def batches_from(
        self, position: int, *, before: int | None = None
    ) -> tuple[int, list[EventBatch]]:
        """What the log has from a batch on, before another one.

        Raises:
            PlanError: Entries from there on were removed meanwhile.
        """
        about = self.log.record()
        if position and about is not None and about.base and about.base.batch >= position:
            raise PlanError(
                "the log was cut while it was being read",
                where=self.out,
                hint="do it again: cutting a log is over in a moment",
            )
        entries = self.log.entries(after=position - 1)
        if before is not None:
            entries = [entry for entry in entries if entry.batch < before]
        found = [] if position else self.log.base()
        found += [self.log.rows_of(entry) for entry in entries]
        return (entries[-1].batch + 1 if entries else position), found


@final
class NothingSink(Sink):
    """Nowhere: the query does its work, and nobody sees what comes of it. For measurements."""

    delivery: Delivery = "nothing"

    def open(self, begin: Begin) -> None:
        """There is nothing to get ready."""

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """There is nothing to keep."""


@final
class MemorySink(Sink):
    """The elements in this process."""

    carries_revisions: ClassVar[bool] = True

    def __init__(self) -> None:
        """Start with nothing."""
        self._schema = pa.schema([])
        self._batches: dict[int, EventBatch] = {}
        self._revisions: dict[int, tuple[int, Revision]] = {}

    def open(self, begin: Begin) -> None:
        """Refuse to go on where the first part is lost."""
        self._schema = begin.schema
        if not begin.fresh:
            raise PlanError(
                "a table in memory cannot resume from a checkpoint",
                hint="its first part ended with the process that held it; write to a folder",
            )

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Keep the batch."""
        for revision in revisions:
            self._revisions.setdefault(revision.number, (batch, revision))
        self._batches[batch] = rows_of_shards(results, self._schema).with_stable(stable)

    def parts(self) -> list[EventBatch | Revision]:
        """All batches and revisions so far."""
        found: dict[int, list[EventBatch | Revision]] = {n: [] for n in sorted(self._batches)}
        for batch, revision in self._revisions.values():
            found[batch].append(revision)
        for batch, rows in self._batches.items():
            found[batch].append(rows)
        return [part for parts in found.values() for part in parts]


@final
class CallbackSink(Sink):
    """A user's function, called with the elements of each batch and its number.

    After a crash the last batch may come again: the number tells.
    """

    def __init__(self, function: Callback) -> None:
        """Call this function."""
        self._function = function
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)
        self._revised: dict[int, int] = {}

    def open(self, begin: Begin) -> None:
        """Check the names of the columns."""
        self._begin = begin
        element_schema(begin.schema, revisable=begin.revisable)

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Call the function."""
        schema = self._begin.schema
        rows = rows_of_shards(results, schema).with_stable(stable)
        after = promised_before(batch, self._begin, results)
        if self._begin.revisable:
            # A batch that comes again has the same revisions; in a later one they are no news.
            new = [r for r in revisions if self._revised.setdefault(r.number, batch) == batch]
            table = revised_table(rows, new, after=after)
        else:
            table = element_table([rows], schema, after=after)
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
            hint="correct the function and start the query again: the batch is repeated"
            + ("; it is called with a table of elements and the number of the batch")
            * ("positional argument" in str(problem)),
        ) from problem


def new_revisions(revisions: Sequence[Revision], last: int) -> list[Revision]:
    """Those behind the last revision that a sink has."""
    return [revision for revision in revisions if revision.number > last]


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
