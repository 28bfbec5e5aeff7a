"""The packed exchange: a parcel of rows per sender and shard, which Spark moves unopened.

What a sender says beside its rows, and rows that all shards get, go to each partition of the next
stages once, whatever the number of shards in it. So a shard without rows costs nothing here.
"""

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
        ("shared", pa.bool_()),
        ("target", pa.int32()),
        ("edge", pa.int32()),
        ("part", pa.int32()),
        ("chunk", pa.int32()),
        ("head", pa.string()),
        ("blob", pa.binary()),
    ]
)
PARCELS_DDL: Final = (
    "shard int, shared boolean, target int, edge int, part int, chunk int, head string, blob binary"
)

PARCEL_BYTES: Final = 480_000
"""More than that travels in several parcels: Java does badly with larger pieces of memory."""

BUNDLE_BYTES: Final = 1 << 16
"""Smaller parcels of one shard travel in one row, up to about so many bytes."""

_PIECES: Final = 1 << 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What one sender has for one shard of one stage, or for all shards of a partition.

    Attributes:
        shard: The shard; it tells the partition that the next exchange brings it to.
        shared: It is for all shards of that partition.
        target: The index of the stage in the plan.
        edge: The edge of that stage through which the rows come.
        part: The number of the sender among those of the edge.
        chunk: The number among the parcels of that sender.
        head: The sender's progress and counts, for all shards; rows travel in other parcels.
        rows: What the stage prepared, or None where there is nothing but the head.
    """

    shard: int
    target: int
    edge: int
    part: int
    shared: bool = False
    chunk: int = 0
    head: Head = CONTINUED
    rows: pa.RecordBatch | None = None


def split(rows: pa.RecordBatch, shards: int) -> list[tuple[int, pa.RecordBatch]]:
    """The rows of each shard that gets some, in the order they had."""
    if shards == 1 or not rows.num_rows:
        return [(0, rows)] if rows.num_rows else []
    shard = shard_of(rows.column(ID).to_numpy(), shards).astype(np.uint16)
    order = np.argsort(shard, kind="stable")
    shard = shard[order]
    starts = np.flatnonzero(np.append(True, shard[1:] != shard[:-1])).tolist()
    ordered = rows.take(pa.array(order))
    return [
        (int(shard[low]), ordered.slice(low, high - low))
        for low, high in pairwise([*starts, len(shard)])
    ]


def announce(
    head: Head, *, target: int, edge: int, part: int, message: int = 0, partitions: int
) -> Iterator[Parcel]:
    """What a sender says in a message through an edge: one parcel for each partition."""
    for partition in range(partitions):
        yield Parcel(
            shard=partition,
            shared=True,
            target=target,
            edge=edge,
            part=part,
            chunk=message * _PIECES,
            head=head,
        )


def address(
    rows: pa.RecordBatch,
    *,
    target: int,
    edge: int,
    part: int,
    message: int = 0,
    shards: int,
    keyed: bool,
    everywhere: bool = False,
    partitions: int = 1,
) -> Iterator[Parcel]:
    """The rows of a message through an edge: one parcel or more for every shard that gets some.

    Rows without a key go where their sender's number says, in one piece. With `everywhere` every
    shard gets them all: they go to each partition once.
    """
    if not rows.num_rows:
        return
    if everywhere:
        parts = [(partition, rows) for partition in range(partitions)]
    elif keyed:
        parts = split(rows, shards)
    else:
        parts = [(part % shards, rows)]
    for shard, piece in parts:
        for number, chunk_rows in enumerate(_pieces(piece)):
            yield Parcel(
                shard=shard,
                shared=everywhere,
                target=target,
                edge=edge,
                part=part,
                chunk=message * _PIECES + number,
                rows=chunk_rows,
            )


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of about a size."""
    count = min(max(1, -(-rows.nbytes // PARCEL_BYTES)), _PIECES - 1)
    each = max(1, -(-rows.num_rows // count))
    for first in range(0, rows.num_rows, each):
        yield rows.slice(first, each)


def pack(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """Parcels as rows for Spark; large ones one by one, so that nothing is copied."""
    waiting: list[_Packed] = []
    size = 0
    # All partitions get the same head, one after the other: it is written once.
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
    names = ("shard", "shared", "target", "edge", "part", "chunk", "head")
    columns = [rows.column(name).to_pylist() for name in names]
    blobs = rows.column("blob")
    return [
        Parcel(
            shard=shard,
            shared=shared,
            target=target,
            edge=edge,
            part=part,
            chunk=chunk,
            head=head_of_text(head),
            rows=from_blob(blobs[index].as_buffer()) if blobs[index].is_valid else None,
        )
        for index, (shard, shared, target, edge, part, chunk, head) in enumerate(zip(*columns))
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
        pa.array([parcel.shared for parcel in parcels], pa.bool_()),
        pa.array([parcel.target for parcel in parcels], pa.int32()),
        pa.array([parcel.edge for parcel in parcels], pa.int32()),
        pa.array([parcel.part for parcel in parcels], pa.int32()),
        pa.array([parcel.chunk for parcel in parcels], pa.int32()),
        pa.array([each.head for each in packed], pa.string()),
        blobs,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PARCELS)
