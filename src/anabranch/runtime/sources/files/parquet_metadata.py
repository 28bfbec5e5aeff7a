"""Open Parquet files, the footer of each only once in a process."""

from __future__ import annotations

import os
from functools import lru_cache

import pyarrow.parquet as pq


def open_parquet(path: str) -> pq.ParquetFile:
    """A file of a stream, mapped into memory.

    Pieces of a large file are read one by one, and its footer may take longer to read than they.
    A file that was written anew has another size or time.
    """
    return pq.ParquetFile(
        path,
        metadata=parquet_metadata(path),
        memory_map=True,
        # What is mapped need not be fetched by another thread first.
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
    )


def parquet_metadata(path: str) -> pq.FileMetaData:
    """The footer of a file."""
    status = os.stat(path)  # noqa: PTH116 (a replay of few rows asks several times)
    return _footer(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _footer(path: str, size: int, changed: int) -> pq.FileMetaData:  # noqa: ARG001 (the key)
    return pq.read_metadata(path)
