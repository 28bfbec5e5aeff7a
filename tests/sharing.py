"""The rows of all shards, one after the other."""

from __future__ import annotations

import pyarrow as pa

from anabranch.runtime.elements.exchange import split


def of_all_shards(rows: pa.RecordBatch, shards: int) -> list[pa.RecordBatch]:
    """What each shard gets, also those that get nothing."""
    found = dict(split(rows, shards))
    return [found.get(shard, rows.slice(0, 0)) for shard in range(shards)]
