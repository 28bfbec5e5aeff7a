"""Compiled loops are loaded when they pay, and beside the work where that must not wait."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
from anabranch.kernels.columns import grouped as columns

assert not columns.is_compiled(columns.COMPILE_FROM_ROWS - 1)
assert columns.is_compiled(columns.COMPILE_FROM_ROWS)
columns.load_beside()
# Nobody waits while they are loaded; who has very many rows does.
assert not columns.is_compiled(columns.COMPILE_FROM_ROWS)
assert columns.is_compiled(columns.WAIT_FROM_ROWS)
assert not columns.is_compiled(300)
columns._LOADING.beside.join()
assert columns.is_compiled(columns.COMPILE_FROM_ROWS) and columns.is_compiled(300)
assert columns.is_compiled(1) and not columns.is_compiled(0)
columns.native().group_starts
print("loaded")
"""


def test_a_worker_goes_on_while_loops_are_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("loaded\n", "")
