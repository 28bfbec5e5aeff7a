"""What a process of Spark does before it works for us."""

from __future__ import annotations

import gc

from anabranch.kernels.columns.grouped import load_beside
from anabranch.runtime.thresholds import take_thresholds
from anabranch.runtime.workers.without_pandas import spare_pandas

_tasks = 0


def begin_task() -> None:
    """Get this process ready for a task; called when one begins.

    Spark collects the garbage of a worker after every task, and the next one waits for that. What
    a worker has imported are some hundred thousand objects that never go, and to look through them
    took longer than most tasks. They are taken out of what is collected when the second task
    begins, right after such a collection, and again with the 4th, 8th, 16th ..: what has come since
    is there to stay, too. So few objects are ever kept that would have become garbage.
    """
    global _tasks
    _tasks += 1
    if _tasks == 1:
        spare_pandas()
    if _tasks & (_tasks - 1) == 0 and _tasks > 1:
        gc.freeze()
    load_beside()
    take_thresholds()
