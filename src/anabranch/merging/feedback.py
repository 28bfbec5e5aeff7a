"""Tell the queries that write copies what of it is still of interest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from anabranch.engine import Run
from anabranch.kernels.contract.command import Command
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.sources.files.copies import list_copies
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder

PAUSE: Final = 1.0
"""Seconds between two messages."""


def send_feedback(run: Run, pattern: str, pause: float = PAUSE) -> Callable[[], None]:
    """Send the stable point of a merge to all copies that are behind it, as it moves on.

    A copy learns of it through the control stream of its query, wherever that runs.

    Returns:
        What ends it.
    """
    over = threading.Event()
    sent: dict[str, int] = {}

    def watch() -> None:
        while not over.wait(pause):
            tell(run.stable, pattern, sent)

    thread = threading.Thread(target=watch, name="anabranch-feedback", daemon=True)
    thread.start()

    def close() -> None:
        over.set()
        thread.join()

    return close


def tell(stable: int, pattern: str, sent: dict[str, int]) -> None:
    """Tell those that are behind, once for every instant; `told` is what each has heard."""
    if not BEGINNING < stable < FOREVER:
        return
    for name, path in list_copies(pattern).items():
        log = LogFolder(str(path))
        home = log.home() if path.is_dir() else None
        if home is None or sent.get(name, BEGINNING) >= stable or log.stable() >= stable:
            continue
        command = Command(verb="feedback", source="", value=int(stable))
        ControlFolder(Folder.at(f"{home}/control")).put(command)
        sent[name] = int(stable)
