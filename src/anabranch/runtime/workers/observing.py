"""Measure operators while they work: a few counts and a look at the clock for each of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.kernel import Arrived, Trace
from anabranch.model.batch import EventBatch
from anabranch.model.numbers.distinct_values import Words, distinct_values, sample_positions
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import FOREVER
from anabranch.runtime.elements.exchange import Parcel
from anabranch.runtime.messages.heads import SourceHead, StageHead
from anabranch.runtime.messages.measured import (
    EdgeCounters,
    OperatorCounters,
    SourceSample,
    together,
)


class Observer:
    """Is told of the rows that each operator of a chain hands on, one after the other."""

    __slots__ = ("_last", "steps")

    def __init__(self) -> None:
        """The first operator begins now."""
        self.steps: list[OperatorCounters] = []
        self._last = time.perf_counter()

    def __call__(self, batch: EventBatch, trace: Trace | None = None) -> None:
        """The next operator is done, and remembers this."""
        now = time.perf_counter()
        held = 0 if trace is None else trace.rows()
        self.steps.append(OperatorCounters(len(batch), round(now - self._last, 6), held))
        self._last = now


def keys_in(arrived: Arrived) -> float:
    """How many different keys there are on the side of a stage that has most of them."""
    found = 0.0
    for side in arrived:
        if side.num_rows:
            ids = side.column(ID).to_numpy()
            found = max(found, distinct_values(ids[sample_positions(len(ids))]))
    return found


def edges_of(parcels: Iterable[Parcel], edges: int) -> tuple[EdgeCounters, ...]:
    """What came through the edges of a stage; every shard hears of every message."""
    found = [EdgeCounters()] * edges
    for parcel in parcels:
        head = parcel.head
        if isinstance(head, SourceHead | StageHead) and head.sent is not None:
            found[parcel.edge] = found[parcel.edge].plus(head.sent)
    return tuple(found)


def samples_of(parcels: Iterable[Parcel]) -> dict[str, SourceSample]:
    """What the rows of the sources are like that are counted at a stage."""
    found: dict[str, SourceSample] = {}
    for parcel in parcels:
        head = parcel.head
        if not isinstance(head, SourceHead) or head.sample is None:
            continue
        if head.counted_at == (parcel.target, parcel.edge):
            every = together([found.get(head.source), head.sample])
            assert every is not None
            found[head.source] = every
    return found


def sample_of(rows: EventBatch, columns: Sequence[str], *, points: bool) -> SourceSample | None:
    """What some rows of a source are like; None where no event begins."""
    starts, ends = rows.start, rows.new_end
    begins = rows.end == starts
    if not begins.all():
        starts, ends = starts[begins], ends[begins]
    if not len(starts):
        return None
    lifetimes, finite = float(len(starts)), len(starts)
    if not points:
        has_end = ends < FOREVER
        finite = int(np.count_nonzero(has_end))
        lifetimes = float((ends - starts)[has_end].sum(dtype=np.float64))
    positions = pa.array(sample_positions(len(rows)))
    return SourceSample(
        rows=len(starts),
        first=int(starts.min()),
        last=int(starts.max()),
        lifetimes=lifetimes,
        finite=finite,
        values={
            name: distinct_values(_hashes(rows.payload.column(name).take(positions)))
            for name in columns
            if name in rows.payload.schema.names
        },
    )


def _hashes(column: pa.Array) -> Words:
    return stable_hash([column], len(column))
