"""Tell the queries that write copies what of it is still of interest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from anabranch.errors import AnabranchError
from anabranch.kernels.contract.command import Command
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.files.copies import list_copies
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.control import Control, ControlFolder
from anabranch.runtime.store.folder import Folder

COPIES: Final = "copies"
"""The name of the source that a merge of logs reads."""

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
            stable, since = settled_of(run)
            # A log that is being replaced, or a folder that is away for a moment: try again.
            with suppress(OSError, AnabranchError):
                tell(stable, pattern, sent, since=since, control=run.control)

    thread = threading.Thread(target=watch, name="anabranch-feedback", daemon=True)
    thread.start()

    def close() -> None:
        over.set()
        thread.join()

    return close


def settled_of(run: Run) -> tuple[int, int | None]:
    """How far a merge is settled, and from when on that holds which ends there or later.

    The second is None where it is not known: merges in order remember nothing, and shards may
    have settled differently far.
    """
    last = run.metrics()[-1:]
    reports = [
        report
        for batch in last
        for stage in batch.get("stages", {}).values()
        for report in stage.get("reports", ())
        if "leader" in report
    ]
    stables = {int(report["stable"]) for report in reports}
    starts = [report.get("reach") for report in reports]
    if len(stables) != 1 or None in starts:
        return int(run.stable), None
    return stables.pop(), min(starts)


def tell(
    stable: int,
    pattern: str,
    sent: dict[str, int],
    *,
    since: int | None = None,
    control: Control | None = None,
) -> None:
    """Tell those that are behind, once for every instant.

    Args:
        stable: How far the merge is settled.
        pattern: Where the copies are.
        sent: What each copy has been told.
        since: Nothing of the merged stream that ends there or later starts before this.
        control: The merge, which must not take what a copy leaves out for a contradiction.
    """
    if not BEGINNING < stable < FOREVER:
        return
    known = [] if control is None else control.copies().get(COPIES, ())
    for name, path in list_copies(pattern).items():
        log = LogFolder(str(path))
        home = log.home() if path.is_dir() else None
        if home is None or sent.get(name, BEGINNING) >= stable or log.stable() >= stable:
            continue
        if control is not None:
            if name not in known:
                continue
            control.spare(COPIES, name, int(stable))
        command = Command(verb="feedback", source="", value=int(stable), since=since)
        ControlFolder(Folder.at(f"{home}/control")).put(command)
        sent[name] = int(stable)
