"""A part of a benchmark in a process of its own, and the memory it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from anabranch.errors import EngineError

_LOOK: Final = 0.2


def run_job(module: str, *words: str) -> tuple[Any, list[int]]:
    """What `python -m module words...` says in its last line, and its megabytes all the while.

    Raises:
        EngineError: It has failed.
    """
    with tempfile.TemporaryFile("w+") as talk:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdout=subprocess.PIPE,
            stderr=talk,
            text=True,
            start_new_session=True,
        )
        memory: list[int] = []
        ended = threading.Event()
        watch = threading.Thread(target=watch_memory, args=(process.pid, memory, ended))
        watch.start()
        output, _ = process.communicate()
        ended.set()
        watch.join()
        if process.returncode:
            talk.seek(0)
            raise EngineError(
                f"{module} {' '.join(words)} has failed",
                where=(talk.read().strip().splitlines() or ["without a word"])[-1][:300],
                hint="run the benchmark again; if it fails again, please report it",
            )
    return json.loads(output.splitlines()[-1]), memory or [0]


def watch_memory(leader: int, memory: list[int], ended: threading.Event) -> None:
    """Megabytes of all processes of a session, again and again."""
    while not ended.wait(_LOOK):
        memory.append(sum(_megabytes(process) for process in _session(leader)))


def _session(leader: int) -> Sequence[int]:
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if os.getsid(int(folder.name)) == leader:
                found.append(int(folder.name))
    return found


def _megabytes(process: int) -> int:
    """What a process has for itself, and its share of what it has with others."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        found: dict[str, Any] = dict(line.split(":", 1) for line in lines[1:])
        return int(found["Pss"].split()[0]) // 1024
    return 0
