"""Which version of its state each shard of a stage has, where most of them need no new one.

A shard without rows whose memory is not due for anything is left alone: no manifest is read, no
kernel runs, nothing is written. Its state is that of an older batch, and how far time has come
meanwhile is what shard 0 knows, which makes a step in every batch. So somebody has to know which
batch that was. Each task writes it down, for all shards it has, in one small file per batch:

    shard  version  until0  promise  rows0  runs  size
    1      7        60      FOREVER  12     1     2,114    has rested since batch 7
    3      9        BEGINNING                              makes a step in this batch, which is 9
    5      -1       FOREVER FOREVER  0      0     0        has never had any rows

The file is written *before* the first shard of the task makes its step. So whoever repeats a batch
knows which shards an earlier attempt may have written a version for, and lets them make a step
again: after a batch, no file of a shard is left from an attempt that does not count.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.model.time import BEGINNING, FOREVER

NO_VERSION: Final = -1
"""The version of a shard that has never had anything to remember."""

_SEAL: Final = 8


@final
@dataclass(frozen=True, slots=True, eq=False)
class ShardIndex:
    """What is known of some shards, in ascending order, after a batch.

    Attributes:
        shard: Their numbers.
        version: The batch after which each has written its state.
        until: Per shard and kernel the last stable point until which no step is needed.
        promise: How far output is settled at the most meanwhile.
        rows: Per shard and kernel how many rows are remembered.
        runs: In how many runs.
        size: In how many bytes.
    """

    shard: Ints
    version: Ints
    until: Ints
    promise: Ints
    rows: Ints
    runs: Ints
    size: Ints

    @staticmethod
    def busy(shards: Sequence[int], batch: int, kernels: int) -> ShardIndex:
        """Shards that make a step in a batch, and have not said how long they will rest."""
        count = len(shards)
        zeros = np.zeros(count, np.int64)
        return ShardIndex(
            shard=np.asarray(shards, np.int64),
            version=np.full(count, batch),
            until=np.full((count, kernels), BEGINNING),
            promise=np.full(count, FOREVER),
            rows=np.zeros((count, kernels), np.int64),
            runs=zeros,
            size=zeros,
        )

    @staticmethod
    def together(parts: Sequence[ShardIndex]) -> ShardIndex:
        """All shards of several attempts: one that has made a step in any of them counts as that.

        Each attempt lets those make a step that an earlier one let make a step.
        """
        columns = [
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("shard", "version", "until", "promise", "rows", "runs", "size")
        ]
        order = np.lexsort((columns[1], columns[0]))
        shard = columns[0][order]
        last = order[np.append(shard[1:] != shard[:-1], True)]
        return ShardIndex(*(column[last] for column in columns))

    @property
    def kernels(self) -> int:
        """How many kernels remember something."""
        return int(self.until.shape[1])

    def rests(self, stables: Sequence[int]) -> Mask:
        """Which shards need no step when their kernels come to these stable points."""
        wanted = np.array(stables, np.int64)
        return np.asarray(((self.until > BEGINNING) & (wanted <= self.until)).all(axis=1))

    def where(self, keep: Mask) -> ShardIndex:
        """Some of the shards."""
        return ShardIndex(
            self.shard[keep],
            self.version[keep],
            self.until[keep],
            self.promise[keep],
            self.rows[keep],
            self.runs[keep],
            self.size[keep],
        )

    def data(self) -> bytes:
        """As a file: a checksum, then an Arrow file."""
        columns = {"shard": self.shard, "version": self.version, "promise": self.promise}
        columns |= {"runs": self.runs, "size": self.size}
        for kernel in range(self.kernels):
            columns[f"until{kernel}"] = self.until[:, kernel]
            columns[f"rows{kernel}"] = self.rows[:, kernel]
        rows = pa.RecordBatch.from_arrays([pa.array(each) for each in columns.values()], [*columns])
        out = pa.BufferOutputStream()
        with pa.ipc.new_file(out, rows.schema) as writer:
            writer.write_batch(rows)
        content: bytes = out.getvalue().to_pybytes()
        return b"%08x" % zlib.crc32(content) + content

    @staticmethod
    def of_data(data: bytes, where: str) -> ShardIndex:
        """Out of a file.

        Raises:
            EngineError: It is not what was written.
        """
        if data[:_SEAL] != b"%08x" % zlib.crc32(data[_SEAL:]):
            raise EngineError(
                "an index of the state is damaged",
                where=where,
                hint="restore the checkpoint from a copy, or start the query with a new checkpoint",
            )
        rows = pa.ipc.open_file(pa.py_buffer(data).slice(_SEAL)).get_batch(0)
        found = {name: rows.column(name).to_numpy() for name in rows.schema.names}
        kernels = sum(name.startswith("until") for name in found)
        none = np.empty((rows.num_rows, 0), np.int64)
        both = [
            np.column_stack([found[f"{name}{kernel}"] for kernel in range(kernels)])
            if kernels
            else none
            for name in ("until", "rows")
        ]
        return ShardIndex(
            found["shard"],
            found["version"],
            both[0],
            found["promise"],
            both[1],
            found["runs"],
            found["size"],
        )
