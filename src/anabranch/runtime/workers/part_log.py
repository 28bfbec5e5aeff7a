"""What a task remembers of the rows of its part, for replay."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from anabranch.kernels.plan.late_rows import LateRows, open_bound
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.arrived import ArrivedFolder, ArrivedPart, WithheldFolder
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.sources.archived.pieces import Piece
from anabranch.runtime.sources.event_names import EventNames, Names, moved_in_time
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.store.folder import Folder

Response: TypeAlias = Literal["ignore", "archive", "emit"]
"""What late rows of a source with LATE REVISE lead to."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """What workers of a query have to know to keep its past.

    Attributes:
        folder: The folder `revisions` of the checkpoint.
        copied: The sources whose rows are copied, and the folder of their archive. The rows of the
            others stay where they are, and are referred to.
        response: What late rows of sources with LATE REVISE lead to.
        swaps: Whether corrections change the state of the query, so that it is exchanged.
        lineage: Whether the lifetimes of results are told, for replay by lineage.
    """

    folder: str
    copied: Mapping[str, str] = field(default_factory=dict)
    response: Response = "emit"
    swaps: bool = False
    lineage: bool = False


@final
class PartLog:
    """The past of one part of a source in one batch, while a task reads it."""

    def __init__(
        self, job: PastJob, plan: PhysicalPlan, source: str, part: int, batch: int, promised: Time
    ) -> None:
        """Nothing has been read; `promised` is what the source had promised before the batch."""
        self._job = job
        self._source = source
        self._part = part
        self._batch = batch
        self._promised = promised
        self._bound = open_bound(plan, source, promised)
        self._pieces: list[Piece] = []
        # Buckets are written beside the work on their rows: Arrow needs no interpreter for that.
        self._writer: ThreadPoolExecutor | None = None
        self._written: list[Future[Piece]] = []
        self._withheld: list[EventBatch] = []
        self._moved: list[Names] = []

    @property
    def emits(self) -> bool:
        """Whether late rows lead to revisions of the output."""
        return self._job.response == "emit"

    @property
    def sends(self) -> bool:
        """Whether what late rows change behind their bound goes on with the other rows."""
        return self.emits and not self._job.swaps

    @property
    def _holds(self) -> bool:
        """Whether events that came late are not in the query before its state is exchanged."""
        return self.emits and self._job.swaps

    def held(self) -> Names | None:
        """The events whose moves are put aside in this batch; None where there are none."""
        if not self._holds:
            return None
        return EventNames.held(self._job.folder, self._source).read_held(self._batch)

    def take_in(self, rows: EventBatch) -> None:
        """Note the events that rows in time move, where they may have come late."""
        if self._holds and rows.end is not rows.start:
            names = moved_in_time(rows, self._promised)
            if len(names):
                self._moved.append(names)

    @property
    def is_copied(self) -> bool:
        """Whether the rows go into the archive, because they cannot be read again."""
        return self._source in self._job.copied

    def refer(self, split: FileSplit, arrivals: Arrivals) -> None:
        """Note rows that can be read again from where they are."""
        own = Piece.of(split, [arrivals.batch])
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.split == split:
            first, until = min(last.first, own.first), max(last.last, own.last)
            self._pieces[-1] = Piece(split, first, until, last.rows + own.rows)
        else:
            self._pieces.append(own)

    def copy(self, rows: EventBatch, clock: Clock, *, revised: bool = False) -> None:
        """Write rows into the archive; with `revised` those that are late into a file of their own.

        Late are rows with an end before what the source had promised, as `judge` has it.
        """
        if revised and len(rows):
            late = np.minimum(rows.end, rows.new_end) < np.int64(self._promised)
            if late.any():
                self._write(rows.where(late), clock, late=True)
                rows = rows.where(~late)
                if not len(rows):
                    return
        self._write(rows, clock)

    def _write(self, rows: EventBatch, clock: Clock, *, late: bool = False) -> None:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="anabranch-archive")
        if len(self._written) > 1:
            # One is being written and one waits: no more rows are held in memory for that.
            self._written[-2].result()
        piece = self._writer.submit(
            write_bucket,
            Folder.at(self._job.copied[self._source]),
            rows,
            batch=self._batch,
            part=self._part,
            message=len(self._written),
            clock=clock,
            late=late,
        )
        self._written.append(piece)

    def withhold(self, rows: EventBatch) -> LateRows:
        """Keep rows that are not taken in as they came."""
        self._withheld.append(rows)
        return LateRows(rows, self._bound)

    def close(self, reached: Time) -> None:
        """Write it down, once all copies are there.

        Raises:
            StreamError: A copy cannot be written.
        """
        copies = [each.result() for each in self._written]
        if self._writer is not None:
            self._writer.shutdown()
        withheld = sum(map(len, self._withheld))
        if withheld:
            folder = WithheldFolder.of(self._job.folder, self._source)
            folder.write(self._batch, self._part, EventBatch.concat(self._withheld))
        if self._moved:
            moved = EventNames.moved(self._job.folder, self._source)
            moved.write(self._batch, np.concatenate(self._moved), self._part)
        part = ArrivedPart(
            source=self._source,
            part=self._part,
            pieces=(*self._pieces, *copies),
            promised=int(self._promised),
            bound=int(self._bound) if withheld else int(BEGINNING),
            withheld=withheld,
            reached=int(reached),
        )
        ArrivedFolder.of(self._job.folder).write(self._batch, part)
