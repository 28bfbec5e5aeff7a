"""Corrections that people hand in, as a checkpoint keeps them.

What is handed in at once is a submission. In the folder `revisions/handed_in` it has a record,
`<number>.json`, and the corrections that name existing rows, as elements in `<number>.parquet`.
A command `feed` brings them into a batch of the query; once that is committed the record says
which one it was. Until then they are part of what later submissions refer to, but not yet of the
archive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, final

import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.record import OMITTED, plain, record
from anabranch.runtime.archive.bucket import write_rows
from anabranch.runtime.sources.archived.pieces import hull
from anabranch.runtime.sources.files.planned_parts import HANDED_IN_FOLDER, corrections_file
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit, read_corrections
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.phases import reached

_HINT: Final = "the checkpoint is damaged: restore it, or start with a new one"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedLine:
    """A correction that names no row, or several, or is not one at all.

    Attributes:
        line: Its number in what was handed in, from 1.
        text: What it says, shortened.
        reason: Why it is in quarantine.
    """

    line: int
    text: str
    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What somebody has handed in at once, and what became of it.

    Attributes:
        number: They count up from 1, over all sources of a query.
        source: The name of the source.
        known_at: When it was handed in, in microseconds since 1970.
        lines: How many corrections there were.
        rows: How many inserts and adjusts they come to.
        first: The first instant of the source that they change.
        last: The instant after the last one.
        batch: The batch that brought them into the query; None while they wait for one.
        quarantined: The corrections that cannot be applied.
    """

    number: int
    source: str
    known_at: int
    lines: int
    rows: int
    first: int = 0
    last: int = 0
    batch: int | None = field(default=None, metadata=OMITTED)
    quarantined: tuple[QuarantinedLine, ...] = field(default=(), metadata=OMITTED)

    @property
    def waits(self) -> bool:
        """Whether it has corrections that no batch has brought yet."""
        return self.batch is None and self.rows > 0


@final
@dataclass(frozen=True, slots=True)
class SubmissionFolder:
    """All submissions of a query, whose checkpoint has this folder `revisions`."""

    revisions: str

    @property
    def folder(self) -> Folder:
        """Where they are."""
        return Folder.at(self.revisions).child(HANDED_IN_FOLDER)

    def count(self) -> int:
        """How many files there are: another number where something was handed in since."""
        return len(self.folder.names())

    def read(self) -> list[Submission]:
        """Those that there are, oldest first."""
        stems = [name.removesuffix(".json") for name in self.folder.names()]
        numbers = sorted(int(stem) for stem in stems if stem.isdigit())
        return [each for each in map(self._read, numbers) if each is not None]

    def add(self, submission: Submission, rows: EventBatch, clock: Clock) -> Submission:
        """Keep what was handed in; the record counts, so it comes last."""
        if len(rows):
            name = corrections_file(submission.number)
            write_rows(self.folder, name, rows, known=0, revision=None, clock=clock)
            reached("rows handed in", submission.number)
            first, last = hull(rows)
            submission = replace(submission, first=int(first), last=int(last))
        self._write(submission)
        reached("submission noted", submission.number)
        return submission

    def rows(self, submission: Submission, schema: pa.Schema) -> Iterator[EventBatch]:
        """The corrections of a submission."""
        if submission.rows:
            name = corrections_file(submission.number)
            path = f"{self.revisions}/{HANDED_IN_FOLDER}/{name}"
            for arrivals in read_corrections(FileSplit(path, 0, WHOLE), schema, schema.names):
                yield arrivals.batch

    def committed(self, number: int, batch: int) -> None:
        """Note which batch has brought a submission into the query."""
        submission = self._read(number)
        if submission is not None and submission.batch != batch:
            self._write(replace(submission, batch=batch))

    def _read(self, number: int) -> Submission | None:
        name = f"{number}.json"
        content = self.folder.read_json(name)
        where = f"{self.folder.path}/{name}"
        return None if content is None else record(Submission, content, where=where, hint=_HINT)

    def _write(self, submission: Submission) -> None:
        self.folder.write_json(f"{submission.number}.json", plain(submission))
