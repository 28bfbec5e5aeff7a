"""The lifetimes that a batch is about, as a few stretches."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.model.batch import EventBatch

MOST_LIFETIMES: Final = 64
"""So many lifetimes are told one by one; of more, neighbours are told as one stretch."""


def lifetimes_of(batch: EventBatch, most: int = MOST_LIFETIMES) -> tuple[tuple[int, int], ...]:
    """The lifetimes of the events that a batch inserts or moves, each once, by start.

    Of an end that moves, the later one counts. Results of windows share their lifetimes, so these
    are few, whatever the number of rows. Where there are more than `most`, neighbours become the
    stretch from the least start to the greatest end: stretches may be too long, never too short.
    """
    if not len(batch):
        return ()
    ends = batch.new_end if batch.end is batch.start else np.maximum(batch.end, batch.new_end)
    table = pa.table({"start": batch.start, "end": ends})
    found = table.group_by(["start", "end"], use_threads=False).aggregate([])
    start, end = (found.column(name).to_numpy() for name in ("start", "end"))
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    if len(start) > most:
        cuts = np.linspace(0, len(start), most, endpoint=False).astype(np.int64)
        start, end = start[cuts], np.maximum.reduceat(end, cuts)
    return tuple(zip(start.tolist(), end.tolist()))
