"""The index of an archive after a year of one batch per minute, beside its first hour."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.bench.revisions.lab import RevisionLab
from anabranch.model.time import SECOND
from anabranch.runtime.sources.archived.index import LARGEST_SEGMENT_PIECES, ArchiveIndex
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece
from anabranch.runtime.sources.archived.segment import segment_bytes, segment_name, table_of
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit
from anabranch.runtime.store.folder import Folder
from anabranch.workloads.quotes import BEGIN

_MEMORY: Final = "/dev/shm"  # noqa: S108 (mkdtemp makes a folder of its own in it)
_MINUTE: Final = 60 * SECOND
_HOUR: Final = 60
_LEVEL: Final = 5
"""The level of the largest segments: 32 entries, then four times eight segments in one."""


def index_growth(lab: RevisionLab) -> tuple[float, float]:
    """Time to add a batch after a year over that in the first hour; bytes per million rows.

    The time is the median: one batch in 32 also merges a part of the index, which the mean shows.
    """
    # A disk takes ten times as long to create a file as memory does, or twenty times as long when
    # others write to it. That hides what the index does itself.
    root = Path(tempfile.mkdtemp(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else lab.root))
    try:
        return _grown(lab, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _grown(lab: RevisionLab, root: Path) -> tuple[float, float]:
    rows = 60 * lab.quotes.symbols
    year = ArchiveIndex(Folder.at(str(root / "year")))
    done = _fill(year, lab.size.batches, rows)
    first: list[float] = []
    last: list[float] = []
    for hour in range(lab.size.hours):
        fresh = Folder.at(str(root / f"hour-{hour}"))
        first += _hour(ArchiveIndex(fresh), 0, rows)
        last += _hour(year, done + hour * _HOUR, rows)
    sizes = year.sizes()
    batches = done + lab.size.hours * _HOUR
    lab.report.measured(
        "index",
        batches=batches,
        rows_per_batch=rows,
        files=len(sizes),
        bytes=sum(sizes),
        hours=lab.size.hours,
        first_ms=_milliseconds(first),
        last_ms=_milliseconds(last),
    )
    growth = statistics.median(last) / statistics.median(first)
    return growth, sum(sizes) / (batches * rows) * 1e6


def _milliseconds(times: Sequence[float]) -> dict[str, float]:
    told = {
        "median": statistics.median(times),
        "mean": statistics.mean(times),
        "longest": max(times),
    }
    return {name: round(1000 * each, 3) for name, each in told.items()}


def _hour(index: ArchiveIndex, first: int, rows: int) -> list[float]:
    """Seconds to add each batch of an hour.

    By the time of the processor, which does not depend on what else the machine does.
    """
    times = []
    for entry in drawn_entries(first, first + _HOUR, rows):
        began = time.process_time()
        index.add(entry)
        times.append(time.process_time() - began)
    return times


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
