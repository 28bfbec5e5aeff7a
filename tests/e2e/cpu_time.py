"""Time on cores of this process and of all that it has started, Spark among them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Seconds that this process, its descendants, and those of them that have ended were computing.

    Unlike the time on the wall it does not depend on what else a machine does.
    """
    times: dict[int, float] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of the program is in parentheses, and may have any characters.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended in between.
        parents[int(entry.name)] = int(fields[1])
        # User, system, and both of children that were waited for.
        times[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(times.get(pid, 0.0) for pid in own)
