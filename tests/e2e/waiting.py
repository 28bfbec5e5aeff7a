"""Wait for what happens in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Return once it holds; fail if that takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.02)
