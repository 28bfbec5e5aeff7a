"""What is planned for a batch: the driver can read it where all rows come from files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from anabranch.runtime.sources.files.planned_batch import PlannedBatch
from anabranch.runtime.sources.files.planned_parts import (
    SourcePart,
    planned_entries,
    planned_parts,
)
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.file_task import FileJob
from anabranch.runtime.workers.job import Job


@final
@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The plan of all batches of a query.

    Attributes:
        files: Its sources.
        offsets: Spark's log of offsets, which says which entries of the plan a batch has.
    """

    files: FileJob
    offsets: Folder

    def entries(self, batch: int) -> Mapping[int, PlannedBatch]:
        """The entries of a batch, by number; none where Spark's log does not tell."""
        before = 0 if batch == 0 else entry_of(self.offsets.read(str(batch - 1)))
        now = entry_of(self.offsets.read(str(batch)))
        if before is None or now is None:
            return {}
        return planned_entries(Folder.at(self.files.plan_folder), before, now)

    def parts(self, entries: Mapping[int, PlannedBatch]) -> list[SourcePart]:
        """The work of some entries, a part for each task."""
        return planned_parts(entries, self.files.sources)


def batch_plan(job: Job, files: FileJob | None, offsets: str) -> BatchPlan | None:
    """The plan of a query; None where there are rows that the driver cannot find by it.

    Those are copies, of which the planner knows more than it writes down, and DataFrames.
    """
    if files is None:
        return None
    names = {source.name for source in files.sources if not source.copies}
    return BatchPlan(files, Folder.at(offsets)) if set(job.promises) <= names else None


def entry_of(logged: bytes | None) -> int | None:
    """The entry in a file of Spark's log: a version, a line about the batch, one per source."""
    if logged is None:
        return None
    lines = logged.decode(errors="replace").splitlines()
    if len(lines) != 3 or lines[0] != "v1":
        return None
    try:
        offset = json.loads(lines[2])
    except ValueError:
        return None
    entry = offset.get("entry") if isinstance(offset, dict) else None
    return entry if isinstance(entry, int) else None
