"""A running query."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import pyarrow as pa

from anabranch.display.option_hints import explains_options
from anabranch.display.progress_line import progress_text
from anabranch.errors import AnabranchError
from anabranch.model.clock import Clock
from anabranch.model.record import plain
from anabranch.model.time import BEGINNING, Time
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
from anabranch.runtime.query.changes import Changeable, Revisable, Status
from anabranch.runtime.query.execution import Execution
from anabranch.runtime.query.quarantine import failed_windows
from anabranch.runtime.query.readers import refuse_while_read
from anabranch.runtime.sinks.sinks import LogSink, known_parts
from anabranch.runtime.spark.failures import original_error
from anabranch.runtime.store.control import Control

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from anabranch.runtime.query.committing import Output


@explains_options
@final
class Run(Answers, ExplainsItself, Revisable, Changeable):
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
        stable = self._committed.stable
        if stable == BEGINNING:
            # A query that resumes goes on from what it has promised, also before its first batch.
            stable = self._execution.assembly.resumed_stable(self._output)
        return shown_time(stable, self._clock)

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

    def leave(self, *, force: bool = False) -> None:
        """End this query alone; those that run with it go on, and their checkpoint is without it.

        What it has put out stays. Waits for the next batch, the first without it.

        Raises:
            PlanError: It is the only one, it cannot leave, or others read its log folder; with
                `force` they get no more of it.
        """
        if not self.has_left:
            self._group("leave").leave(self, force=force)

    def metrics(self) -> list[Metrics]:
        """What each batch did, oldest first; the last thousand are kept.

        Keys: `batch`, `stable`, `rows_in` (from all sources), `rows_out`, `late`, `adjusted`,
        `lag`, `sources` (per source: rows, late, adjusted, reached, after feedback how many were
        skipped, an `order` of "none" where rows have no positions to be late by, files that were
        written again after they were read under `rewritten`, and where it has copies the same per
        copy under `copies`, with its problem), `stages` (per stage: rows_in,
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

        Batches, rows_out, failed_windows, sources (rows, late, adjusted, and `rewritten` if files
        were written again after they were read), and the same per copy under `copies`.
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
        again = sum(each.rewritten for each in totals.sources.values())
        return progress_text(totals.batches, rows, self._progress(), again)

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
