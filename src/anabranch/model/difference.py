"""Where two streams first differ, without looking at one snapshot after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.tally import KeyCounts, Tally
from anabranch.model.time import FOREVER, Time

_SALTS: Final = (0, 1)


def first_difference(one: Iterable[EventBatch], other: Iterable[EventBatch]) -> Time | None:
    """The first instant at which the snapshots of two streams differ; None if they never do.

    The multiplicity of a payload, as a function of time, changes at the ends of lifetimes only.
    The changes of one stream less those of the other are added up per (payload, instant); what
    does not come to nothing is a difference, and the earliest is the first. Streams with the same
    columns are compared; equal payloads are found by a hash of 128 bits.
    """
    surplus = Tally()
    for left, right in zip_longest(one, other):
        if left is not None:
            surplus.add(_changes(left, 1))
        if right is not None:
            surplus.add(_changes(right, -1))
    left_over = surplus.entries()
    return Time(int(left_over.key[-1].min())) if len(left_over) else None


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SnapshotDifference:
    """Two snapshots, as multisets: what only one of them has, and what both have."""

    only_left: pa.RecordBatch
    only_right: pa.RecordBatch
    both: pa.RecordBatch


def compare_snapshots(left: pa.RecordBatch, right: pa.RecordBatch) -> SnapshotDifference:
    """Take the payloads of two snapshots of one schema apart."""
    gained, lost = _held(left), _withdrawn(_held(right))
    apart = net(EventBatch.concat([gained, lost]))
    only_left = apart.where(apart.new_end > apart.end)
    both = net(EventBatch.concat([gained, _withdrawn(only_left)]))
    return SnapshotDifference(
        only_left=only_left.payload,
        only_right=apart.where(apart.new_end < apart.end).payload,
        both=both.payload,
    )


def conformed(batch: EventBatch, schema: pa.Schema) -> EventBatch:
    """The batch with the columns of another schema; those it lacks are null."""
    if batch.schema == schema or not len(schema):
        return batch
    columns = [
        batch.payload.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return batch.with_payload(pa.RecordBatch.from_arrays(columns, schema=schema))


def _held(rows: pa.RecordBatch) -> EventBatch:
    """The payloads of a snapshot as events of one instant."""
    zero = np.zeros(rows.num_rows, np.int64)
    return EventBatch(rows, zero, zero, zero + 1)


def _withdrawn(events: EventBatch) -> EventBatch:
    return events.with_ends(events.new_end, events.end)


def _changes(batch: EventBatch, sign: int) -> KeyCounts:
    """How multiplicities change: each move adds one from its old end to its new one."""
    moves = batch.where(batch.end != batch.new_end)
    columns = moves.payload.columns
    payload = [stable_hash(columns, len(moves), salt).view(np.int64) for salt in _SALTS]
    instant = np.concatenate([moves.end, moves.new_end])
    count = np.repeat([sign, -sign], len(moves))
    # FOREVER is no instant: what ends there never ends.
    rows = np.flatnonzero(instant < FOREVER)
    key = (*(np.tile(words, 2)[rows] for words in payload), instant[rows])
    return KeyCounts.of(key, count[rows])
