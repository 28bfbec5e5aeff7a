"""The same sources, plan and sinks in this process, without Spark."""

from __future__ import annotations

import glob
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.display.option_hints import explains_options
from anabranch.display.progress_line import ProgressLine, progress_text
from anabranch.display.result_table import ResultTable
from anabranch.errors import PlanError
from anabranch.kernels.contract.kernel import with_copy
from anabranch.kernels.contract.packed_events import pack_events
from anabranch.kernels.plan.compile import PhysicalPlan, with_tables
from anabranch.kernels.plan.late_rows import LateRows
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.record import OMITTED, plain
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.elements import element_table
from anabranch.runtime.elements.shown_times import (
    Metrics,
    shown_elements,
    shown_metrics,
    shown_time,
)
from anabranch.runtime.messages.counters import RewrittenFile, failed_windows_in
from anabranch.runtime.messages.heads import OutputHead, OutputSummary
from anabranch.runtime.query.asking.answers import Answers
from anabranch.runtime.query.asking.run_text import RunFacts
from anabranch.runtime.query.metrics import RowTotals
from anabranch.runtime.query.notes import warn_of_rewritten
from anabranch.runtime.query.options import ReplayChoice, RevisionResponse
from anabranch.runtime.query.quarantine import reported_windows
from anabranch.runtime.query.tables import store_tables
from anabranch.runtime.revisions.in_process import ReviserInProcess
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.runtime.sinks.line_sinks import LinesSink
from anabranch.runtime.sinks.sinks import Begin, ShardResult, Sink
from anabranch.runtime.sources.files.listing import demand_files
from anabranch.runtime.sources.files.log_folder import write_part
from anabranch.runtime.sources.files.lost_copies import LostCopies
from anabranch.runtime.sources.files.planned_parts import SourcePart
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.late import judge, with_late_events
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.copy_task import CopyReader, counts_equals, merges_of
from anabranch.runtime.workers.own_settings import own_settings
from anabranch.runtime.workers.row_order import netted, ordered
from anabranch.runtime.workers.source_task import read_pieces

NO_TABLES: Final[Mapping[str, FileSource]] = MappingProxyType({})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMetrics:
    """What a batch did, as `BatchMetrics`; `reports` is what operators noticed, by stage."""

    batch: int
    stable: int
    rows_in: int
    rows_out: int
    late: int
    adjusted: int
    state_rows: int
    failed_windows: int
    revised: int = field(default=0, metadata=OMITTED)
    revisions: int = field(default=0, metadata=OMITTED)
    reports: Mapping[str, Mapping[str, object]] = field(default_factory=dict, metadata=OMITTED)
    rewritten: int = field(default=0, metadata=OMITTED)


@explains_options
@final
class LocalRun(Answers):
    """A query that has run to the end of what its sources had."""

    def __init__(
        self,
        schema: pa.Schema,
        sink: Sink,
        metrics: list[LocalMetrics],
        clock: Clock = INTEGERS,
        seconds: float = 0.0,
    ) -> None:
        """Wrap what came out, and how long that took."""
        self._schema = schema
        self._sink = sink
        self._metrics = metrics
        self._clock = clock
        self._seconds = seconds

    @property
    def status(self) -> str:
        """It has ended."""
        return "ended"

    @property
    def stable(self) -> Time:
        """The stable point of the output: a number, printed as the time that it stands for."""
        stable = Time(self._metrics[-1].stable) if self._metrics else BEGINNING
        return shown_time(stable, self._clock)

    def await_end(self, timeout: float | None = None) -> bool:
        """It has ended already."""
        del timeout
        return True

    def stop(self) -> None:
        """It has ended already."""

    def metrics(self) -> list[Metrics]:
        """What each batch did."""
        return [shown_metrics(plain(batch), self._clock) for batch in self._metrics]

    def failures(self) -> list[dict[str, Any]]:
        """The windows that modules failed for, as `Run.failures` has them."""
        return [
            plain(failure)
            for batch in self._metrics
            for stage, report in batch.reports.items()
            for failure in reported_windows(batch.batch, stage, report)
        ]

    def table(self, *, raw: bool = False) -> pa.Table:
        """All elements in order, with stable points; `raw`: with times as numbers of chronons."""
        found = element_table(self._sink.parts(), self._schema)
        return found if raw else shown_elements(found, self._clock)

    def snapshot(self, at: Any, *, known: int | None = None) -> ResultTable:
        """The answer at an instant; `known`: as it was after the revision of this number."""
        return self._at(at, known)

    def _facts(self) -> RunFacts:
        rows = sum(batch.rows_in for batch in self._metrics)
        return RunFacts(
            name="",
            status=self.status,
            batches=len(self._metrics),
            rows_in=rows,
            rows_out=sum(batch.rows_out for batch in self._metrics),
            late=sum(batch.late for batch in self._metrics),
            stable=self._progress(),
            seconds=self._seconds,
            timed_rows=rows,
            columns=self._schema,
            rewritten=sum(batch.rewritten for batch in self._metrics),
        )


def run_locally(
    plan: PhysicalPlan,
    files: Sequence[FileSource],
    sink: Sink,
    *,
    clock: Clock = INTEGERS,
    tables: Mapping[str, FileSource] = NO_TABLES,
    nodes: tuple[Node, ...] = (),
    swaps: bool = False,
    revisions: RevisionResponse = "emit",
    replay: ReplayChoice = "auto",
) -> LocalRun:
    """Run a plan over everything that its sources have.

    Args:
        plan: The stages.
        files: The sources, all in files.
        sink: Where the results go.
        clock: How they count time.
        tables: The relations in files that are looked up in.
        nodes: The logical plan that the stages were made from, for sources that are revised.
        swaps: Whether corrections change the state, so that it is exchanged.
        revisions: What revisions of its sources lead to.
        replay: What is read again for them.

    Raises:
        PlanError: A source is not in files.
        StreamError: There is no such file or folder.
    """
    began = time.monotonic()
    sources = {source.name: source for source in files}
    missing = [name for name in plan.sources if name not in sources]
    if missing:
        raise PlanError(
            f"source '{missing[0]}' is not in files",
            hint="a query over DataFrames needs Spark: start it with an Engine that has one",
        )
    for source in (*files, *tables.values()):
        # A file may come later; this run reads what is there, and then ends.
        if not source.copies and not glob.has_magic(source.path) and not Path(source.path).exists():
            demand_files(source.path)
    revised = [source.name for source in files if source.promise.late == "revise"]
    emits = bool(revised) and revisions == "emit"
    sink.open(replace(Begin(plan.schema, "local", clock, fresh=True), revisable=emits))
    in_order = ordered if all(source.ordered for source in files) else netted
    promised = dict.fromkeys(sources, BEGINNING)
    copies: dict[str, dict[int, tuple[str, Time]]] = {}
    metrics: list[LocalMetrics] = []
    with tempfile.TemporaryDirectory(prefix="anabranch-") as folder, ProgressLine() as line:
        stored = store_tables(plan, tables, f"{folder}/tables")
        runner = LocalRunner(with_tables(plan, stored))
        reviser: ReviserInProcess | None = None
        if emits:
            replayer = Replayer.of(nodes, tables=frozenset(stored), strategy=replay)
            reviser = ReviserInProcess(replayer.with_tables(stored), swaps=swaps)
        planner = FilePlanner(tuple(files), Folder.at(f"{folder}/planned"), parts=1)
        planner.freeze()
        number = 0
        rewritten: dict[str, list[RewrittenFile]] = {}
        while (after := planner.latest(number)) > number:
            counts: dict[str, RowTotals] = {}
            parts = planner.parts(number, after)
            plain = [part for part in parts if not part.commands and not part.copies]
            for part in parts:
                rewritten.setdefault(part.source, []).extend(part.rewritten)
            before = dict(promised)
            arrived, came, withheld = _arrived(
                sources, plain, promised, counts, emits=emits, swaps=swaps
            )
            lost = LostCopies(Folder.at(f"{folder}/planned"))
            for part in parts:
                if part.copies:
                    source = sources[part.source]
                    equals = counts_equals(source, merges_of(plan))
                    rows = _copies(source, part, copies, counts, lost, equals=equals)
                    so_far = arrived.get(part.source)
                    several = [rows] if so_far is None else [so_far, rows]
                    arrived[part.source] = EventBatch.concat(several)
            commands = [command for part in parts for command in part.commands]
            last = Time(metrics[-1].stable if metrics else BEGINNING)
            found: list[Revision] = []
            late: dict[str, LateRows] = {}
            with own_settings(), _kept_clean(sink):
                guarded: dict[int, EventBatch] = {}
                if reviser is not None:
                    found, guarded = reviser.exchange(runner, before, last)
                    late = reviser.take(number, came, withheld, before, revised)
                    found += reviser.ready(last)
                (output,) = runner.step_all(arrived, copies, commands, late, guarded)
                output = in_order(output)
                if reviser is not None:
                    found += reviser.below(runner)
                    reviser.answered([output])
            result = _result(sink, number, output, clock, last)
            sink.commit(number, output.stable, [result], found)
            metrics.append(_metrics(number, output, counts, runner, revisions=len(found)))
            line(_progress(metrics, clock))
            number = after
        if reviser is not None and metrics:
            # What has been settled by the last batch.
            last = Time(metrics[-1].stable)
            found, guarded = reviser.exchange(runner, promised, last)
            (output,) = runner.step_all({}, guarded=guarded)
            found += reviser.ready(last) + reviser.below(runner)
            if found or len(output):
                output = in_order(output)
                result = _result(sink, number, output, clock, last)
                sink.commit(number, output.stable, [result], found)
                metrics.append(_metrics(number, output, {}, runner, revisions=len(found)))
        if metrics:
            for name, again in planner.rewritten().items():
                rewritten.setdefault(name, []).extend(again)
            warn_of_rewritten(rewritten, revised)
            metrics[-1] = replace(metrics[-1], rewritten=sum(map(len, rewritten.values())))
    sink.close()
    return LocalRun(plan.schema, sink, metrics, clock, time.monotonic() - began)


def _progress(metrics: Sequence[LocalMetrics], clock: Clock) -> str:
    rows, stable = sum(batch.rows_in for batch in metrics), metrics[-1].stable
    final = "no stable point" if stable == BEGINNING else f"stable point {clock.format(stable)}"
    return progress_text(len(metrics), rows, final)


def _kept_clean(sink: Sink) -> AbstractContextManager[object]:
    """What modules print must not get among results that are printed."""
    return redirect_stdout(sys.stderr) if isinstance(sink, LinesSink) else nullcontext()


def _arrived(
    sources: Mapping[str, FileSource],
    parts: Iterable[SourcePart],
    promised: dict[str, Time],
    counts: dict[str, RowTotals],
    *,
    emits: bool,
    swaps: bool,
) -> tuple[dict[str, EventBatch], dict[str, EventBatch], dict[str, EventBatch]]:
    """What comes in one batch, every row judged by what was promised in front.

    What the query takes in; with revisions also all that came, and what is withheld of it.
    """
    plain = [name for name, source in sources.items() if not source.copies]
    before, found = dict(promised), {name: list[EventBatch]() for name in plain}
    came = {name: list[EventBatch]() for name in plain}
    withheld: dict[str, list[EventBatch]] = {}
    for part in parts:
        source = sources[part.source]
        for arrivals, where in read_pieces(source, part.splits, source.schema.names):
            # Without positions all rows are held against what was promised before the batch.
            # So it is where late rows are revised: what was promised then is what is settled.
            in_order = source.ordered and source.promise.late != "revise"
            bound = promised[part.source] if in_order else before[part.source]
            verdict = judge(source.promise, bound, arrivals, where=where, in_order=in_order)
            revised = verdict.late if emits and source.promise.late == "revise" else 0
            if emits:
                came[part.source].append(arrivals.batch)
                if verdict.withheld is not None:
                    withheld.setdefault(part.source, []).append(verdict.withheld)
            promised[part.source] = Time(max(promised[part.source], verdict.promised))
            found[part.source].append(verdict.batch)
            counts[part.source] = counts.get(part.source, RowTotals()).plus(
                RowTotals(len(arrivals), verdict.late - revised, verdict.adjusted, revised)
            )
        if part.ends:
            promised[part.source] = FOREVER

    def together(name: str, batches: Sequence[EventBatch]) -> EventBatch:
        return EventBatch.concat([EventBatch.empty(sources[name].schema), *batches])

    for name, batches in withheld.items():
        if swaps and sources[name].promise.late == "revise":
            # The insert of an event may be late in one piece, and its adjust in time in another.
            rows, late = with_late_events(together(name, found[name]), together(name, batches))
            found[name], withheld[name] = [rows], [late]
    arrived = {
        name: together(name, batches).with_stable(promised[name]) for name, batches in found.items()
    }
    return (
        arrived,
        {name: together(name, batches) for name, batches in came.items()},
        {name: together(name, batches) for name, batches in withheld.items()},
    )


def _copies(
    source: FileSource,
    part: SourcePart,
    promises: dict[str, dict[int, tuple[str, Time]]],
    counts: dict[str, RowTotals],
    lost: LostCopies,
    *,
    equals: bool,
) -> EventBatch:
    """What comes of the copies of a source, and how far they are with that."""
    promised = promises.setdefault(source.name, {})
    reader = CopyReader(source, part, {number: stable for number, (_, stable) in promised.items()})
    rows = [*reader.read(source.schema.names, lost, counts_equals=equals)]
    for number, tally in reader.tallies.items():
        promised[number] = (tally.name, tally.reached)
        counts[source.name] = counts.get(source.name, RowTotals()).plus(
            RowTotals(tally.rows, tally.late, tally.adjusted)
        )
    return EventBatch.concat([EventBatch.empty(with_copy(source.schema)), *rows])


def _result(sink: Sink, batch: int, output: EventBatch, clock: Clock, last: int) -> ShardResult:
    stable, is_logged = int(output.stable), sink.delivery == "log" and len(output)
    files = (write_part(sink.out, batch, 0, output, clock=clock),) if is_logged else ()
    summary = OutputSummary(stable=stable)
    head = OutputHead(output=0, stable=stable, stable_before=last, said=summary, files=files)
    return ShardResult(0, head, pack_events(output) if len(output) else None)


def _metrics(
    number: int,
    output: EventBatch,
    counts: Mapping[str, RowTotals],
    runner: LocalRunner,
    *,
    revisions: int,
) -> LocalMetrics:
    reports = runner.reports()
    return LocalMetrics(
        batch=number,
        stable=int(output.stable),
        rows_in=sum(count.rows for count in counts.values()),
        rows_out=len(output),
        late=sum(count.late for count in counts.values()),
        adjusted=sum(count.adjusted for count in counts.values()),
        revised=sum(count.revised for count in counts.values()),
        revisions=revisions,
        state_rows=runner.state_rows(),
        failed_windows=sum(map(failed_windows_in, reports.values())),
        reports=reports,
    )
