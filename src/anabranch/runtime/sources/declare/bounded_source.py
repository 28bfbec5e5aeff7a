"""A source for answers in a stretch of time: as much of it as they need, and then it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sources.archived.about import INDEX, archived_columns, read_about
from anabranch.runtime.sources.archived.index import ArchiveIndex
from anabranch.runtime.sources.declare.known_source import known_source
from anabranch.runtime.sources.spec import ArchiveSpec, FileSource, KnowledgePoint
from anabranch.runtime.store.folder import Folder

Span = tuple[Time, Time]


def bounded_source(source: Any, leaf: Source, span: Span) -> tuple[Any, Source]:
    """What is read of a source for answers that need a span of it, and its leaf then.

    With LATE REVISE all rows count, whenever they came: those of the archive if it has the whole
    span, else those of the files; only what holds in the span is read. So it is with rows for
    which nothing is promised. Where promises decide which rows are dropped or clipped, everything
    is read again, in order. A DataFrame that streams and has no archive is read as it is.

    Raises:
        PlanError: Its rows have the time of their arrival, or are no longer there.
    """
    promise = source.promise
    if promise.stamped:
        raise PlanError(
            "rows that get the time of their arrival cannot be read again",
            where=f"source '{source.name}'",
            hint="declare the column with the time of a row: ORDERED BY",
        )
    all_count = promise.late == "revise" or promise.delay is None
    if isinstance(source, FileSource) and source.known is not None:
        return replace(source, within=_whole_events(leaf, span)), leaf
    oldest, promised = _archived(source)
    is_file = isinstance(source, FileSource)
    is_complete = oldest <= span[0] and promised >= span[1]
    if all_count and promised > BEGINNING and (is_complete or not is_file):
        if oldest > span[0] and span[0] < span[1]:
            raise PlanError(
                "the archive no longer has what the answers need",
                where=f"source '{source.name}': needed from {promise.clock.format(span[0])} on, "
                f"archived from {promise.clock.format(oldest)} on",
                hint="ask for later answers, or keep more of the source (KEEP)",
            )
        own = replace(leaf, insert_only=False)
        found = known_source(source, source.name, KnowledgePoint())
        return replace(found, within=_whole_events(own, span)), own
    if not is_file:
        return (_judged_again(source) if promised > BEGINNING else source), leaf
    archive = None if source.archive is None else ArchiveSpec()
    is_plain = source.shape is not None and source.shape.kind is None and not source.copies
    if all_count and is_plain and source.ordered:
        own_promise = replace(promise, delay=None, late="drop", heartbeat=None)
        within = _whole_events(leaf, span)
        return replace(source, promise=own_promise, ends=True, archive=None, within=within), leaf
    return replace(source, ends=True, archive=archive), leaf


def _whole_events(leaf: Source, span: Span) -> Span:
    """A span outside of which no element says anything about the events inside.

    An event that is moved again and again may be outside of the span at first: where there are
    such, only what begins behind the span is left out.
    """
    if leaf.insert_only or leaf.only_points:
        return span
    return BEGINNING, span[1]


def _archived(source: Any) -> Span:
    """From where on an archive is complete, and up to where; an empty span where there is none."""
    spec = source.archive
    if spec is None or spec.path is None or read_about(Folder.at(spec.path)) is None:
        return BEGINNING, BEGINNING
    index = ArchiveIndex(Folder.at(spec.path).child(INDEX))
    promised = max((entry.promised for entry in index.entries()), default=BEGINNING)
    return Time(index.cut().oldest), Time(promised)


def _judged_again(source: Any) -> FileSource:
    """An archive batch by batch, with what was promised then: the same rows are late again."""
    stored, shape = archived_columns(source.schema, source.schema)
    return FileSource(
        promise=replace(source.promise, delay=None, heartbeat=None, step=1),
        path=source.archive.path,
        form="archive",
        schema=source.schema,
        stored=stored,
        shape=shape,
        ends=True,
        limits=source.limits,
    )
