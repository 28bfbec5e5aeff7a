"""What this process and all that it has started have computed so far."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def cpu_seconds(process_id: int | None = None) -> float:
    """Seconds of cores: of a process, its descendants, and those of them that have ended.

    Without a number it is this process.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            process = int(folder.name)
            # The name of a program may hold blanks and brackets; what counts stands behind it.
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[process] = int(words[1])
            # Its own time and that of children it has waited for.
            ticks[process] = sum(map(int, words[11:15]))
    own = {os.getpid() if process_id is None else process_id}
    while True:
        more = {process for process, parent in parents.items() if parent in own} - own
        if not more:
            break
        own |= more
    return sum(ticks.get(process, 0) for process in own) / os.sysconf("SC_CLK_TCK")
