"""What a query on Spark needs so that its past can be corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.kernels.plan.compile import tables_of
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.finding import archive_of_source
from anabranch.runtime.query.options import ReplayChoice, RevisionResponse
from anabranch.runtime.revisions.archived_sources import (
    ArchivedSource,
    ArchivedSources,
    StoredFiles,
)
from anabranch.runtime.revisions.estimator import RevisionEstimator
from anabranch.runtime.revisions.large_replay import RunLarge
from anabranch.runtime.revisions.lineage import LineageFolder
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.runtime.revisions.revised_query import RevisedQuery
from anabranch.runtime.revisions.reviser import Reviser
from anabranch.runtime.revisions.swapper import Swapper
from anabranch.runtime.sources.spec import ArchiveSpec, FileSource
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.part_log import PastJob

if TYPE_CHECKING:
    from anabranch.runtime.query.checkpoint import Checkpoint
    from anabranch.runtime.spark.frame_source import FrameSource


def past_of(
    opened: Checkpoint,
    files: Sequence[FileSource],
    frames: Sequence[FrameSource],
    response: RevisionResponse,
) -> PastJob | None:
    """How the past of a query is kept; None where no source wants that.

    To replay one source all of them are needed. Files stay where they are; what streams by, and
    what the user wants to have in a folder, is copied.
    """
    sources: list[FileSource | FrameSource] = [*files, *frames]
    if not any(each.archive is not None for each in sources):
        return None
    copied: dict[str, str] = {}
    for each in sources:
        path = None if each.archive is None else each.archive.path
        if path is not None or not isinstance(each, FileSource):
            copied[each.name] = path or f"{opened.archive}/{quote(each.name, safe='')}"
    return PastJob(folder=opened.revisions, copied=copied, response=response)


def open_archives(
    opened: Checkpoint, past: PastJob, files: Sequence[FileSource], frames: Sequence[FrameSource]
) -> dict[str, Archive]:
    """The archives of all sources, which begin with the query."""
    found: dict[str, Archive] = {}
    sources: list[FileSource | FrameSource] = [*files, *frames]
    for each in sources:
        is_copied = each.name in past.copied
        spec = each.archive or ArchiveSpec()
        folder = archive_of_source(opened.path, each.name, spec.path)
        source = None if is_copied or not isinstance(each, FileSource) else each
        archive = Archive(folder, source, spec)
        archive.create(
            each.name, each.schema, each.promise.clock, copied=is_copied, query=opened.query
        )
        found[each.name] = archive
    return found


def note_sources(
    past: PastJob,
    job: Job,
    files: Sequence[FileSource],
    frames: Sequence[FrameSource],
) -> None:
    """Write down how rows of the sources are found again, for whoever hands in corrections."""
    found = {}
    sources: list[FileSource | FrameSource] = [*files, *frames]
    for each in sources:
        is_copied = each.name in past.copied
        plain_rows = each.shape is not None and each.shape.kind is None
        times = (each.shape.start, each.shape.end) if plain_rows and each.shape else (None, None)
        start, end = (name if name in each.schema.names else None for name in times)
        path = None if each.archive is None else each.archive.path
        found[each.name] = ArchivedSource(
            promise=each.promise,
            archive=path if path is None or "://" in path else str(Path(path).absolute()),
            only_points=job.plan.sources[each.name].only_points,
            files=None if is_copied or not isinstance(each, FileSource) else StoredFiles.of(each),
            start=start,
            end=end,
        )
    ArchivedSources(sources=found).write(past.folder)


def start_reviser(
    opened: Checkpoint,
    job: Job,
    archives: Mapping[str, Archive],
    nodes: Sequence[Node],
    tables: Mapping[str, str],
    replay: ReplayChoice,
    run_large: RunLarge | None = None,
    estimator: RevisionEstimator | None = None,
    *,
    rounds: int,
) -> Reviser:
    """Begin to correct the past of a query.

    `run_large` is for replays of many rows; `rounds` says how often one catches up before the query
    waits for it.
    """
    past = job.past
    assert past is not None
    if estimator is not None:
        archive = archives[estimator.asked.source]
        archive.summaries.declare(estimator.about, archive.index.cut())
    replayer = Replayer.of(
        nodes,
        tables=frozenset(tables_of(job.plan)),
        strategy=replay,
    ).with_tables(tables)
    columns = {name: _needed(job, name) for name in job.plan.sources}
    query = RevisedQuery(
        folder=past.folder,
        replayer=replayer,
        archives=archives,
        columns=columns,
        revised=frozenset(
            name for name, promise in job.promises.items() if promise.late == "revise"
        ),
        outputs=tuple(job.plan.stages[index].schema for index in job.plan.outputs),
        control=ControlFolder(Folder.at(opened.control)),
        response=past.response,
        swapper=Swapper(job, replayer) if past.swaps else None,
        run_large=run_large,
        next_batch=opened.next_batch,
        lineage=LineageFolder(Folder.at(past.folder).child("lineage"), replayer.nodes)
        if past.lineage
        else None,
        estimator=estimator,
        rounds=rounds,
    )
    return Reviser(query)


def _needed(job: Job, source: str) -> pa.Schema:
    schema = job.plan.sources[source].schema
    return pa.schema([schema.field(name) for name in job.columns(source)])
