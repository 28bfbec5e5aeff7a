"""An engine that says when it starts Spark, since that takes a while."""

from __future__ import annotations

import signal
import threading
from typing import Any, final

import typer

from anabranch.engine import Engine


@final
class ShellEngine(Engine):
    """The engine of a shell; Ctrl-C stays with the shell."""

    @property
    def spark(self) -> Any:
        """The Spark session."""
        if self._spark is not None:
            return self._spark
        typer.echo("starting Spark, once ...", err=True)
        # Spark takes over Ctrl-C, to break off all its jobs. Leaving a view must not do that.
        before = signal.getsignal(signal.SIGINT)
        session = super().spark
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
        return session
