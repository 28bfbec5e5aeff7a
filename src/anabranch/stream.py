"""A query: look at its plan, run it on Spark or in this process, hand it on as a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.modules.module import Template
from anabranch.algebra.node import clock_of
from anabranch.errors import PlanError
from anabranch.fluent import Fluent
from anabranch.kernels.plan.compile import Emission, PhysicalPlan, compile_plan
from anabranch.model.clock import MICROSECONDS
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.together import optimize_together
from anabranch.runtime.query.bounded import refuse_unbounded
from anabranch.runtime.query.explanation import Explanation, spark_plan
from anabranch.runtime.query.local import LocalRun, run_locally
from anabranch.runtime.query.notes import notes_of, say
from anabranch.runtime.query.options import check_run
from anabranch.runtime.query.run import Run
from anabranch.runtime.query.tables import lookup_tables
from anabranch.runtime.query.workers_can import refuse_spark_only
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.sinks.message_sink import Messages
from anabranch.runtime.sinks.sinks import Callback, Sink
from anabranch.runtime.sources.declare.shared_results import Published, reuse
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder
from anabranch.windowed import Span

if TYPE_CHECKING:
    from anabranch.runtime.query.start import Work

Place: TypeAlias = str | Path
Target: TypeAlias = str | Path | Messages


class Host(Protocol):
    """What a query needs of the engine it belongs to."""

    versions: int

    @property
    def spark(self) -> Any:
        """The Spark session."""

    @property
    def has_shards(self) -> bool:
        """Whether somebody said into how many."""

    @property
    def modules(self) -> Mapping[str, Template]:
        """Modules that can be called by name."""

    def shard_count(self) -> int:
        """Into how many shards keyed state is cut."""

    def started(self, run: Run, stream: Stream) -> Run:
        """Take note of a run."""

    def published(self) -> list[Published]:
        """What running queries write into log folders."""

    def closes(self, close: Callable[[], None]) -> None:
        """Take note of something to be closed at the end."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream(Fluent):
    """A stream, or a query over streams: every method gives a new one.

    Expressions are SQL text over the columns at hand.
    """

    engine: Host
    name: str | None = None
    remarks: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()

    @property
    def modules(self) -> Mapping[str, Template]:
        """Modules that can be called by name: those that the engine knows."""
        return self.engine.modules

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the answer is hardly what was meant; empty for a query as it should be.

        `start` and `run_local` log them once, to `logging.getLogger("anabranch.notes")`.
        """
        return self.notes_on("speculative")

    def notes_on(self, emit: Emission) -> tuple[str, ...]:
        """The notes for one way to emit: with `final` nothing may ever be written."""
        found = notes_of(self.node, self.sources, emit)
        return (*self.remarks, *(str(note) for note in found))

    def explain(self, *, emit: Emission = "speculative") -> str:
        """The plan, the rules applied to it, the stages it runs in, what Spark does itself."""
        check_run("explain", emit=emit)
        return self._explanation(emit).text()

    def explain_json(self, *, emit: Emission = "speculative") -> dict[str, Any]:
        """The same for programs.

        Keys are query, rules, plan, windows, stages, spark, notes, leaves and columns.
        """
        check_run("explain_json", emit=emit)
        return self._explanation(emit).json()

    def _explanation(self, emit: Emission) -> Explanation:
        optimized = optimize(self.node)
        node, spark = optimized.node, list[tuple[str, str]]()
        frames = {n: s for n, s in self.sources.items() if not isinstance(s, FileSource)}
        if frames:
            from anabranch.runtime.spark.native_head import push_down

            (node,), pushed = push_down([node], frames)
            spark = [(name, spark_plan(source.frame)) for name, source in pushed.items()]
        orders = [source.order_note for source in self.sources.values() if source.order_note]
        return Explanation(
            written=self.node,
            optimized=optimized,
            physical=compile_plan(node, emit=emit, tables=lookup_tables(self.sources, None)),
            leaves=self.node.properties.emitted(emit).label,
            notes=(*self.notes_on(emit), *orders),
            spark=tuple(spark),
        )

    def start(
        self,
        to: Target | None = None,
        *,
        foreach: Callback | None = None,
        emit: Emission = "speculative",
        checkpoint: Place | None = None,
        trigger: Span | None = None,
        available_now: bool = False,
        allow_unbounded: bool = False,
        share: bool = True,
    ) -> Run:
        """Run the query on Spark.

        Args:
            to: `<file>.jsonl` for a stream file, another path for a log folder, `delta:<path>` for
                a Delta table, `postgresql://...` for a table there, `Messages` for a queue, `-`
                for JSON lines on standard output, `memory` (the default without `foreach`) for a
                table in this process, `nothing` to see how fast it goes.
            foreach: A function that gets the elements of each batch and its number.
            emit: `speculative`: best answers, corrected later; `final`: only what stays;
                `watermark`: of windows of the time axis only those that have ended.
            checkpoint: The folder the query lives in; it goes on from there when it is started
                again. None: beside the output, or one that ends with the run.
            trigger: The time between two batches; None: as fast as it goes.
            available_now: Process what is there, then end.
            allow_unbounded: Accept a window without bound below an operator that remembers.
            share: Where a query of this engine runs that computes part of this one and writes a
                log folder, read that log. The query then goes no further than the other one.
        """
        check_run(
            "start",
            to=to,
            foreach=foreach,
            emit=emit,
            checkpoint=checkpoint,
            trigger=trigger,
            available_now=available_now,
            allow_unbounded=allow_unbounded,
            share=share,
        )
        if share:
            node, sources = reuse(self.node, self.sources, self.engine.published())
            if node != self.node:
                # All options again, over what is left to do.
                return replace(self, node=node, sources=sources).start(
                    to,
                    foreach=foreach,
                    emit=emit,
                    checkpoint=checkpoint,
                    trigger=trigger,
                    available_now=available_now,
                    allow_unbounded=allow_unbounded,
                    share=False,
                )

        make_sink, place = choose_sink(to, foreach)
        [run] = start_together(
            self.engine,
            [(self, make_sink)],
            emit=emit,
            checkpoint=place if checkpoint is None else str(checkpoint),
            trigger=trigger,
            available_now=available_now,
            allow_unbounded=allow_unbounded,
        )
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
        check_run("to_df", emit=emit, checkpoint=checkpoint, allow_unbounded=allow_unbounded)
        from anabranch.runtime.query.start import stream_rows

        if any(isinstance(each, Cleanse) and not each.cut for each in self.node.walk()):
            raise PlanError(
                "whole events cannot leave as a DataFrame in order",
                where="to_df of a query with cleanse(cut=False)",
                hint="every shard is settled up to another instant; use cleanse(), or start the "
                "query with a log folder as its output",
            )
        frame, opened = stream_rows(
            self.engine.spark,
            _work([self], emit, allow_unbounded=allow_unbounded),
            checkpoint=None if checkpoint is None else str(checkpoint),
            shards=self.engine.shard_count(),
        )
        self.engine.closes(opened.close)
        return frame

    def run_local(
        self,
        to: Target | None = None,
        *,
        foreach: Callback | None = None,
        emit: Emission = "speculative",
        allow_unbounded: bool = False,
    ) -> LocalRun:
        """Run the query in this process, without Spark, over everything its files have."""
        check_run("run_local", to=to, foreach=foreach, emit=emit, allow_unbounded=allow_unbounded)
        refuse_unbounded(self.node, allow=allow_unbounded)
        say(self.notes_on(emit))
        make_sink, place = choose_sink(to, foreach)
        files = [each for each in self.sources.values() if isinstance(each, FileSource)]
        sink = make_sink(Folder.at(f"{place}/out") if place else Folder.at("."))
        node = optimize(self.node).node
        refuse_spark_only(node)
        return run_locally(node, files, sink, emit)


Query = Stream
"""What `start` runs; a stream is its own query."""


def start_together(
    engine: Host,
    queries: Sequence[tuple[Stream, Callable[[Folder], Sink]]],
    *,
    emit: Emission = "speculative",
    checkpoint: str | None,
    trigger: Span | None = None,
    available_now: bool = False,
    allow_unbounded: bool = False,
    changed: bool = False,
) -> list[Run]:
    """Run queries, each with its sink, as one query of Spark; options as for `Engine.start_all`."""
    from anabranch.runtime.query.start import start_query

    streams = [stream for stream, _ in queries]
    for stream in streams:
        say(stream.notes_on(emit))
    every = None if trigger is None else f"{MICROSECONDS.duration(trigger)} microseconds"
    tables = lookup_tables(_sources(streams), checkpoint)
    runs = start_query(
        engine.spark,
        _work(streams, emit, allow_unbounded=allow_unbounded, tables=tables),
        [make for _, make in queries],
        checkpoint=checkpoint,
        shards=engine.shard_count(),
        reshard=engine.has_shards,
        trigger=every,
        available_now=available_now,
        changed=changed,
    )
    return [engine.started(run, stream) for run, stream in zip(runs, streams, strict=True)]


def plan_together(streams: Sequence[Stream], emit: Emission = "speculative") -> PhysicalPlan:
    """The stages in which queries would run together; what DataFrames do is left to them."""
    nodes = optimize_together([stream.node for stream in streams])
    return compile_plan(*nodes, emit=emit, tables=lookup_tables(_sources(streams), None))


def _work(
    streams: Sequence[Stream],
    emit: Emission,
    *,
    allow_unbounded: bool,
    tables: frozenset[str] = frozenset(),
) -> Work:
    from anabranch.runtime.query.start import Work
    from anabranch.runtime.spark.native_head import push_down
    from anabranch.runtime.spark.session import parallelism, rows_per_task

    for stream in streams:
        refuse_unbounded(stream.node, allow=allow_unbounded)
    sources = _sources(streams)
    files = {name: s for name, s in sources.items() if isinstance(s, FileSource)}
    frames = {name: s for name, s in sources.items() if name not in files}
    nodes, pushed = push_down(optimize_together([each.node for each in streams]), frames)
    for node in nodes:
        refuse_spark_only(node)
    compiled = partial(compile_plan, *nodes, emit=emit, tables=tables)
    plan = compiled()
    return Work(
        plan=plan,
        tables={name: files[name] for name in tables},
        files=tuple(source for name, source in files.items() if name in plan.sources),
        frames=tuple(pushed.values()),
        parts=parallelism(streams[0].engine.spark),
        least=rows_per_task(streams[0].engine.spark),
        clocks=tuple(clock_of(stream.node) for stream in streams),
        keep=streams[0].engine.versions,
        older=partial(compiled, routed=False),
    )


def _sources(streams: Sequence[Stream]) -> dict[str, Any]:
    return {name: source for stream in streams for name, source in stream.sources.items()}
