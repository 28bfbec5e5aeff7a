"""Hand in corrections of a source: find the rows that are meant, and tell the query.

This happens in the process of whoever hands them in, with what the checkpoint and the archive say;
the query may run, in this process or another one, or be started later. What comes of it are
ordinary elements in a file, and a command that makes them rows of the source in the next batch: the
plan of that batch says so before it is read, so it is the same after a crash. Rows of a batch that
is under way cannot be named yet.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.command import FEED, Command
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.revisions.archived_sources import ArchivedSource, ArchivedSources
from anabranch.runtime.revisions.correction_lines import (
    CorrectionLine,
    Corrections,
    UnappliedError,
    correction_line,
    given_corrections,
)
from anabranch.runtime.revisions.resolving import Resolver, starts_of
from anabranch.runtime.revisions.submissions import (
    QuarantinedLine,
    Submission,
    SubmissionFolder,
)
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.phases import reached

REVISIONS: Final = "revisions"
"""The folder in a checkpoint with all that concerns revisions."""

_LOCK: Final = "handed_in.lock"


def hand_in(checkpoint: str, source: str, corrections: Corrections) -> Submission:
    """Correct rows of a source of a query; it takes effect in the next batch.

    Args:
        checkpoint: The folder of the query.
        source: The name of the source, which is declared with LATE REVISE.
        corrections: What is to be corrected.

    Returns:
        What was handed in, with the corrections that are in quarantine.

    Raises:
        PlanError: The query has no such source, or it cannot be corrected.
        StreamError: The corrections or the archive cannot be read.
    """
    revisions = f"{checkpoint}/{REVISIONS}"
    target = ArchivedSources.read(revisions).revised(source)
    given = list(given_corrections(corrections))
    folder = SubmissionFolder(revisions)
    control = ControlFolder(Folder.at(f"{checkpoint}/control"))
    with _alone(revisions):
        _put_missing(folder, control)
        archive = target.open(checkpoint)
        schema, clock = archive.about().payload, target.promise.clock
        parsed = [_parsed(*each, clock) for each in given]
        lines = [each for each in parsed if isinstance(each, CorrectionLine)]
        unfit = [each for each in parsed if isinstance(each, QuarantinedLine)]
        rows = _rows_at(target, archive, schema, folder, starts_of(lines))
        resolver = Resolver(target, schema, rows, archive.oldest())
        refused = [_refusal(resolver, line) for line in lines]
        unfit += [each for each in refused if each is not None]
        found = resolver.corrections
        submission = Submission(
            number=max((each.number for each in folder.read()), default=0) + 1,
            source=source,
            known_at=time.time_ns() // 1000,
            lines=len(given),
            rows=len(found),
            quarantined=tuple(sorted(unfit, key=lambda each: each.line)),
        )
        submission = folder.add(submission, found, clock)
        if submission.waits:
            control.put(Command(verb=FEED, source=source, value=submission.number))
            reached("submission handed in", submission.number)
    return submission


def put_again(revisions: str, control: ControlFolder) -> bool:
    """Hand in what somebody who was killed on the way has noted, but not handed in.

    Returns:
        Whether that is done; somebody else may be handing in something.
    """
    folder = SubmissionFolder(revisions)
    if not any(each.waits for each in folder.read()):
        return True
    try:
        with _alone(revisions, wait=False):
            _put_missing(folder, control)
    except BlockingIOError:
        return False
    return True


def _put_missing(folder: SubmissionFolder, control: ControlFolder) -> None:
    """Put a command for every submission that waits for one; nobody else hands in meanwhile."""
    waiting = {each.number: each.source for each in folder.read() if each.waits}
    if waiting:
        for number in sorted(waiting.keys() - control.values(FEED)):
            control.put(Command(verb=FEED, source=waiting[number], value=number))


def _rows_at(
    target: ArchivedSource,
    archive: Archive,
    schema: pa.Schema,
    folder: SubmissionFolder,
    starts: Sequence[int],
) -> EventBatch:
    """What came of the events that start at some instants, with what was handed in since.

    The newest batch of the archive is asked for first. A query notes the batch of a submission
    before it adds the batch to the archive, so none is missed, and none is counted twice.
    """
    found = [EventBatch.empty(schema)]
    if not starts:
        return found[0]
    wanted = np.array(starts, np.int64)
    upto = archive.index.last_batch()
    for _, piece in archive.pieces((Time(starts[0]), Time(starts[-1] + 1)), upto):
        own = wanted[(wanted >= piece.first) & (wanted < piece.last)]
        if len(own):
            span = Time(int(own[0])), Time(int(own[-1]) + 1)
            found += [_starting(each, own) for each in archive.read_piece(piece, span)]
    for submission in folder.read():
        is_archived = submission.batch is not None and submission.batch <= upto
        if submission.source == target.name and not is_archived:
            found += [_starting(each, wanted) for each in folder.rows(submission, schema)]
    return EventBatch.concat([each.with_stable(BEGINNING) for each in found])


def _starting(rows: EventBatch, starts: np.ndarray) -> EventBatch:
    return rows.where(np.isin(rows.start, starts))


def _parsed(
    number: int, text: str, content: object, clock: Clock
) -> CorrectionLine | QuarantinedLine:
    try:
        return correction_line(number, text, content, clock)
    except UnappliedError as problem:
        return QuarantinedLine(line=number, text=text[:200], reason=str(problem))


def _refusal(resolver: Resolver, line: CorrectionLine) -> QuarantinedLine | None:
    """Why a correction cannot be applied; None if it has been."""
    try:
        resolver.take(line)
    except UnappliedError as problem:
        return QuarantinedLine(line=line.number, text=line.text, reason=str(problem))
    return None


@contextmanager
def _alone(revisions: str, *, wait: bool = True) -> Iterator[None]:
    """Two that hand in at one time follow each other: the second sees what the first has done.

    File systems of other machines have no locks.
    """
    if "://" in revisions:
        yield
        return
    with (Path(revisions) / _LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
