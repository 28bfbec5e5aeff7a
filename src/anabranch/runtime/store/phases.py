"""The steps of a batch, by name, so that a test can stop a process in the middle of one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

HALT: Final = "ANABRANCH_HALT"
"""Environment variable: `<phase>@<batch>=<file>`. Whoever gets there creates the file and waits.

`any` stands for every batch.
"""

PHASES: Final = (
    "planned",
    "read",
    "runs written",
    "manifest written",
    "part written",
    "collected",
    "committed",
)

REVISING: Final = (
    "revision received",
    "revision planned",
    "revision state written",
    "revision noted",
    "revision computed",
    "revision handed in",
    "revision committed",
)
"""Steps of a correction, which has a number in place of a batch; two of them exchange state."""

FORGETTING: Final = "revision state going"
"""A step of the removal of a state that was exchanged, by the serial number of the exchange."""

HANDING_IN: Final = ("rows handed in", "submission noted", "submission handed in")
"""Steps of whoever hands in corrections, by the number of the submission."""

MIGRATING: Final = (
    "migration planned",
    "migration seeded",
    "migration switched",
    "migration finished",
)
"""Steps of a change of the plan, at the beginning of a batch."""

STARTING: Final = ("state rewritten", "written down")
"""Steps before the first batch of a run, when the number of shards changes."""


def reached(phase: str, batch: int) -> None:
    """Note that a step is done; nothing happens unless the environment says so."""
    wanted = os.environ.get(HALT)
    if not wanted:
        return
    point, _, file = wanted.partition("=")
    if point in (f"{phase}@{batch}", f"{phase}@any") and not Path(file).exists():
        Path(file).touch()
        parent = os.getppid()
        while os.getppid() == parent:
            time.sleep(0.01)
        # Whoever started this process is dead, and so is the batch.
        os._exit(1)
