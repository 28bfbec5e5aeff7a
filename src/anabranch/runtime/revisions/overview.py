"""The corrections of a query for people: when they came, what they need, what they changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.elements import time_json
from anabranch.model.record import OMITTED
from anabranch.model.time import BEGINNING
from anabranch.runtime.revisions.archived_sources import ArchivedSources
from anabranch.runtime.revisions.handing_in import REVISIONS
from anabranch.runtime.revisions.records import CorrectionFolder, CorrectionRecord
from anabranch.runtime.revisions.submissions import QuarantinedLine, Submission, SubmissionFolder
from anabranch.runtime.store.folder import Folder


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedOutput:
    """What a correction changed in an output: the numbers of its revisions, and their changes."""

    revisions: tuple[int, ...]
    rows: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateNote:
    """An answer before and after a correction: estimate, and between which bounds it surely is.

    Attributes:
        group: The values of its group.
        start: From which instant on it holds.
        end: Until when.
        before: Without the correction: estimate, least and greatest value; None: there is none.
        after: With the correction.
    """

    group: tuple[object, ...]
    start: object
    end: object
    before: tuple[float, float, float] | None
    after: tuple[float, float, float] | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionNote:
    """A correction, as `anabranch revisions` tells of it.

    Instants are numbers or ISO timestamps, as the source has them, and None before all times.

    Attributes:
        id: The number of its record; None where nothing was settled that it changes, or it is a
            line in quarantine.
        handed_in: The numbers under which its rows were handed in; none where they came late.
        source: The name of the source.
        received: When it became known, in UTC.
        rows: How many rows it has.
        span: The instants of the source that it changes.
        batch: The batch that brought it; None while it waits for one.
        state: `received`, `planned`, `computed`, `committed`, `ignored`, `archived`, `quarantined`;
            `estimated`; `direct` where nothing was settled that it changes.
        strategy: How the input to be replayed was found.
        needed: Per source, the instants of input that were replayed.
        replayed: How many rows of input that were.
        changed: Per output, what changed.
        seconds: How long the replay took.
        reason: Why it is in quarantine, or was estimated.
        estimated: How many answers were estimated, because the input to be replayed is gone.
        error: By how much the estimates are off at most.
        estimates: Those answers; of very many the ones with the widest bounds.
        line: The line that is in quarantine.
        text: What it says.
    """

    id: int | None
    handed_in: tuple[int, ...]
    source: str
    received: str
    rows: int
    span: tuple[object, object]
    batch: int | None
    state: str
    strategy: str = ""
    needed: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    replayed: int = 0
    changed: tuple[ChangedOutput, ...] = ()
    seconds: float = 0.0
    reason: str = field(default="", metadata=OMITTED)
    estimated: int = field(default=0, metadata=OMITTED)
    error: float = field(default=0.0, metadata=OMITTED)
    estimates: tuple[EstimateNote, ...] = field(default=(), metadata=OMITTED)
    line: int | None = field(default=None, metadata=OMITTED)
    text: str = field(default="", metadata=OMITTED)


def correction_notes(checkpoint: str) -> list[CorrectionNote]:
    """All corrections of a query, oldest first.

    Raises:
        PlanError: The query does not keep its past.
    """
    revisions = f"{checkpoint}/{REVISIONS}"
    sources = ArchivedSources.read(revisions).sources
    clocks = {name: each.promise.clock for name, each in sources.items()}
    submissions = SubmissionFolder(revisions).read()
    records = CorrectionFolder(Folder.at(revisions)).read()
    known = {(each.source, each.batch) for each in records}
    found: list[tuple[int, CorrectionNote]] = []
    for each in records:
        own = [s for s in submissions if (s.source, s.batch) == (each.source, each.batch)]
        found.append((each.known_at, _of_record(each, own, clocks)))
    for handed_in in submissions:
        clock = clocks.get(handed_in.source, INTEGERS)
        if handed_in.rows and (handed_in.source, handed_in.batch) not in known:
            found.append((handed_in.known_at, _of_submission(handed_in, clock)))
        found += [(handed_in.known_at, _of_line(handed_in, line)) for line in handed_in.quarantined]
    return [note for _, note in sorted(found, key=lambda each: each[0])]


def _of_record(
    record: CorrectionRecord, handed_in: Iterable[Submission], clocks: Mapping[str, Clock]
) -> CorrectionNote:
    clock = clocks.get(record.source, INTEGERS)
    steps = record.emissions
    spans: dict[str, list[tuple[int, int]]] = {}
    for step in steps:
        for name, span in step.inputs.items():
            spans.setdefault(name, []).append(span)
    outputs = [len(step.numbers) for step in steps]
    return CorrectionNote(
        id=record.id,
        handed_in=tuple(each.number for each in handed_in),
        source=record.source,
        received=_when(record.known_at),
        rows=record.rows,
        span=_span([(record.first, record.last)], clock),
        batch=record.batch,
        state=record.status,
        strategy=", ".join(dict.fromkeys(step.strategy for step in steps)),
        needed={n: _span(each, clocks.get(n, INTEGERS)) for n, each in spans.items()},
        replayed=sum(step.replayed for step in steps),
        changed=tuple(
            ChangedOutput(
                revisions=tuple(step.numbers[n] for step in steps if step.numbers[n]),
                rows=sum(step.rows[n] for step in steps),
            )
            for n in range(max(outputs, default=0))
        ),
        seconds=round(sum(step.seconds for step in steps), 4),
        reason=record.reason,
        estimated=record.estimated,
        error=record.error,
        estimates=tuple(
            EstimateNote(
                group=each.group,
                start=_time(each.start, clock),
                end=_time(each.end, clock),
                before=each.before,
                after=each.after,
            )
            for each in record.estimates
        ),
    )


def _of_submission(submission: Submission, clock: Clock) -> CorrectionNote:
    return CorrectionNote(
        id=None,
        handed_in=(submission.number,),
        source=submission.source,
        received=_when(submission.known_at),
        rows=submission.rows,
        span=_span([(submission.first, submission.last)], clock),
        batch=submission.batch,
        state="received" if submission.waits else "direct",
    )


def _of_line(submission: Submission, line: QuarantinedLine) -> CorrectionNote:
    return CorrectionNote(
        id=None,
        handed_in=(submission.number,),
        source=submission.source,
        received=_when(submission.known_at),
        rows=0,
        span=(None, None),
        batch=None,
        state="quarantined",
        reason=line.reason,
        line=line.line,
        text=line.text,
    )


def _span(spans: Sequence[tuple[int, int]], clock: Clock) -> tuple[object, object]:
    """The hull of some spans; those without an instant do not count."""
    there = [span for span in spans if span[0] < span[1]]
    if not there:
        return (None, None)
    ends = min(first for first, _ in there), max(last for _, last in there)
    return _time(ends[0], clock), _time(ends[1], clock)


def _time(time: int, clock: Clock) -> int | str | None:
    return None if time == BEGINNING else time_json(time, clock=clock)


def _when(microseconds: int) -> str:
    return MICROSECONDS.format(microseconds)
