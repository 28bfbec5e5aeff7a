"""Start planned queries on Spark, and keep their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from anabranch.errors import PlanError
from anabranch.host import Host
from anabranch.model.clock import MICROSECONDS
from anabranch.planning import AskedQuery, PlannedQueries, plan_queries
from anabranch.runtime.query.notes import say
from anabranch.runtime.query.options import (
    ReplayChoice,
    RevisionResponse,
    refuse_without_revisions,
)
from anabranch.runtime.sinks.sinks import Sink
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.runtime.store.folder import Folder
from anabranch.windowed import Span

if TYPE_CHECKING:
    from anabranch.migrate.executed_queries import PlanAll
    from anabranch.runtime.query.run import Run
    from anabranch.runtime.query.start import Work
    from anabranch.runtime.revisions.estimator import RevisionEstimator


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutput:
    """What a planned query is called, what it depends on, and what makes its sink."""

    name: str | None
    uses: frozenset[str]
    make_sink: Callable[[Folder], Sink]


def start_planned(
    host: Host,
    planned: PlannedQueries,
    outputs: Sequence[QueryOutput],
    *,
    checkpoint: str | None,
    trigger: Span | None = None,
    available_now: bool = False,
    allow_unbounded: bool = False,
    changed: bool = False,
    revisions: RevisionResponse = "emit",
    replay: ReplayChoice = "auto",
    estimate: Span | None = None,
    caller: str = "start",
    asked: Sequence[AskedQuery] = (),
    plan_all: PlanAll = plan_queries,
) -> list[Run]:
    """Run queries, each with its output, as one query of Spark; options as for `start_all`."""
    from anabranch.runtime.query.start import start_query

    reads = frozenset(source.path for source in planned.files)
    for query in planned.queries:
        say(query.notes)
    planned.refuse(allow_unbounded=allow_unbounded, emits_revisions=revisions == "emit")
    refuse_without_revisions(
        caller, planned.promises, revisions=revisions, replay=replay, estimate=estimate
    )
    estimator = None if estimate is None else estimator_of(planned, estimate)
    runs = start_query(
        host.spark,
        _work(host, planned),
        [output.make_sink for output in outputs],
        checkpoint=checkpoint,
        shards=host.shard_count,
        reshard=host.shards is not None,
        trigger=None if trigger is None else f"{MICROSECONDS.duration(trigger)} microseconds",
        available_now=available_now,
        changed=changed,
        revisions=revisions,
        replay=replay,
        estimator=estimator,
    )
    found = [
        host.runs.add(run, output.name, query.shared, output.uses, reads)
        for run, output, query in zip(runs, outputs, planned.queries, strict=True)
    ]
    if asked:
        from anabranch.changing import let_change

        let_change(host, found, planned, asked, plan_all, allow_unbounded=allow_unbounded)
    return found


def estimator_of(planned: PlannedQueries, bucket: Span) -> RevisionEstimator:
    """What estimates the corrections of a query, with buckets of a duration.

    Raises:
        PlanError: Its answers cannot be estimated, or nothing is ever missing that would have to.
    """
    from anabranch.runtime.revisions.estimator import RevisionEstimator

    [query] = planned.queries
    width = int(query.clock.duration(bucket))
    found = RevisionEstimator.of(planned.workers, width)
    archives = {each.name: each.archive for each in planned.files}
    archives |= {each.name: each.archive for each in planned.frames.values()}
    archive = archives.get(found.asked.source)
    if archive is None or (archive.keep_age is None and archive.keep_rows is None):
        raise PlanError(
            "estimate has no meaning for a source that keeps all its rows",
            where=f"start(...): source '{found.asked.source}' has no KEEP",
            hint="leave estimate out, or declare for how long rows stay: KEEP 30 DAYS "
            "(keep='30 days')",
        )
    return found


def planned_frame(
    host: Host, planned: PlannedQueries, *, checkpoint: str | None, allow_unbounded: bool
) -> Any:
    """A planned query as a streaming DataFrame of elements."""
    from anabranch.runtime.query.start import stream_rows

    planned.refuse(allow_unbounded=allow_unbounded)
    _refuse_revisions(planned)
    frame, opened = stream_rows(
        host.spark, _work(host, planned), checkpoint=checkpoint, shards=host.shard_count
    )
    host.closing.append(opened.close)
    return frame


def _refuse_revisions(planned: PlannedQueries) -> None:
    """A DataFrame of elements has no room for revisions of what is settled."""
    for promise in planned.promises:
        if promise.late == "revise":
            raise PlanError(
                "revisions cannot be handed on in a DataFrame",
                where=f"to_df of a query over source '{promise.source}', which has LATE REVISE",
                hint="start the query with an output of its own, or declare another policy: LATE "
                "DROP, LATE ADJUST or LATE FAIL",
            )


def _work(host: Host, planned: PlannedQueries) -> Work:
    from anabranch.runtime.query.start import Work
    from anabranch.runtime.spark.session import batch_sizes, parallelism, rows_per_task

    return Work(
        plan=planned.physical,
        tables=planned.tables,
        files=planned.files,
        frames=tuple(planned.frames.values()),
        parts=parallelism(host.spark),
        least=rows_per_task(host.spark),
        sizes=batch_sizes(host.spark),
        clocks=tuple(query.clock for query in planned.queries),
        nodes=planned.workers,
        swaps=planned.swaps,
        keep=host.versions,
        older=planned.older,
        priced=planned.priced,
        properties=tuple(LogProperties.of(node, planned.emit) for node in planned.workers),
    )
