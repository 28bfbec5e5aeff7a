"""The tasks of the file source, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import pyarrow as pa

from anabranch.model.time import BEGINNING
from anabranch.runtime.sources.files.batch_sizing import FIXED, BatchSizing, SizeLimits
from anabranch.runtime.sources.files.earlier_parts import PartPromises
from anabranch.runtime.sources.files.lost_copies import LostCopies
from anabranch.runtime.sources.files.planned_parts import HANDED_IN_FOLDER, SourcePart
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.busy import BusyMark
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder

if TYPE_CHECKING:
    from anabranch.runtime.workers.job import Job


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileJob:
    """What the source has to know.

    Attributes:
        sources: All sources in files of the query; one Spark source reads them together.
        plan_folder: Where planned batches are written down.
        parts: Into how many parts a batch is cut.
        least: The rows for which a part pays.
        job: The sealed query.
        heartbeats: After how many microseconds sources want to be told that time passes.
        control: Where commands come from.
        others: The sources that are not in files.
        inputs: The streams that merges of the query read, besides copies.
        revisions: Where late rows are corrected; None: nowhere.
        sizes: The bounds within which the size of batches adapts.
    """

    sources: tuple[FileSource, ...]
    plan_folder: str
    parts: int
    least: int
    job: bytes
    heartbeats: Mapping[str, int] = field(default_factory=dict)
    control: str | None = None
    others: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = None
    revisions: str | None = None
    sizes: SizeLimits = FIXED

    @property
    def is_limited(self) -> bool:
        """Whether batches have a limit."""
        limits = [source.limits for source in self.sources]
        return any(each.rows is not None or each.files is not None for each in limits)

    def planner(self) -> FilePlanner:
        """The planner, at the end of its log."""
        folder = Folder.at(self.plan_folder)
        control = None
        if self.control is not None:
            control = ControlFolder(Folder.at(self.control), self.inputs)
        return FilePlanner(
            self.sources,
            folder,
            self.parts,
            least=self.least,
            heartbeats=self.heartbeats,
            control=control,
            others=self.others,
            busy=None if self.revisions is None else BusyMark(Folder.at(self.revisions)),
            corrections=f"{self.revisions}/{HANDED_IN_FOLDER}",
            sizing=BatchSizing(self.sizes, self.sources, folder),
        )

    def send(self, part: SourcePart, batch: int, job: Job) -> Iterator[pa.RecordBatch]:
        """Read one part and pack it for the shards of a job, which is that of the batch."""
        # Planning does not need the kernels, which take long to import.
        from anabranch.runtime.workers.copy_task import send_copies
        from anabranch.runtime.workers.source_task import (
            read_handed_in,
            read_pieces,
            send_commands,
            send_source,
            send_time,
        )

        if part.commands:
            return send_commands(job, part.number, part.commands)
        if part.source not in job.plan.sources:
            # A plan that read it was exchanged while the query ran.
            return iter(())
        if part.passed is not None:
            return send_time(job, part.source, part.number, part.passed)
        if part.handed_in:
            log = job.part_log(part.source, part.number, batch)
            return send_source(
                job,
                part.source,
                part.number,
                batch,
                read_handed_in(job, part.source, part.splits, log),
                ends=False,
                in_order=False,
                tells_time=False,
                log=log,
            )
        (source,) = (each for each in self.sources if each.name == part.source)
        if source.copies:
            lost = LostCopies(Folder.at(self.plan_folder))
            return send_copies(job, source, part, batch, lost)
        log = job.part_log(source.name, part.number, batch)
        pieces = read_pieces(source, part.splits, job.columns(source.name), log)
        earlier = BEGINNING
        if source.promise.late != "revise":
            earlier = PartPromises(Folder.at(self.plan_folder)).before(source, part.earlier)
        return send_source(
            job,
            source.name,
            part.number,
            batch,
            pieces,
            ends=part.ends,
            in_order=source.ordered,
            earlier=earlier,
            log=log,
            rewritten=part.rewritten,
        )
