"""Merge log folders and stream files that others go on writing, as a query of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import COMPARED
from anabranch.algebra.source import Source
from anabranch.display.option_hints import explained
from anabranch.engine import Engine
from anabranch.errors import StreamError
from anabranch.merging.attendance import watch_attendance
from anabranch.merging.feedback import COPIES, send_feedback
from anabranch.model.clock import MICROSECONDS
from anabranch.model.record import plain, record
from anabranch.runtime.option import FLAG, POSITIVE_DURATION, SECONDS, Option, table_of
from anabranch.runtime.query.run import Run
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.sources.declare.log_properties import relying_on
from anabranch.runtime.sources.files.copies import list_copies
from anabranch.runtime.sources.files.log_records import NOTHING_KNOWN, LogProperties
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.query_record import read_query_record
from anabranch.stream import Stream
from anabranch.targets import PathText, Target
from anabranch.windowed import Span

_LOOK: Final = 0.2
"""Seconds between two looks at a folder in which copies are to appear."""

DETACH_AFTER: Final = "10 minutes"
"""A copy that has stood still for so long while the merge went on is detached, if nobody says else.

Longer than a restart takes, and short enough for the state that the merge keeps meanwhile.
"""

_RELIED_ON: Final = "copies.json"
"""The file in the checkpoint with what the merge relies on."""

MERGE_OPTIONS: Final = table_of(
    Option(name="feedback", kind=FLAG, default=False, nullable=False),
    Option(name="patience", kind=SECONDS, default=600.0, nullable=False),
    Option(name="detach_after", kind=POSITIVE_DURATION, default=DETACH_AFTER),
)


@explained("ab.merge_logs")
def merge_logs(
    engine: Engine,
    pattern: PathText,
    to: Target,
    *,
    case: Case | None = None,
    inserts: str = "first",
    adjusts: str = "lazy",
    lag: Span | None = None,
    divergence: str = "warn",
    compare: int | str = COMPARED,
    checkpoint: PathText | None = None,
    trigger: Span | None = None,
    available_now: bool = False,
    patience: float = 600.0,
    feedback: bool = False,
    detach_after: Span | None = DETACH_AFTER,
) -> Run:
    """Merge whatever a pattern matches, now and later: every match is a copy of one stream.

    Args:
        engine: Runs the query.
        pattern: A folder that holds log folders and stream files, or a pattern such as
            `replicas/*`.
        to: Where the merged stream goes, as for `Stream.start`.
        case: What is taken for granted of every copy, as for `Stream.merge`, like the next five.
        inserts: When an event leaves.
        adjusts: When a changed end leaves.
        lag: How far the output stays behind.
        divergence: What becomes of a copy that contradicts what is settled.
        compare: How many settled events are kept for a comparison with copies that are behind.
        checkpoint: The folder for the checkpoint.
        trigger: The time between two batches.
        available_now: Merge what is there, then end.
        patience: So many seconds the first copy is waited for.
        feedback: Tell copies that are behind what is settled already, so that they can skip it.
            Then their logs are for this merge only: they lack what nobody waits for.
        detach_after: A copy that has not been written to for so long, while the merge went on, is
            detached, so that the merge does not keep what that copy might still contradict. It
            rejoins when it is written to again. None: it stays.

    Raises:
        StreamError: No copy has appeared.
    """
    MERGE_OPTIONS["feedback"].checked(feedback, where="merge_logs(...)")
    MERGE_OPTIONS["patience"].checked(patience, where="merge_logs(...)")
    MERGE_OPTIONS["detach_after"].checked(detach_after, where="merge_logs(...)")
    await_copy(pattern, patience)
    home = checkpoint if checkpoint is not None else choose_sink(to, None)[1]
    copies = engine.stream(str(pattern), name=COPIES, copies=True, replace=True)
    # What a user says of the copies is checked, and then nothing else is relied on.
    copies = _relying(copies, NOTHING_KNOWN) if case is not None else _as_before(copies, home)
    merged = copies.merge(
        case=case,
        inserts=inserts,
        adjusts=adjusts,
        lag=lag,
        divergence=divergence,
        compare=compare,
    )
    options: dict[str, Any] = {"checkpoint": checkpoint, "trigger": trigger}
    run = merged.start(to, available_now=available_now, **options)
    if feedback:
        merged.host.closing.append(send_feedback(run, str(pattern)))
    if detach_after is not None and not available_now:
        after = MICROSECONDS.duration(detach_after) / 1e6
        merged.host.closing.append(watch_attendance(run, str(pattern), COPIES, after))
    return run


def _as_before(copies: Stream, checkpoint: PathText | None) -> Stream:
    """The copies, with what the merge has relied on since it began.

    Which copies are there when a merge is started again must not change its plan. When one comes
    that promises less, the merge goes over to a weaker case, by the same plan.
    """
    source = copies.sources[COPIES]
    if checkpoint is None:
        return _relying(copies, source.relied_on or NOTHING_KNOWN)
    folder = Folder.at(str(checkpoint))
    content = folder.read_json(_RELIED_ON)
    if content is None and read_query_record(str(checkpoint)) is None:
        content = plain(source.relied_on or NOTHING_KNOWN)
        folder.write_json(_RELIED_ON, content)
    hint = "restore the checkpoint from a copy, or start the merge with a new checkpoint"
    where = f"{checkpoint}/{_RELIED_ON}"
    # A merge that began before this was written down relied on nothing.
    known = NOTHING_KNOWN
    if content is not None:
        known = record(LogProperties, content, where=where, hint=hint)
    return _relying(copies, known)


def _relying(copies: Stream, known: LogProperties) -> Stream:
    leaf = copies.node
    assert isinstance(leaf, Source)
    source, leaf = relying_on(copies.sources[COPIES], leaf, known)
    relies = known != NOTHING_KNOWN
    source = replace(source, relied_on=known if relies else None, weakens=relies)
    return replace(copies, node=leaf, sources={COPIES: source})


def await_copy(pattern: PathText, patience: float) -> None:
    """Wait until there is something to find out the columns from."""
    deadline = time.monotonic() + patience
    while not list_copies(str(pattern)):
        if time.monotonic() > deadline:
            raise StreamError(
                f"no copy of the stream has appeared in {patience:g} seconds",
                where=str(pattern),
                hint="start the queries that write the copies, or correct the pattern",
            )
        time.sleep(_LOOK)
