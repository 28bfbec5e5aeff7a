"""Elements as JSON lines: the way out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.files.json_encode import joined, row_text
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, TimeArray

BLOCK_ROWS: Final = 65_536
"""Rows are formatted as text in blocks of this many."""

# What ISO timestamps can say; times outside are written as numbers.
_FIRST_YEAR: Final = -62_135_596_800_000_000
_LAST_YEAR: Final = 253_402_300_800_000_000


def write_lines(out: IO[bytes], parts: Iterable[EventBatch | Revision], *, clock: Clock) -> None:
    """Write rows in the order of the batches, each stable point that says more, and revisions."""
    reached = int(BEGINNING)
    for batch in parts:
        if isinstance(batch, Revision):
            out.write(revision_line(batch, clock=clock))
            continue
        for first in range(0, len(batch), BLOCK_ROWS):
            rows = np.arange(first, min(first + BLOCK_ROWS, len(batch)))
            out.write(element_lines(batch.take(rows), clock=clock))
        if batch.stable > reached:
            out.write(stable_line(batch.stable, clock=clock))
            reached = batch.stable


def element_lines(batch: EventBatch, *, clock: Clock = INTEGERS) -> bytes:
    """The rows of a batch as JSON lines, without its stable point.

    Moves of nothing to nothing are left out.
    """
    batch = batch.where((batch.end != batch.start) | (batch.new_end != batch.start))
    if not len(batch):
        return b""
    is_adjust = pa.array(batch.end != batch.start)
    end = np.where(batch.end != batch.start, batch.end, batch.new_end)
    text = joined(
        pc.if_else(is_adjust, '{"adjust": ', '{"insert": '),
        row_text(batch.payload, len(batch)),
        ', "start": ',
        _time_text(batch.start, clock=clock),
        pc.if_else(
            pa.array(end == FOREVER),
            "",
            joined(', "end": ', _time_text(end, clock=clock)),
        ),
        pc.if_else(
            is_adjust,
            joined(', "new_end": ', _time_text(batch.new_end, clock=clock)),
            "",
        ),
        "}\n",
    )
    _, offsets, data = text.buffers()
    assert text.offset == 0
    size = int(np.frombuffer(offsets, np.int32, len(text) + 1)[-1])
    return bytes(data.slice(0, size))


def stable_line(stable: int, *, clock: Clock = INTEGERS) -> bytes:
    r"""A stable point as a JSON line.

    >>> stable_line(12), stable_line(FOREVER)
    (b'{"stable": 12}\n', b'{"stable": "forever"}\n')
    """
    text = _time_text(np.array([stable], np.int64), clock=clock)[0].as_py()
    return f'{{"stable": {text}}}\n'.encode()


def revision_line(revision: Revision, *, clock: Clock = INTEGERS) -> bytes:
    """A revision as one JSON line, with all of its changes."""
    span = np.array([revision.first, revision.last], np.int64)
    first, last = _time_text(span, clock=clock).to_pylist()
    changes = b", ".join(element_lines(revision.changes, clock=clock).splitlines())
    head = f'{{"revise": {revision.number}, "from": {first}, "to": {last}, "changes": ['
    return head.encode() + changes + b"]}\n"


def _time_text(times: TimeArray, *, clock: Clock) -> pa.Array:
    is_forever = times == FOREVER
    times = clock.microseconds(times)
    text = pa.array(times).cast(pa.string())
    if clock.timestamps:
        sayable = (times >= _FIRST_YEAR) & (times < _LAST_YEAR)
        moments = pa.array(np.where(sayable, times, 0)).cast(pa.timestamp("us"))
        iso = pc.replace_substring(moments.cast(pa.string()), " ", "T")
        iso = joined('"', pc.replace_substring_regex(iso, r"\.000000$", ""), '"')
        text = pc.if_else(pa.array(sayable), iso, text)
    return pc.if_else(pa.array(is_forever), '"forever"', text) if is_forever.any() else text
