"""A process of the demo: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from anabranch.errors import EngineError

_PATIENCE: Final = 60.0
_SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for a minute gains nothing from compiling thoroughly."""


@final
class DemoProcess:
    """A Python module that runs; a context manager that leaves nothing."""

    def __init__(
        self, module: str, words: Sequence[str], log: Path, *, home: Path | None = None
    ) -> None:
        """Start it; what goes wrong is in the log.

        What it says are lines of JSON. With a `home`, where commands are announced, it is a command
        of `anabranch`, and what it says is in the log as well.
        """
        self.messages: list[dict[str, Any]] = []
        self._log = log
        self._listener: threading.Thread | None = None
        environment = {"SPARK_SUBMIT_OPTS": _SHORT_LIVED, **os.environ}
        if home is not None:
            environment["ANABRANCH_HOME"] = str(home)
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if home is None else errors,
                stderr=errors,
                text=True,
                start_new_session=True,
                env=environment,
            )
        if home is None:
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()

    def check(self) -> None:
        """Complain if it has failed.

        Raises:
            EngineError: It has.
        """
        if self._process.poll() not in (None, 0):
            raise EngineError(
                "a process of the demo failed",
                where=self._log.read_text(errors="replace").strip()[-2000:],
                hint="please report this with the text above",
            )

    def await_end(self) -> None:
        """Wait until it has ended by itself, and all it said is known."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        self.check()
        if self._listener is not None:
            self._listener.join(_PATIENCE)

    def kill(self) -> None:
        """Kill -9, with everything that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_PATIENCE)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, suppress(ValueError):
            for line in lines:
                self.messages.append(json.loads(line))

    def __enter__(self) -> DemoProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
