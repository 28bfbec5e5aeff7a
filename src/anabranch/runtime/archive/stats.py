"""How much an archive has, of which times, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStats:
    """How much an archive has.

    Attributes:
        source: The name of the source.
        path: Where it is.
        copied: It holds the rows themselves; else it says where in the source they are.
        batches: How many batches it knows.
        pieces: How many buckets, or pieces of files, these have.
        rows: How many rows are in them.
        first: The least start.
        last: The greatest end.
        oldest: From this instant on it is complete.
        promised: What the source had promised after its last batch.
        bytes: The bytes of its copies, those of corrections included.
        corrections: How many corrections it knows.
        index_files: How many files its index has.
        index_bytes: How many bytes they have.
        keep_age: What is older than that may go, in chronons; None: nothing.
        keep_rows: Of more rows than that the oldest may go; None: none.
    """

    source: str
    path: str
    copied: bool
    batches: int
    pieces: int
    rows: int
    first: Time
    last: Time
    oldest: Time
    promised: Time
    bytes: int
    corrections: int
    index_files: int
    index_bytes: int
    keep_age: int | None
    keep_rows: int | None

    @property
    def index_bytes_per_million_rows(self) -> float:
        """What the index takes for a million rows."""
        return self.index_bytes * 1e6 / max(self.rows, 1)
