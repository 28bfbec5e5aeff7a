"""Wait for a run: with its progress before the eyes, until it ends or somebody presses Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Protocol

from anabranch.display.progress_line import ProgressLine

LOOK: Final = 1.0
"""Seconds between two looks at a run."""

PATIENCE: Final = 60.0
"""Seconds that the batch under way has to end before it is broken off."""

_PAUSE: Final = 0.05


class Stoppable(Protocol):
    """What is needed of a run to stop it between two batches."""

    name: str

    @property
    def is_busy(self) -> bool:
        """Whether a batch is under way."""

    def metrics(self) -> Sequence[Mapping[str, Any]]:
        """What each batch did."""

    def stop(self, *, force: bool = False) -> None:
        """End the query, with `force` also while others read its results."""


def wait_until(run: Stoppable, ended: Callable[[float], bool], progress: Callable[[], str]) -> None:
    """Wait until a run has ended; `ended` waits some seconds for it, and tells.

    Raises:
        KeyboardInterrupt: Somebody has pressed Ctrl-C; the run has stopped after its batch.
    """
    with noted_signals(signal.SIGINT) as noted, ProgressLine() as line:
        while not ended(LOOK):
            if noted:
                break
            line(progress())
    if not noted:
        return
    sys.stderr.write(f"interrupted: {run.name or 'the query'} stops after this batch\n")
    with noted_signals(signal.SIGINT) as hurry:
        stop_after_batch(run, hurry, most=0)
    sys.stderr.write(f"{run.name or 'the query'} has stopped\n")
    raise KeyboardInterrupt


def stop_after_batch(run: Stoppable, hurry: list[int] | None = None, most: int = 1) -> None:
    """Stop a run between two batches; more than `most` signals in `hurry` end the waiting."""
    deadline = time.monotonic() + PATIENCE
    before = _committed(run)
    # A batch that was committed tells even where the next one begins at once.
    while run.is_busy and _committed(run) == before and time.monotonic() < deadline:
        if hurry is not None and len(hurry) > most:
            break
        time.sleep(_PAUSE)
    # Whoever asked for it knows who reads its results.
    run.stop(force=True)


def _committed(run: Stoppable) -> object:
    """The last batch that Spark has reported on, which it does after everything else."""
    reported = [each["batch"] for each in run.metrics()[-2:] if each["milliseconds"]]
    return reported[-1] if reported else None


@contextmanager
def noted_signals(*numbers: signal.Signals) -> Iterator[list[int]]:
    """These signals are collected, not acted on: Spark's own handler would break off its jobs."""
    noted: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {each: signal.getsignal(each) for each in numbers}
    for each, handler in before.items():
        # Whoever starts us with nohup means it.
        if each != signal.SIGHUP or handler is not signal.SIG_IGN:
            signal.signal(each, note)
    try:
        yield noted
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
