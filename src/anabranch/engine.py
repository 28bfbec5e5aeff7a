"""The facade: streams, queries over them, and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, final

import pyarrow as pa

from anabranch.algebra.cleanse import Cleanse
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.fluent import Fluent, GroupedStream, Span
from anabranch.kernels.explain import explain_stages
from anabranch.kernels.pipeline import Emission, compile_plan
from anabranch.model.time import parse_duration
from anabranch.runtime.bounded import refuse_unbounded
from anabranch.runtime.describe import Declared, describe_files
from anabranch.runtime.folder import Folder
from anabranch.runtime.local import LocalRun, run_locally
from anabranch.runtime.run import Run
from anabranch.runtime.sinks import Callback, choose_sink
from anabranch.runtime.source_spec import FileSource, LatePolicy, Limits

if TYPE_CHECKING:
    from anabranch.runtime.start import Work

__all__ = ["Engine", "GroupedStream", "LocalRun", "Query", "Run", "Stream"]

Place: TypeAlias = str | Path


class Engine:
    """Makes streams out of files and DataFrames, and runs queries over them on Spark.

    Spark starts when it is first needed. As a context manager the engine stops, at the end of the
    block, the runs and the Spark that it has started.
    """

    def __init__(
        self,
        spark: Any = None,
        *,
        shards: int | None = None,
        cores: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare an engine.

        Args:
            spark: A session to use; None starts one in this process when it is needed.
            shards: Into how many shards keyed state is cut; None: one per core.
            cores: How many cores a session of our own uses; None: all, at most 8.
            settings: More settings for a session of our own.
        """
        if shards is not None and not 1 <= shards <= 4096:
            raise PlanError(f"{shards} shards are not possible", hint="use 1 to 4096")
        self._spark = spark
        self._own = spark is None
        self._shards = shards
        self._cores = cores
        self._settings = dict(settings or {})
        self._runs: list[Run] = []
        self._close: list[Callable[[], None]] = []
        self._names: set[str] = set()

    @property
    def spark(self) -> Any:
        """The Spark session."""
        if self._spark is None:
            from anabranch.runtime.session import local_session

            self._spark = local_session(self._cores, self._settings)
        return self._spark

    def stream(
        self,
        source: Any,
        *,
        name: str | None = None,
        start: str | None = None,
        end: str | None = None,
        kind: str | None = None,
        schema: pa.Schema | None = None,
        delay: Span | None = None,
        late: LatePolicy = "drop",
        ends: bool = False,
        max_rows_per_batch: int | None = 1_000_000,
        max_files_per_batch: int | None = None,
    ) -> Stream:
        """A stream out of files or a DataFrame.

        Args:
            source: A path, folder or pattern (Parquet, CSV, JSON rows, stream files, the log
                folder of another query), or a DataFrame, streaming or not.
            name: What plans and messages call it; None: from the path.
            start: The column with the start of each row. None: files hold elements, a DataFrame
                has the columns of an element table (`start`, `end`, `new_end`, `kind`).
            end: The column with the end; without one every row is a point.
            kind: The column that says `insert`, `adjust` or `stable`.
            schema: The payload columns; None: found out.
            delay: No row comes later than that behind the largest start seen. None: only the
                stable points in the stream itself count.
            late: What happens to rows that are later all the same: `drop`, `adjust` or `fail`.
            ends: The files that are there when the query starts are all.
            max_rows_per_batch: At most about so many rows of files go into a batch.
            max_files_per_batch: At most so many files go into a batch.

        Raises:
            StreamError: There is nothing to read, or it cannot be read.
            PlanError: What is declared makes no sense.
        """
        declared = Declared(
            name=self._name(name, source),
            start=start,
            end=end,
            kind=kind,
            schema=schema,
            delay=delay,
            late=late,
            ends=ends,
            limits=Limits(max_rows_per_batch, max_files_per_batch),
        )
        return self._stream(*_describe(source, declared))

    def relation(
        self,
        source: Any,
        *,
        name: str | None = None,
        start: str | None = None,
        end: str | None = None,
        schema: pa.Schema | None = None,
    ) -> Stream:
        """A table that is all there when a query starts, as a partner for streams.

        Args:
            source: A path, folder or pattern (Parquet, CSV, JSON rows), or a DataFrame.
            name: What plans and messages call it; None: from the path.
            start: The column with the start of each row's period; None: rows hold always.
            end: The column with the end of the period; an end that is NULL is forever.
            schema: The payload columns; None: found out.

        Raises:
            StreamError: There is nothing to read, or it cannot be read.
            PlanError: What is declared makes no sense.
        """
        declared = Declared(
            name=self._name(name, source),
            start=start,
            end=end,
            schema=schema,
            ends=True,
            limits=Limits(None, None),
            relation=True,
        )
        return self._stream(*_describe(source, declared))

    def stop(self) -> None:
        """Stop what this engine has started."""
        for run in self._runs:
            run.stop()
        for close in self._close:
            close()
        if self._own and self._spark is not None:
            self._spark.stop()
            self._spark = None
        self._runs, self._close = [], []

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _stream(self, source: Any, leaf: Source) -> Stream:
        return Stream(engine=self, node=leaf, sources={leaf.name: source})

    def _name(self, name: str | None, source: Any) -> str:
        """The name that was given, or one that no other stream of this engine has."""
        if name is not None:
            self._names.add(name)
            return name
        stem = "stream"
        if isinstance(source, str | Path):
            stem = Path(source).stem.strip("*.") or Path(source).parent.name or stem
        chosen, number = stem, 1
        while chosen in self._names:
            number += 1
            chosen = f"{stem}{number}"
        self._names.add(chosen)
        return chosen

    def _shard_count(self) -> int:
        if self._shards is not None:
            return self._shards
        from anabranch.runtime.session import parallelism

        return parallelism(self.spark)


def _describe(source: Any, declared: Declared) -> tuple[Any, Source]:
    if isinstance(source, str | Path):
        return describe_files(str(source), declared)
    if not hasattr(source, "isStreaming"):
        raise PlanError(
            f"a stream cannot be made of {type(source).__name__}",
            hint="give a path, a folder, a pattern or a DataFrame",
        )
    from anabranch.runtime.frame_source import describe_frame

    return describe_frame(source, declared)


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream(Fluent):
    """A stream, or a query over streams: every method gives a new one.

    Expressions are SQL text over the columns at hand.
    """

    engine: Engine

    def explain(self, *, emit: Emission = "speculative") -> str:
        """The plan, the stages it runs in and what they read, what is known of the output."""
        plan = compile_plan(self.node, emit)
        leaves = self.node.properties.emitted(emit).label
        return f"{explain_tree(self.node)}\n\n{explain_stages(plan)}\n\nLeaves: {leaves}"

    def start(
        self,
        to: Place | None = None,
        *,
        foreach: Callback | None = None,
        emit: Emission = "speculative",
        checkpoint: Place | None = None,
        trigger: Span | None = None,
        available_now: bool = False,
        allow_unbounded: bool = False,
    ) -> Run:
        """Run the query on Spark.

        Args:
            to: `<file>.jsonl` for a stream file, another path for a log folder, `memory` (the
                default without `foreach`) for a table in this process.
            foreach: A function that gets the elements of each batch and its number.
            emit: `speculative`: best answers, corrected later; `final`: only what stays.
            checkpoint: The folder the query lives in; it goes on from there when it is started
                again. None: beside the output, or one that ends with the run.
            trigger: The time between two batches; None: as fast as it goes.
            available_now: Process what is there, then end.
            allow_unbounded: Accept a window without bound below an operator that remembers.
        """
        from anabranch.runtime.start import start_query

        make_sink, place = choose_sink(to, foreach)
        every = None if trigger is None else f"{parse_duration(trigger)} microseconds"
        run = start_query(
            self.engine.spark,
            self._work(emit, allow_unbounded=allow_unbounded),
            lambda opened: make_sink(opened.out),
            checkpoint=place if checkpoint is None else str(checkpoint),
            shards=self.engine._shard_count(),
            trigger=every,
            available_now=available_now,
        )
        self.engine._runs.append(run)
        return run

    def to_df(
        self,
        *,
        emit: Emission = "speculative",
        checkpoint: Place | None = None,
        allow_unbounded: bool = False,
    ) -> Any:
        """The query as a streaming DataFrame of elements: kind, start, end, new_end, payload.

        The state of a query over it is kept in `checkpoint`; together with Spark's own
        `checkpointLocation` it makes a restart possible. An end that is NULL is forever; a
        `stable` row has its time in `start`.
        """
        from anabranch.runtime.start import stream_rows

        if any(isinstance(each, Cleanse) and not each.cut for each in self.node.walk()):
            raise PlanError(
                "whole events cannot leave as a DataFrame in order",
                where="to_df of a query with cleanse(cut=False)",
                hint="every shard is settled up to another instant; use cleanse(), or start the "
                "query with a log folder as its output",
            )
        frame, opened = stream_rows(
            self.engine.spark,
            self._work(emit, allow_unbounded=allow_unbounded),
            checkpoint=None if checkpoint is None else str(checkpoint),
            shards=self.engine._shard_count(),
        )
        self.engine._close.append(opened.close)
        return frame

    def run_local(
        self,
        to: Place | None = None,
        *,
        foreach: Callback | None = None,
        emit: Emission = "speculative",
        allow_unbounded: bool = False,
    ) -> LocalRun:
        """Run the query in this process, without Spark, over everything its files have."""
        refuse_unbounded(self.node, allow=allow_unbounded)
        make_sink, place = choose_sink(to, foreach)
        files = [each for each in self.sources.values() if isinstance(each, FileSource)]
        sink = make_sink(Folder.at(f"{place}/out") if place else Folder.at("."))
        return run_locally(self.node, files, sink, emit)

    def _work(self, emit: Emission, *, allow_unbounded: bool) -> Work:
        from anabranch.runtime.native_head import push_down
        from anabranch.runtime.session import parallelism
        from anabranch.runtime.start import Work

        refuse_unbounded(self.node, allow=allow_unbounded)
        files = {name: s for name, s in self.sources.items() if isinstance(s, FileSource)}
        frames = {name: s for name, s in self.sources.items() if name not in files}
        node, pushed = push_down(self.node, frames)
        plan = compile_plan(node, emit)
        return Work(
            plan=plan,
            files=tuple(source for name, source in files.items() if name in plan.sources),
            frames=tuple(pushed.values()),
            parts=parallelism(self.engine.spark),
            timestamps=any(source.timestamps for source in plan.sources.values()),
        )


Query = Stream
"""What `start` runs; a stream is its own query."""
