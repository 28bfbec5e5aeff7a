"""What a worker has imported is not looked through for garbage after every task."""

from __future__ import annotations

import gc
import subprocess
import sys


def test_what_is_there_after_the_first_task_is_frozen_with_the_second() -> None:
    script = """
import gc
from anabranch.runtime.workers.begin_task import begin_task
frozen = []
for _ in range(9):
    begin_task()
    frozen.append(gc.get_freeze_count())
assert frozen[0] == 0 and frozen[1] > 10_000, frozen
assert frozen[2] == frozen[1] and frozen[3] >= frozen[1] and frozen[4:7] == [frozen[3]] * 3, frozen
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_this_process_is_no_worker() -> None:
    assert gc.get_freeze_count() == 0
