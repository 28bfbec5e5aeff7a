"""The sending side of a source with copies: each is judged by its own promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.kernels.contract.kernel import with_copy
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.kernels.merge.said_again import EQUAL_ELEMENTS
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.messages.heads import CopyReport
from anabranch.runtime.sources.files.lost_copies import LostCopies
from anabranch.runtime.sources.files.planned_parts import SourcePart
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.sources.late import judge
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.repeated_lines import RepeatedLines
from anabranch.runtime.workers.source_task import Arrived, Outbox, SourceCounts, read_pieces


@final
@dataclass(slots=True)
class CopyTally:
    """What was seen of a copy since the last message.

    `reached` is what it has promised with that; a copy that begins again has promised nothing.
    """

    name: str
    reached: Time
    rows: int = 0
    late: int = 0
    adjusted: int = 0
    problem: str | None = None
    restart: bool = False

    def report(self) -> CopyReport:
        """What there is to tell; from now on rows are counted anew."""
        copy_report = CopyReport(
            name=self.name,
            reached=int(self.reached),
            rows=self.rows,
            late=self.late,
            adjusted=self.adjusted,
            restart=self.restart,
            problem=self.problem,
        )
        self.rows = self.late = self.adjusted = 0
        return copy_report


class CopyReader:
    """Reads a part of a source with copies, and keeps count of each of them."""

    def __init__(self, source: FileSource, part: SourcePart, promised: Mapping[int, Time]) -> None:
        """`promised` is what copies had promised before the batch."""
        self._source = source
        self._part = part
        self.tallies: dict[int, CopyTally] = {
            number: CopyTally(
                news.name,
                BEGINNING if news.restart else promised.get(number, BEGINNING),
                problem=news.problem,
                restart=news.restart,
            )
            for number, news in part.copies.items()
        }

    def read(
        self,
        columns: Sequence[str],
        lost: LostCopies,
        *,
        by_start: bool = False,
        counts_equals: bool = False,
    ) -> Iterator[EventBatch]:
        """The rows of one copy after the other, with its number.

        Shards write the files of a batch of a log side by side. With `by_start` its rows are sorted
        by start again: as a batch they are in order, if the stream is. With `counts_equals` equal
        elements are several events, and what a stream file says again has to be left out here.

        One that cannot be read has said what it said until then. It is left out from there on, and
        the plan is told.
        """
        repeated = RepeatedLines(self._source, columns, lost.folder) if counts_equals else None
        for number, splits in groupby(self._part.splits, lambda split: split.copy):
            assert number is not None
            own = list(splits)
            sorts = by_start and any(not split.path for split in own)
            held: list[EventBatch] = []
            for split in own:
                try:
                    pieces = list(read_pieces(self._source, [split], columns))
                except StreamError as problem:
                    problem_text = f"{problem.what}: {problem.where}"
                    self.tallies[number].problem = problem_text
                    lost.add(self._source.name, number, split, problem_text)
                    schema = pa.schema([self._source.schema.field(name) for name in columns])
                    # No rows, but something to tell.
                    yield EventBatch.empty(with_copy(schema))
                    break
                if repeated is not None and split.path:
                    pieces = self._new(number, split, pieces, repeated)
                checked = (self._checked(number, piece) for piece in pieces)
                if not sorts:
                    yield from checked
                    continue
                held += checked
                if not split.path and held:
                    # The stable point ends the batch of the log.
                    yield _sorted(held)
                    held = []
            if held:
                yield _sorted(held)

    def _new(
        self, number: int, split: FileSplit, pieces: list[Arrived], repeated: RepeatedLines
    ) -> list[Arrived]:
        """The pieces of a split, without what the copy says again; that is counted as late."""
        tally = self.tallies[number]
        arrivals = [each for each, _ in pieces]
        found, again = repeated.new(number, split, arrivals, tally.reached)
        tally.rows += again
        tally.late += again
        return [(new, where) for new, (_, where) in zip(found, pieces, strict=True)]

    def _checked(self, number: int, piece: Arrived) -> EventBatch:
        arrivals, where = piece
        tally = self.tallies[number]
        verdict = judge(self._source.promise, tally.reached, arrivals, where=where)
        tally.reached = verdict.promised
        tally.rows += len(arrivals)
        tally.late += verdict.late
        tally.adjusted += verdict.adjusted
        rows = verdict.batch.payload
        numbers = pa.array(np.full(len(verdict.batch), number, np.int32))
        payload = pa.RecordBatch.from_arrays(
            [*rows.columns, numbers], schema=with_copy(rows.schema)
        )
        return verdict.batch.with_payload(payload)


def _sorted(batches: Sequence[EventBatch]) -> EventBatch:
    """One batch in order of start; elements of one start keep theirs."""
    rows = EventBatch.concat(batches)
    if (rows.start[1:] >= rows.start[:-1]).all():
        return rows
    return rows.take(np.argsort(rows.start, kind="stable"))


def merges_of(plan: PhysicalPlan) -> list[MergeKernel]:
    """The merges of a plan."""
    kernels = [kernel for stage in plan.stages for kernel in stage.kernels]
    return [kernel for kernel in kernels if isinstance(kernel, MergeKernel)]


def counts_equals(source: FileSource, merges: Sequence[MergeKernel]) -> bool:
    """Whether equal elements of a copy are several events, now or once the case is weaker."""
    return source.weakens or any(kernel.node.chosen in EQUAL_ELEMENTS for kernel in merges)


def send_copies(
    job: Job, source: FileSource, part: SourcePart, batch: int, lost: LostCopies
) -> Iterator[pa.RecordBatch]:
    """Send one part of a source with copies to all shards that read it."""
    reader = CopyReader(source, part, job.promised_copies(source.name, batch))
    outbox = Outbox(job, source.name, part.number, batch)

    def counts_now() -> SourceCounts:
        copies = {number: tally.report() for number, tally in reader.tallies.items()}
        each = copies.values()
        return SourceCounts(
            Time(max((copy.reached for copy in each), default=int(BEGINNING))),
            rows=sum(copy.rows for copy in each),
            late=sum(copy.late for copy in each),
            adjusted=sum(copy.adjusted for copy in each),
            copies=copies,
        )

    columns, merges = job.columns(source.name), merges_of(job.plan)
    by_start = any(kernel.by_order for kernel in merges)
    equals = counts_equals(source, merges)
    for rows in reader.read(columns, lost, by_start=by_start, counts_equals=equals):
        if outbox.put(rows):
            yield from outbox.flush(counts_now())
    if outbox.has_to_speak:
        yield from outbox.flush(counts_now())
