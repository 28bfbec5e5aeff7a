"""The index of an archive after a year of one batch per minute, beside its first hour."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.bench.revisions.lab import RevisionLab
from anabranch.model.clock import MICROSECONDS
from anabranch.model.record import plain
from anabranch.model.time import SECOND
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.sources.archived.about import INDEX
from anabranch.runtime.sources.archived.index import LARGEST_SEGMENT_PIECES, ArchiveIndex
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece
from anabranch.runtime.sources.archived.segment import segment_bytes, segment_name, table_of
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.describe import describe_files
from anabranch.runtime.sources.files.planned_batch import PlannedBase
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit
from anabranch.runtime.sources.files.units import Position
from anabranch.runtime.store.folder import Folder
from anabranch.workloads.quotes import BEGIN

_MEMORY: Final = "/dev/shm"  # noqa: S108 (mkdtemp makes a folder of its own in it)
_MINUTE: Final = 60 * SECOND
_HOUR: Final = 60
_SOURCE: Final = f"source/{INDEX}"
_ARCHIVE: Final = "archive"
_LEVEL: Final = 5
"""The level of the largest segments: 32 entries, then four times eight segments in one."""


def index_growth(lab: RevisionLab) -> tuple[float, float]:
    """Time to plan a batch after a year over that in the first hour; bytes per million rows.

    Planning is all that the driver does about the rows of a batch before and after Spark: it finds
    what came, writes the plan of the batch down, hands out its parts, forgets old plans, and adds
    the batch to the archive of the source. Means count, for one batch in 32 also merges a part of
    the index, and one in 256 more of it.

    It is measured on a disk and in memory, and the worse of both is the figure. What it takes to
    create a file on a disk depends on where the file system has put the folder, and on what was
    removed there of late, by up to five times. So both queries get a new folder every hour, the old
    one with a copy of its files: over the hours either meets good places and bad ones.
    """
    grown: list[tuple[float, float]] = []
    for where, folder in (("disk", str(lab.root)), ("memory", _MEMORY)):
        if os.access(folder, os.W_OK):
            root = Path(tempfile.mkdtemp(dir=folder))
            try:
                grown.append(_grown(lab, root, where))
            finally:
                shutil.rmtree(root, ignore_errors=True)
    return max(grown)


def _grown(lab: RevisionLab, root: Path, where: str) -> tuple[float, float]:
    rows = 60 * lab.quotes.symbols
    year = PlannedYear.begun(root / "year", lab, lab.size.batches)
    first: list[float] = []
    last: list[float] = []
    for hour in range(lab.size.hours):
        # In turn, so that whatever else the machine does is the same for both.
        if hour % 2:
            fresh = PlannedYear.begun(root / f"fresh-{hour}", lab, 0)
            year = year.copied(root / f"old-{hour}", lab)
        else:
            year = year.copied(root / f"old-{hour}", lab)
            fresh = PlannedYear.begun(root / f"fresh-{hour}", lab, 0)
        for _ in range(_HOUR):
            first.append(fresh.minute(rows))
            last.append(year.minute(rows))
    sizes = year.archive.sizes()
    batches = lab.size.batches + lab.size.hours * _HOUR
    growth = statistics.mean(last) / statistics.mean(first)
    lab.report.measured(
        "index",
        where=where,
        batches=batches,
        rows_per_batch=rows,
        files=len(sizes),
        bytes=sum(sizes),
        hours=lab.size.hours,
        first_ms=_milliseconds(first),
        last_ms=_milliseconds(last),
        growth=round(growth, 3),
    )
    return growth, sum(sizes) / (batches * rows) * 1e6


def _milliseconds(times: Sequence[float]) -> dict[str, float]:
    told = {
        "median": statistics.median(times),
        "mean": statistics.mean(times),
        "longest": max(times),
    }
    return {name: round(1000 * each, 3) for name, each in told.items()}


@final
@dataclass(slots=True)
class PlannedYear:
    """A query that reads what another archives, one batch per minute, and archives it itself.

    Attributes:
        source: The index of the archive that it reads.
        archive: The index of its own.
        planner: Plans its batches.
        done: How many batches there were.
    """

    source: ArchiveIndex
    archive: ArchiveIndex
    planner: FilePlanner
    done: int

    @staticmethod
    def begun(folder: Path, lab: RevisionLab, batches: int) -> PlannedYear:
        """A query after so many batches."""
        rows = 60 * lab.quotes.symbols
        for name in (_SOURCE, _ARCHIVE) if batches else ():
            _fill(ArchiveIndex(Folder.at(str(folder / name))), batches, rows)
        return PlannedYear._taken_up(folder, lab, batches)

    def copied(self, folder: Path, lab: RevisionLab) -> PlannedYear:
        """The same query in another folder."""
        for name, index in ((_SOURCE, self.source), (_ARCHIVE, self.archive)):
            shutil.copytree(index.folder.path, folder / name)
        found = PlannedYear._taken_up(folder, lab, self.done)
        # What the process remembers of its index goes with it: it lives on.
        found.archive = replace(self.archive, folder=found.archive.folder)
        return found

    @staticmethod
    def _taken_up(folder: Path, lab: RevisionLab, batches: int) -> PlannedYear:
        """A query whose indexes are there, after so many batches."""
        home = Archive(Folder.at(str(folder / "source")), None)
        home.create("Quote", lab.quotes.rows(0, 1).schema, MICROSECONDS, copied=True)
        source, _ = describe_files(home.folder.path, Declared(name="Quote"))
        plans = Folder.at(str(folder / "plans"))
        if batches:
            at = {"Quote": {home.folder.path: Position(offset=batches)}}
            plans.write_json(f"base-{batches}.json", plain(PlannedBase(after=at)))
        archive = ArchiveIndex(Folder.at(str(folder / _ARCHIVE)))
        return PlannedYear(home.index, archive, FilePlanner([source], plans, 1), batches)

    def minute(self, rows: int) -> float:
        """Seconds to plan the next batch.

        By the time of the processor, which depends less on what else the machine does.
        """
        (entry,) = drawn_entries(self.done, self.done + 1, rows)
        self.source.add(entry)
        began = time.process_time()
        end = self.planner.latest(self.done)
        parts = self.planner.parts(self.done, end)
        self.planner.commit(end)
        self.archive.add(entry)
        spent = time.process_time() - began
        assert parts[0].splits[0].path.endswith(_path(entry.batch)), "another batch was planned"
        self.done = end
        return spent


def _fill(index: ArchiveIndex, batches: int, rows: int) -> int:
    """Add so many batches; what makes up whole segments of the largest size is put there as such.

    That is what merging makes of them, in a hundredth of the time.
    """
    done = 0
    while batches - done >= LARGEST_SEGMENT_PIECES:
        last = done + LARGEST_SEGMENT_PIECES
        table = drawn_segment(done, last, rows)
        index.folder.write(segment_name(_LEVEL, (done, last - 1), table), segment_bytes(table))
        done = last
    for entry in drawn_entries(done, batches, rows):
        index.add(entry)
    return batches


def drawn_segment(first: int, last: int, rows: int) -> pa.Table:
    """What `table_of` makes of `drawn_entries`, column by column."""
    (entry,) = drawn_entries(first, first + 1, rows)
    template = table_of([entry])
    batch = np.arange(first, last)
    at = int(BEGIN) + batch * _MINUTE
    end = at + _MINUTE + batch * 7919 % 1_000_000
    known = {"batch": batch, "first": at, "last": end, "promised": at, "known_at": end + 31 * batch}
    columns = [
        pa.array([_path(each) for each in range(first, last)])
        if name == "path"
        else pa.array(known[name])
        if name in known
        else pa.repeat(template.column(name)[0], len(batch))
        for name in template.column_names
    ]
    return pa.table(columns, schema=template.schema)


def _path(batch: int) -> str:
    return f"/data/exchange/quotes/part-{batch:08}.parquet"


def drawn_entries(first: int, last: int, rows: int) -> Iterator[ArchivedBatch]:
    """The entries of some batches, one per minute."""
    for batch in range(first, last):
        at = int(BEGIN) + batch * _MINUTE
        # Rows come a little out of order, so that bounds are not regular.
        end = at + _MINUTE + batch * 7919 % 1_000_000
        piece = Piece(FileSplit(_path(batch), 0, WHOLE), at, end, rows)
        yield ArchivedBatch(batch=batch, pieces=(piece,), promised=at, known_at=end + 31 * batch)
