"""A query: look at its plan, run it on Spark or in this process, hand it on as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.user_operator import Template
from anabranch.algebra.node import Node, clock_of
from anabranch.display.option_hints import explains_options
from anabranch.display.plan_text import PlanText
from anabranch.display.result_table import SHOWN, ResultTable
from anabranch.errors import PlanError
from anabranch.frame_methods import FrameMethods
from anabranch.host import Host
from anabranch.kernels.plan.compile import Emission
from anabranch.launch import QueryOutput, planned_frame, start_planned
from anabranch.model.time import Time
from anabranch.planning import PlannedQueries, plan_queries
from anabranch.runtime.query.local import LocalRun, run_locally
from anabranch.runtime.query.notes import notes_of, say
from anabranch.runtime.query.options import (
    PlanChoice,
    ReplayChoice,
    RevisionResponse,
    check_run,
    refuse_without_revisions,
)
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.sinks.sinks import Callback
from anabranch.runtime.store.folder import Folder
from anabranch.targets import PathText, Target
from anabranch.travel import between, instants_between
from anabranch.windowed import Span

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run

_ENDED_WINDOWS: Final = (
    "windows have results when the stable point has passed their end; open_windows=True shows the "
    "others, too"
)


@explains_options
@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Stream(FrameMethods):
    """A stream, or a query over streams: every method returns a new one.

    Expressions are SQL strings over the columns of the stream, columns of it (`stream["price"]`)
    or columns of Spark, which are translated. Many methods have the names that they have in Spark.
    """

    host: Host
    remarks: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()

    @property
    def modules(self) -> Mapping[str, Template]:
        """Modules that can be called by name: those of the engine."""
        return self.host.modules

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on an answer that is hardly intended; empty if there is none.

        `start` and `run_local` log them once, to `logging.getLogger("anabranch.notes")`.
        """
        return self.notes_on("speculative")

    def notes_on(self, emit: Emission) -> tuple[str, ...]:
        """The notes for one way to emit: with `final` nothing may ever be written."""
        found = notes_of(self.node, self.sources, emit)
        return (*self.remarks, *(str(note) for note in found))

    def explain(
        self,
        *,
        emit: Emission = "speculative",
        plan: PlanChoice = "optimized",
        share: bool = True,
    ) -> PlanText:
        """The plan, the rules applied to it, the stages it runs in, what Spark does itself.

        With the same options it is the plan that `start` runs, were it to begin now. A query that
        resumes keeps the lookup tables that it began with.
        """
        check_run("explain", emit=emit, plan=plan, share=share)
        return PlanText(self._planned(emit, plan, share=share).explanation().text())

    def explain_json(
        self,
        *,
        emit: Emission = "speculative",
        plan: PlanChoice = "optimized",
        share: bool = True,
    ) -> dict[str, Any]:
        """The same for programs.

        Keys are query, rules, plan, windows, stages, revisions, spark, notes, leaves and columns.
        """
        check_run("explain_json", emit=emit, plan=plan, share=share)
        return self._planned(emit, plan, share=share).explanation().json()

    def _planned(
        self,
        emit: Emission,
        plan: PlanChoice,
        *,
        share: bool = False,
        checkpoint: str | None = None,
    ) -> PlannedQueries:
        published = self.host.runs.published() if share else ()
        return plan_queries(
            [self],
            emit=emit,
            plan=plan,
            checkpoint=checkpoint,
            published=published,
            nearby=self.host.runs.measured(self.sources),
        )

    def start(
        self,
        to: Target | None = None,
        *,
        foreach: Callback | None = None,
        emit: Emission = "speculative",
        checkpoint: PathText | None = None,
        trigger: Span | None = None,
        available_now: bool = False,
        allow_unbounded: bool = False,
        share: bool = True,
        plan: PlanChoice = "optimized",
        revisions: RevisionResponse = "emit",
        replay: ReplayChoice = "auto",
        estimate: Span | None = None,
    ) -> Run:
        """Run the query on Spark.

        Args:
            to: `<file>.jsonl` for a stream file, another path for a log folder, `delta:<path>` for
                a Delta table, `postgresql://...` for a table there, `Messages` for a queue, `-`
                for JSON lines on standard output, `memory` (the default without `foreach`) for a
                table in this process, `nothing` to measure the query alone.
            foreach: A function that receives the elements of each batch and its number.
            emit: `speculative`: best answers, corrected later; `final`: only final results;
                `watermark`: of windows of the time axis only those that have ended.
            checkpoint: The folder for its state; it resumes from there when it is started
                again. None: beside the output, or one that ends with the run.
            trigger: The time between two batches; None: as fast as possible.
            available_now: Process the present input, then end.
            allow_unbounded: Accept an unbounded window below an operator that keeps state.
            share: Where a query of this engine runs that computes part of this one and writes a
                log folder, read that log. The query then goes no further than the other one.
                Copies for a merge (`canonical()`) read no such log, and a query that began without
                one resumes without.
            plan: `as-written` switches the optimizer off: operators run in the order in which they
                were written. The answer is the same; a checkpoint belongs to one of the two plans.
            revisions: What late rows of sources with `late="revise"` lead to. `emit`: results are
                corrected, also those that are final; `archive`: only the archive is corrected;
                `ignore`: they are counted.
            replay: What is read again from the archive to correct final results. `RA`: everything;
                `RM`: what the lineage of the results names; `RW`: what windows and lifetimes of the
                plan reach; `auto` chooses by cost.
            estimate: Of corrections whose input is older than what the archive keeps (`keep`), note
                between which bounds the answers are before and after them, from counts and sums
                per bucket of this duration. None: they are in quarantine without.
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
            plan=plan,
            revisions=revisions,
            replay=replay,
            estimate=estimate,
        )
        make_sink, beside = choose_sink(to, foreach)
        home = beside if checkpoint is None else str(checkpoint)
        [run] = start_planned(
            self.host,
            self._planned(emit, plan, share=share, checkpoint=home),
            [QueryOutput(name=self.name, uses=self.uses, make_sink=make_sink)],
            checkpoint=home,
            trigger=trigger,
            available_now=available_now,
            allow_unbounded=allow_unbounded,
            revisions=revisions,
            replay=replay,
            estimate=estimate,
            asked=[self],
            plan_all=partial(plan_queries, emit=emit, plan=plan, checkpoint=home),
        )
        return run

    def to_df(
        self,
        *,
        emit: Emission = "speculative",
        checkpoint: PathText | None = None,
        allow_unbounded: bool = False,
        plan: PlanChoice = "optimized",
    ) -> Any:
        """The query as a streaming DataFrame of elements: kind, start, end, new_end, payload.

        The state of a query over it is kept in `checkpoint`; together with Spark's own
        `checkpointLocation` it makes a restart possible. An end that is NULL is forever; a
        `stable` row has its time in `start`.
        """
        check_run(
            "to_df", emit=emit, checkpoint=checkpoint, allow_unbounded=allow_unbounded, plan=plan
        )
        if any(isinstance(each, Cleanse) and not each.cut for each in self.node.walk()):
            raise PlanError(
                "whole events cannot be written to a DataFrame in order",
                where="to_df of a query with cleanse(cut=False)",
                hint="each shard is settled up to a different instant; use cleanse(), or start the "
                "query with a log folder as its output",
            )
        home = None if checkpoint is None else str(checkpoint)
        return planned_frame(
            self.host,
            self._planned(emit, plan, checkpoint=home),
            checkpoint=home,
            allow_unbounded=allow_unbounded,
        )

    def run_local(
        self,
        to: Target | None = None,
        *,
        foreach: Callback | None = None,
        emit: Emission = "speculative",
        allow_unbounded: bool = False,
        plan: PlanChoice = "optimized",
        revisions: RevisionResponse = "emit",
        replay: ReplayChoice = "auto",
    ) -> LocalRun:
        """Run the query in this process, without Spark, over the present content of its files."""
        check_run(
            "run_local",
            to=to,
            foreach=foreach,
            emit=emit,
            allow_unbounded=allow_unbounded,
            plan=plan,
            revisions=revisions,
            replay=replay,
        )
        planned = self._planned(emit, plan)
        say(planned.queries[0].notes)
        planned.refuse(allow_unbounded=allow_unbounded, emits_revisions=revisions == "emit")
        refuse_without_revisions("run_local", planned.promises, revisions=revisions, replay=replay)
        make_sink, folder = choose_sink(to, foreach)
        sink = make_sink(Folder.at(f"{folder}/out") if folder else Folder.at("."))
        return run_locally(
            planned.physical,
            planned.files,
            sink,
            clock=planned.queries[0].clock,
            tables=planned.tables,
            nodes=planned.workers,
            swaps=planned.swaps,
            revisions=revisions,
            replay=replay,
        )

    def between(self, first: Any, last: Any) -> Stream:
        """The query for the answers in `[first, last)` alone, as a job that ends.

        Of its sources only what these answers need is read: from the archive (`archive=`) where
        that has it, else from the files. With late="revise" all rows count, whenever they came.
        Nothing is archived by it.

        Args:
            first: An instant (a number, an ISO timestamp or a datetime); None: the beginning.
            last: The instant after the last one; None: forever.

        Raises:
            PlanError: There is no instant between them, or a source cannot be read again.
        """
        node, sources = between(self.node, self.sources, *instants_between(self.node, first, last))
        return replace(self, node=node, sources=sources)

    def backfill(
        self,
        first: Any,
        last: Any,
        to: Target | None = None,
        *,
        emit: Emission = "speculative",
        plan: PlanChoice = "optimized",
    ) -> LocalRun:
        """Compute the answers in `[first, last)` again, in this process, and write them out.

        On Spark: `between(first, last).start(to, available_now=True)`.
        """
        query = self.between(first, last)
        return query.run_local(to, emit=emit, plan=plan, allow_unbounded=True)

    @property
    def sparkSession(self) -> Any:  # noqa: N802  # the name that Spark has for it
        """The Spark session of the engine; it is started when it is first asked for."""
        return self.host.spark

    def show(self, n: int = SHOWN, truncate: bool | int = False, *, at: Any = None) -> None:
        """Print the answer at an instant, or without one the events with their lifetimes.

        It is computed in this process, over the present content of the sources.

        Args:
            n: The largest number of rows.
            truncate: The longest text of a value; True: 20, False: any.
            at: A number, an ISO timestamp or a datetime.
        """
        if at is None:
            found = self.run_local("memory", allow_unbounded=True).events()
            if not found.num_rows and any(map(_awaits_ends, self.node.walk())):
                found = found.with_caption(f"{found.caption}; {_ENDED_WINDOWS}")
            found.show(n, truncate)
        else:
            self.snapshot(at).show(n, truncate)

    def snapshot(self, at: Any) -> ResultTable:
        """The answer at an instant, computed in this process from what that needs.

        Whether it is final is not told: that depends on the rest of the input, which is not read.
        """
        clock = clock_of(self.node)
        instant = clock.instant(at)
        found = self.backfill(instant, Time(int(instant) + 1), "memory").snapshot(at)
        return found.with_caption(f" at {clock.format(instant)}")


def _awaits_ends(node: Node) -> bool:
    """Whether these are windows that have results only when they have ended."""
    return isinstance(node, ApplyOperator) and not node.open_windows


Query = Stream
"""What `start` runs; a stream is its own query."""
