"""A running query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, final

import pyarrow as pa

from anabranch.display.progress_line import progress_text
from anabranch.errors import AnabranchError, PlanError
from anabranch.model.clock import Clock
from anabranch.model.record import plain
from anabranch.model.time import Time
from anabranch.runtime.elements.elements import element_table
from anabranch.runtime.elements.shown_times import (
    Metrics,
    shown_elements,
    shown_metrics,
    shown_time,
)
from anabranch.runtime.query.asking.answers import Answers
from anabranch.runtime.query.asking.explaining import ExplainsItself
from anabranch.runtime.query.asking.run_text import RunFacts, facts_of_run
from anabranch.runtime.query.asking.waiting import wait_until
from anabranch.runtime.query.quarantine import failed_windows
from anabranch.runtime.query.readers import refuse_while_read
from anabranch.runtime.revisions.correction_lines import Corrections
from anabranch.runtime.revisions.handing_in import hand_in
from anabranch.runtime.revisions.overview import correction_notes
from anabranch.runtime.revisions.reviser import Reviser
from anabranch.runtime.revisions.submissions import Submission
from anabranch.runtime.sinks.sinks import LogSink, known_parts
from anabranch.runtime.spark.failures import original_error
from anabranch.runtime.store.control import Control

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from anabranch.runtime.query.assembly import Assembly
    from anabranch.runtime.query.committing import Output
    from anabranch.runtime.store.migrations import How

_RETRIES: Final = 3
_TOO_BUSY: Final = "Python worker failed to connect back"

Status = Literal["running", "ended", "failed"]


class Changer(Protocol):
    """Who changes a running query: the layer that knows how queries are planned."""

    def __call__(self, query: Any, *, how: How, at: Any) -> Any:
        """Change the query; see `Run.migrate`."""


class QueryGroup(Protocol):
    """Who lets queries join those that run, and leave them."""

    @property
    def members(self) -> Sequence[Run]:
        """Those that run together now."""

    def add(self, query: Any, to: Any, *, foreach: Any, name: str | None, how: How, at: Any) -> Run:
        """Let a query join; see `Run.add`."""

    def leave(self, run: Run, *, force: bool) -> None:
        """Let a query leave; see `Run.leave`."""


class Execution:
    """A query of Spark, which one run or several have in common."""

    def __init__(
        self, spark: SparkSession, begin: Callable[[], StreamingQuery], assembly: Assembly
    ) -> None:
        """Start it; `begin` can be called again after a failure."""
        self.spark = spark
        self.assembly = assembly
        assembly.switcher.follow = self._follow
        self._begin = begin
        self._retries = _RETRIES
        self._restart = threading.Lock()
        self._stopped = False
        self._spent: dict[int, dict[str, int]] = {}
        with self._restart:
            self.query: StreamingQuery = begin()

    @property
    def reviser(self) -> Reviser | None:
        """Who corrects the past of the query, if somebody does."""
        return self.assembly.reviser

    @property
    def checkpoint(self) -> str:
        """The folder of its checkpoint."""
        return self.assembly.opened.path

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has ended the query."""
        return self._stopped

    def close(self) -> None:
        """Let go of everything, once the query has ended."""
        self.assembly.close()

    def stop(self) -> None:
        """End the query; a change of its plan that is under way does not start it again."""
        with self._restart:
            self._stopped = True
            self.query.stop()

    def started_again(self, ended: StreamingQuery) -> bool:
        """Go on from the checkpoint: with another plan, or where the machine was only too busy.

        Spark gives a new Python process ten seconds to call back, and gives up the query if that
        is not enough.
        """
        with self._restart:
            if self.query is not ended:
                # Somebody else has noticed, too.
                return True
            problem = ended.exception()
            if problem is None or self._stopped:
                return False
            new = self.assembly.switcher.take()
            if new is not None:
                self._begin = self.assembly.changed(new)
            elif self.assembly.switcher.take_repeat():
                pass
            elif self._retries == 0 or _TOO_BUSY not in str(problem):
                return False
            else:
                self._retries -= 1
            self.query = self._begin()
            return True

    def _follow(self, begun: threading.Event) -> None:
        """Start Spark's query with its new plan when it has given up its batch, in the background.

        The event is set when it has been started.
        """

        def wait() -> None:
            # The first batch may begin before `begin` has returned.
            with self._restart:
                query = self.query
            # A query that changes its plan ends with an error, which is not for anybody.
            with suppress(Exception):
                query.awaitTermination()
            with suppress(Exception):
                self.started_again(query)
            begun.set()

        threading.Thread(target=wait, name="anabranch-switch", daemon=True).start()

    def milliseconds(self, batches: Sequence[int]) -> list[dict[str, int]]:
        """What Spark measured of these batches, as far as it is known."""
        missing = [batch for batch in batches if batch not in self._spent]
        if missing:
            # The last one is what usually is missing, and all of them are a lot to ask for.
            last = self.query.lastProgress
            seen = [last] if missing[1:] == [] and last else self.query.recentProgress
            self._spent |= {each.batchId: dict(each.durationMs) for each in seen}
        return [self._spent.get(batch, {}) for batch in batches]


@final
class Run(Answers, ExplainsItself):
    """A query on its way: watch it, ask it, stop it.

    `name` is what the catalog of queries calls it, `uses` the streams it was written over, `reads`
    the paths of its sources, and `read_by` asks for running queries that read its log folder. As a
    context manager it stops the query at the end of the block. Runs that were started together
    are one query of Spark: they fail and stop together. `add` lets another query join them,
    `leave` lets one of them go; `joined` is the change by which a run has joined others.
    """

    def __init__(self, execution: Execution, output: Output) -> None:
        """One output of what Spark executes."""
        self.name = ""
        self.uses: frozenset[str] = frozenset()
        self.changer: Changer | None = None
        self.group: QueryGroup | None = None
        self.joined: Any = None
        self.has_left = False
        self.reads: frozenset[str] = frozenset()
        self.read_by: Callable[[], list[str]] = list
        self._execution = execution
        self._output = output
        self._clock = output.clock
        self._sink = output.sink
        self._schema = output.schema
        self._committed = output.committed
        self._quarantine = execution.assembly.quarantine

    @property
    def execution(self) -> Execution:
        """What Spark executes of it."""
        return self._execution

    @property
    def schema(self) -> pa.Schema:
        """The columns of the output."""
        return self._schema

    @property
    def log_folder(self) -> str | None:
        """The log folder it writes to, if it does."""
        return self._sink.out if isinstance(self._sink, LogSink) else None

    @property
    def status(self) -> Status:
        """Whether it is running, has ended, or has failed."""
        query = self._query
        if self.has_left:
            return "ended"
        if query.isActive:
            return "running"
        if query.exception() is None:
            return "ended"
        return "running" if self._execution.started_again(query) else "failed"

    @property
    def is_busy(self) -> bool:
        """Whether a batch is under way."""
        return bool(
            not self.has_left and self._query.isActive and self._query.status["isTriggerActive"]
        )

    @property
    def control(self) -> Control:
        """Tell the query something.

        Advance, pause, resume or limit a source; attach, detach or rejoin an input of a merge; give
        feedback on what of the output is still of interest.
        """
        return self._execution.assembly.control

    @property
    def clock(self) -> Clock:
        """How its results count time."""
        return self._clock

    @property
    def stable(self) -> Time:
        """The stable point of the output: before it nothing changes any more.

        A number, which is printed as the time that it stands for; `stable_time` is a datetime.
        """
        return shown_time(self._committed.stable, self._clock)

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query ends, at most so many seconds; true if it has ended.

        Without a timeout its progress is shown, on a terminal and in a notebook, and Ctrl-C stops
        it after the batch under way.

        Raises:
            AnabranchError: The query has failed; what a worker raised comes out here.
            KeyboardInterrupt: Somebody has stopped it by Ctrl-C.
        """
        if timeout is None:
            wait_until(self, self.await_end, lambda: self.progress)
            return True
        if self.has_left:
            return True
        query = self._query
        try:
            # Spark counts whole seconds and refuses none.
            ended = bool(query.awaitTermination(max(1, round(timeout))))
        except Exception as problem:
            if self._execution.started_again(query):
                return self.await_end(timeout)
            self._execution.close()
            raise self._failure(problem) from problem
        if ended:
            reviser = self._execution.reviser
            if reviser is not None:
                reviser.wait()
            self._execution.close()
        return ended

    def drain(self) -> None:
        """Wait until everything that the sources have by now is in the output.

        Raises:
            AnabranchError: The query has failed.
        """
        if self.has_left:
            return None
        query = self._query
        try:
            query.processAllAvailable()
            reviser = self._execution.reviser
            while reviser is not None and reviser.has_work:
                # What was computed meanwhile waits for a batch.
                reviser.wait()
                query.processAllAvailable()
        except Exception as problem:
            if self._execution.started_again(query):
                return self.drain()
            raise self._failure(problem) from problem
        return None

    def stop(self, *, force: bool = False) -> None:
        """End the query, and those that run with it; it can go on later from its checkpoint.

        Raises:
            PlanError: Other queries read its log folder; with `force` they wait for it.
        """
        if self.has_left:
            return
        if not force:
            refuse_while_read(self)
        self._execution.stop()
        self._execution.close()

    def metrics(self) -> list[Metrics]:
        """What each batch did, oldest first; the last thousand are kept.

        Keys: `batch`, `stable`, `rows_in` (from all sources), `rows_out`, `late`, `adjusted`,
        `lag`, `sources` (per source: rows, late, adjusted, reached, after feedback how many were
        skipped, an `order` of "none" where rows have no positions to be late by, and where it has
        copies the same per copy under `copies`, with its problem), `stages` (per stage: rows_in,
        rows_out, state_rows, state_bytes, state_runs, seconds of the slowest shard, and under
        `reports` what its operators noticed, shard by shard), `failed_windows` (that modules gave
        no results for), `control` (commands that took effect), `milliseconds` (what Spark
        measured).
        """
        with self._committed.lock:
            batches = list(self._committed.metrics)
        spent = self._execution.milliseconds([batch.batch for batch in batches])
        each = zip(batches, spent, strict=True)
        return [
            {**shown_metrics(plain(batch), self._clock), "milliseconds": own} for batch, own in each
        ]

    @property
    def totals(self) -> dict[str, Any]:
        """What all batches of this run did.

        Batches, rows_out, failed_windows, sources (rows, late, adjusted), and the same per copy
        under `copies`.
        """
        with self._committed.lock:
            totals = self._committed.totals
        found: dict[str, Any] = plain(totals)
        return found

    def failures(self) -> list[dict[str, Any]]:
        """The windows that modules failed for in the batches of `metrics`, oldest first.

        Only where modules are applied with errors `skip` or `quarantine`. Keys: batch, stage,
        shard, module, reason, window, group, event. In a batch every shard tells of the first
        hundred; `failed_windows` of the metrics counts all.
        """
        with self._committed.lock:
            batches = list(self._committed.metrics)
        return [plain(failure) for batch in batches for failure in failed_windows(batch)]

    def quarantine(self) -> list[dict[str, Any]]:
        """The windows that modules with errors `quarantine` failed for, since the query began.

        As `failures`, with `events` (the first twenty) and `count` (how many there are). They are
        in the folder `quarantine` of the checkpoint, a file of JSON lines per batch.
        """
        return [plain(failure) for failure in self._quarantine.read()]

    def revise(self, source: str, corrections: Corrections) -> Submission:
        """Correct rows of a source that was declared with LATE REVISE, from the next batch on.

        Corrections are the path of a file of JSON lines, dictionaries, elements, or an Arrow table
        of elements: `{"insert": {...}, "start": t, "end": u}`, `{"adjust": ...}` with `new_end`,
        `{"replace": {...}, "with": {...}, "start": t}`, `{"delete": {...}, "start": t}`. A row is
        named by its start and as many of its columns as are needed to tell it from others. What
        names no row, or several, is in quarantine: see `quarantined` of the result.

        Raises:
            PlanError: There is no such source, or it cannot be corrected.
        """
        return hand_in(self._execution.checkpoint, source, corrections)

    def revisions(self) -> list[dict[str, Any]]:
        """The corrections of the sources and what became of them, oldest first.

        As `anabranch revisions --json` has them; see `CorrectionNote`.
        """
        return [plain(each) for each in correction_notes(self._execution.checkpoint)]

    def migrate(self, query: Any = None, *, how: How = "auto", at: Any = None) -> Any:
        """Change the query while it runs: from an instant T on the answer is that of another one.

        Before T it is the answer of the old query, at every instant, and nothing is lost or
        doubled. The columns must have the same names and types; their order does not matter.

        Args:
            query: The new query: a `Stream`, or SQL. None: the same query, by the plan that the
                optimizer chooses now.
            how: `clip`: both plans run until no row that was read before matters any more, so T
                lies behind the windows of now. `replay`: the new plan first reads again what it
                needs, and T is the stable point. `auto` takes what is sooner done.
            at: T is not before this instant (a number, an ISO timestamp or a datetime).

        Returns:
            A `Migration`: `await_switched()`, `await_finished()`, `at`, `how`, `reason`.

        Raises:
            PlanError: The query cannot change to this one, or not in this way.
        """
        if self.changer is None or self.has_left:
            raise PlanError(
                "this query cannot be changed while it runs",
                where=self.name,
                hint="only queries that were started by an engine, and run, can",
            )
        return self.changer(query, how=how, at=at)

    def add(
        self,
        query: Any,
        to: Any = None,
        *,
        foreach: Any = None,
        name: str | None = None,
        how: How = "auto",
        at: Any = None,
    ) -> Run:
        """Let another query join this one while it runs: both are one query of Spark from then on.

        They share every batch, the checkpoint, and what they have in common. Waits for the next
        batch, with which it begins.

        Args:
            query: The query: a `Stream`, or SQL.
            to: Where its results go, as for `Stream.start`.
            foreach: As for `Stream.start`.
            name: What the catalog of queries calls it.
            how: `clip`: it answers from the instant T on at which the rows that were read before
                do not matter to it any more; from the beginning if nothing was. `replay`: it first
                reads again what was read, and answers from the beginning. `auto` takes clip where
                that is possible.
            at: By clip, T is not before this instant.

        Returns:
            Its run; `joined` has T (`joined.at`, `joined.instant`) and the way (`joined.how`).

        Raises:
            PlanError: The query cannot join this one, or not in this way.
        """
        return self._group("add").add(query, to, foreach=foreach, name=name, how=how, at=at)

    def leave(self, *, force: bool = False) -> None:
        """End this query alone; those that run with it go on, and their checkpoint is without it.

        What it has put out stays. Waits for the next batch, the first without it.

        Raises:
            PlanError: It is the only one, it cannot leave, or others read its log folder; with
                `force` they get no more of it.
        """
        if not self.has_left:
            self._group("leave").leave(self, force=force)

    def _group(self, asked: str) -> QueryGroup:
        if self.group is None or self.status != "running":
            raise PlanError(
                f"{asked}(...) needs a query that runs",
                where=self.name,
                hint="only queries that were started by an engine, and run, can change",
            )
        return self.group

    def snapshot(self, at: Any, *, known: int | None = None) -> DataFrame:
        """The answer at an instant (a number, an ISO timestamp or a datetime), as known by now.

        Before the stable point it is final, but for revisions.

        Args:
            at: The instant.
            known: As it was after the revision of the output with this number; 0: before any.
        """
        from anabranch.runtime.spark.snapshots import snapshot_of

        if self._is_small(known):
            return self._execution.spark.createDataFrame(self._at(at, known).to_arrow())
        return snapshot_of(self._elements(known), self._schema, self._clock.instant(at))

    def elements(self, *, known: int | None = None) -> DataFrame:
        """All committed inserts and adjusts, as a DataFrame: kind, start, end, new_end, payload.

        The changes of revisions are among them, of the kinds revise-insert and revise-adjust; with
        `known` only those of revisions up to this number. Times are timestamps where those of the
        stream are; an end that is NULL is forever.
        """
        from anabranch.runtime.spark.snapshots import with_times

        return with_times(self._elements(known), self._clock)

    def _elements(self, known: int | None) -> DataFrame:
        """The same with times in chronons."""
        from anabranch.runtime.spark.snapshots import read_elements

        if isinstance(self._sink, LogSink):
            log = self._sink.log
            known_parts((), known)
            changes = [f"{log.path}/{each.file.name}" for each in log.revisions(known)]
            files = log.files()
            if files or changes:
                return read_elements(self._execution.spark, files, changes)
        return self._execution.spark.createDataFrame(
            element_table(known_parts(self._sink.parts(), known), self._schema)
        )

    def table(self, *, raw: bool = False) -> pa.Table:
        """All committed elements in order, with stable points.

        Times are timestamps where those of the stream are; with `raw` they are numbers of chronons.
        """
        found = element_table(self._sink.parts(), self._schema)
        return found if raw else shown_elements(found, self._clock)

    def _get_spark(self) -> Any:
        return self._execution.spark

    @property
    def progress(self) -> str:
        """How far it is, in one line: batches, rows read, the stable point."""
        with self._committed.lock:
            totals = self._committed.totals
        rows = sum(each.rows for each in totals.sources.values())
        return progress_text(totals.batches, rows, self._progress())

    def _facts(self) -> RunFacts:
        with self._committed.lock:
            totals, recent = self._committed.totals, list(self._committed.metrics[-20:])
        try:
            status: str = self.status
            spent = self._execution.milliseconds([batch.batch for batch in recent])
        except Exception:  # noqa: BLE001  # Spark has been stopped, and cannot be asked
            status, spent = "ended", [{} for _ in recent]
        return facts_of_run(self.name, status, totals, recent, spent, self._progress(), self.schema)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(force=True)

    @property
    def _query(self) -> StreamingQuery:
        return self._execution.query

    def _failure(self, problem: Exception) -> AnabranchError:
        return self._committed.failure or original_error(str(problem))
