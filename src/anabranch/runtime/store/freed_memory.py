"""Memory that was freed goes back to the machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa


def give_back_memory() -> None:
    """Give back what allocators keep for later, after a query has ended.

    Every query has a thread of its own, and allocators keep freed memory by thread: without this,
    a process in which queries start and end grew by some hundred megabytes with each of them.
    """
    pa.default_memory_pool().release_unused()
    _trim()(0)


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], object]:
    """The function of the C library that does it; where there is none, one that does nothing."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return lambda _: 0
    return found
