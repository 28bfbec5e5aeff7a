"""The packed exchange: a parcel of rows per sender and shard, which Spark moves unopened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.routing import shard_of
from anabranch.model.batch import concat_rows
from anabranch.runtime.messages.heads import CONTINUED, Head, head_of_text, head_text

PARCELS: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("target", pa.int32()),
        ("edge", pa.int32()),
        ("part", pa.int32()),
        ("chunk", pa.int32()),
        ("head", pa.string()),
        ("blob", pa.binary()),
    ]
)
PARCELS_DDL: Final = (
    "shard int, target int, edge int, part int, chunk int, head string, blob binary"
)

PARCEL_BYTES: Final = 480_000
"""More than that travels in several parcels: Java does badly with larger pieces of memory."""

BUNDLE_BYTES: Final = 1 << 16
"""Smaller parcels of one shard travel in one row, up to about so many bytes."""

_PIECES: Final = 1 << 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What one sender has for one shard of one stage.

    Attributes:
        shard: The shard, which is also the partition that the next exchange brings it to.
        target: The index of the stage in the plan.
        edge: The edge of that stage through which the rows come.
        part: The number of the sender among those of the edge.
        chunk: The number among the parcels of that sender; the first of a message has the head.
        head: The sender's progress and counts.
        rows: What the stage prepared, or None where there is nothing but the head.
    """

    shard: int
    target: int
    edge: int
    part: int
    chunk: int = 0
    head: Head = CONTINUED
    rows: pa.RecordBatch | None = None


def split(rows: pa.RecordBatch, shards: int) -> list[pa.RecordBatch]:
    """The rows of each shard, in the order they had."""
    if shards == 1:
        return [rows]
    shard = shard_of(rows.column(ID).to_numpy(), shards).astype(np.uint16)
    order = np.argsort(shard, kind="stable")
    cuts = np.searchsorted(shard[order], np.arange(shards + 1))
    ordered = rows.take(pa.array(order))
    return [ordered.slice(low, high - low) for low, high in pairwise(cuts)]


def address(
    rows: pa.RecordBatch,
    head: Head,
    *,
    target: int,
    edge: int,
    part: int,
    message: int = 0,
    shards: int,
    keyed: bool,
    everywhere: bool = False,
) -> Iterator[Parcel]:
    """One parcel or more for every shard of a stage, so that progress reaches all of them.

    `message` numbers what a sender says through one edge.

    Rows without a key go where their sender's number says, in one piece; with `everywhere` every
    shard gets them all.
    """
    if everywhere:
        parts = [rows] * shards
    elif keyed:
        parts = split(rows, shards)
    else:
        none = rows.slice(0, 0)
        parts = [rows if shard == part % shards else none for shard in range(shards)]
    for shard, piece in enumerate(parts):
        for number, chunk_rows in enumerate(_pieces(piece)):
            yield Parcel(
                shard=shard,
                target=target,
                edge=edge,
                part=part,
                chunk=message * _PIECES + number,
                head=CONTINUED if number else head,
                rows=chunk_rows if chunk_rows.num_rows else None,
            )


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of about a size, one of them if there are none."""
    count = min(max(1, -(-rows.nbytes // PARCEL_BYTES)), _PIECES - 1)
    each = max(1, -(-rows.num_rows // count))
    for first in range(0, max(rows.num_rows, 1), each):
        yield rows.slice(first, each)


def pack(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """Parcels as rows for Spark; large ones one by one, so that nothing is copied."""
    waiting: list[_Packed] = []
    size = 0
    # All shards get the same head, one after the other: it is written once.
    written: tuple[Head, str] = (CONTINUED, head_text(CONTINUED))
    for parcel in parcels:
        if parcel.head is not written[0]:
            written = (parcel.head, head_text(parcel.head))
        blob = None if parcel.rows is None else to_blob(parcel.rows)
        packed = _Packed(parcel, written[1], blob)
        if blob is not None and blob.size > BUNDLE_BYTES:
            yield _one(packed, blob)
            continue
        waiting.append(packed)
        size += 0 if blob is None else blob.size
        if size > BUNDLE_BYTES:
            yield _several(waiting)
            waiting, size = [], 0
    if waiting:
        yield _several(waiting)


def unpack(rows: pa.RecordBatch) -> list[Parcel]:
    """The parcels in rows from Spark; their content stays where it is in memory."""
    names = ("shard", "target", "edge", "part", "chunk", "head")
    columns = [rows.column(name).to_pylist() for name in names]
    blobs = rows.column("blob")
    return [
        Parcel(
            shard=shard,
            target=target,
            edge=edge,
            part=part,
            chunk=chunk,
            head=head_of_text(head),
            rows=from_blob(blobs[index].as_buffer()) if blobs[index].is_valid else None,
        )
        for index, (shard, target, edge, part, chunk, head) in enumerate(zip(*columns))
    ]


def by_partition(rows: pa.RecordBatch, width: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Packed parcels by the partition that their shard is in, one of `width`."""
    partitions = rows.column("shard").to_numpy() % width
    found = np.unique(partitions).tolist()
    if len(found) == 1:
        yield found[0], rows
        return
    for partition in found:
        yield partition, rows.filter(pa.array(partitions == partition))


def gather(parcels: Sequence[Parcel], nothing: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
    """All rows, in an order that does not depend on which parcel came first; or nothing."""
    ordered = sorted(
        (parcel for parcel in parcels if parcel.rows is not None),
        key=lambda parcel: (parcel.edge, parcel.part, parcel.chunk),
    )
    return concat_rows([parcel.rows for parcel in ordered]) if ordered else nothing()


def to_blob(rows: pa.RecordBatch) -> pa.Buffer:
    """One batch as an Arrow stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    return out.getvalue()


def from_blob(blob: pa.Buffer) -> pa.RecordBatch:
    """The batch in an Arrow stream, without copying it."""
    return pa.ipc.open_stream(blob).read_next_batch()


@final
@dataclass(frozen=True, slots=True)
class _Packed:
    parcel: Parcel
    head: str
    blob: pa.Buffer | None


def _several(waiting: Sequence[_Packed]) -> pa.RecordBatch:
    blobs = [None if each.blob is None else each.blob.to_pybytes() for each in waiting]
    return _rows(waiting, pa.array(blobs, pa.binary()))


def _one(packed: _Packed, blob: pa.Buffer) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array([0, blob.size], np.int32))
    return _rows([packed], pa.Array.from_buffers(pa.binary(), 1, [None, offsets, blob]))


def _rows(packed: Sequence[_Packed], blobs: pa.Array) -> pa.RecordBatch:
    parcels = [each.parcel for each in packed]
    columns = [
        pa.array([parcel.shard for parcel in parcels], pa.int32()),
        pa.array([parcel.target for parcel in parcels], pa.int32()),
        pa.array([parcel.edge for parcel in parcels], pa.int32()),
        pa.array([parcel.part for parcel in parcels], pa.int32()),
        pa.array([parcel.chunk for parcel in parcels], pa.int32()),
        pa.array([each.head for each in packed], pa.string()),
        blobs,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PARCELS)
