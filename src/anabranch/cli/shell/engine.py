"""An engine that says when it starts Spark, and keeps it quiet."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, final

import typer

from anabranch.engine import Engine

_OUTPUTS: Final = (1, 2)


@final
class ShellEngine(Engine):
    """The engine of a shell.

    Attributes:
        log: Where Spark writes what it has to say; None: to standard output and error. On a
            terminal that would break into views and prompts.
    """

    log: Path | None = None

    def _start_spark(self) -> Any:
        about = "" if self.log is None else f" (its messages go to {self.log})"
        typer.echo(f"starting Spark{about} ...", err=True)
        with _kept_interrupts(), _outputs_to(self.log):
            return super()._start_spark()


@contextmanager
def _kept_interrupts() -> Iterator[None]:
    """Spark takes over Ctrl-C, to break off all its jobs; leaving a view must not do that."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _outputs_to(log: Path | None) -> Iterator[None]:
    """Processes that are started meanwhile, and those that they start, write to a file."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    own = [os.dup(each) for each in _OUTPUTS]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for each in _OUTPUTS:
            os.dup2(file, each)
        yield
    finally:
        for each, saved in zip(_OUTPUTS, own):
            os.dup2(saved, each)
            os.close(saved)
        os.close(file)
