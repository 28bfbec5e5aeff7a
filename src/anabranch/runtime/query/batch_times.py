"""When the last batches were committed, what they took, and how far the output came with them."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Final, final

_LAST: Final = 64
"""The batches that count: older ones tell nothing about the pace of now."""


@final
@dataclass(frozen=True, slots=True)
class BatchTime:
    """One batch: when it was committed, the seconds of work, its rows, and the stable point."""

    at: float
    seconds: float
    rows: int
    stable: int


@final
class BatchTimes:
    """The pace of a query; one thread adds, any thread reads."""

    def __init__(self) -> None:
        """No batch yet."""
        self._lock = threading.Lock()
        self._last: deque[BatchTime] = deque(maxlen=_LAST)

    def add(self, seconds: float, rows: int, stable: int) -> None:
        """Note a batch that has just been committed."""
        with self._lock:
            self._last.append(BatchTime(time.monotonic(), seconds, rows, stable))

    @property
    def pace(self) -> float | None:
        """Chronons that the stable point goes on in a second; None while it has not moved."""
        with self._lock:
            found = list(self._last)
        if len(found) < 2:
            return None
        first, last = found[0], found[-1]
        moved, passed = last.stable - first.stable, last.at - first.at
        # Before the first promise the stable point is that of the beginning of time.
        is_known = first.stable > -(1 << 62)
        return moved / passed if is_known and moved > 0 and passed > 0 else None

    @property
    def rows_per_second(self) -> float | None:
        """How many rows were computed in a second of work; None while there were none."""
        with self._lock:
            found = list(self._last)
        rows, seconds = sum(each.rows for each in found), sum(each.seconds for each in found)
        return rows / seconds if rows and seconds > 0 else None
