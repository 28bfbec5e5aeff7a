"""How a process with an engine is told what to do; needs nothing but Python.

The argument is the folder of the input. A line `run JOB FOLDER` on standard input runs a job once;
a JSON line tells the seconds it took. A line `answer` writes what the last run has answered to
files in its folder, if that has not happened by itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Answer = Callable[[], object]
"""Writes the answer of a run."""

Run = Callable[[Path, Path], Answer | None]
"""Runs a job over a folder of input, into another folder."""


def serve(jobs: Mapping[str, Run]) -> None:
    """Do what standard input says until it ends."""
    folder = Path(sys.argv[1])
    answer: Answer | None = None
    _say({"ready": True})
    for line in sys.stdin:
        verb, *words = line.strip().split(" ", 2)
        try:
            if verb == "answer":
                if answer is not None:
                    answer()
                _say({"written": True})
                continue
            job, out = words[0], Path(words[1])
            out.mkdir(parents=True)
            begin = time.perf_counter()
            answer = jobs[job](folder, out)
            _say({"seconds": time.perf_counter() - begin})
        except Exception as problem:  # noqa: BLE001 - whatever fails is what is reported
            # What Java says last is the cause.
            lines = str(problem).strip().splitlines() or [""]
            causes = [line for line in lines if line.startswith("Caused by")]
            _say({"problem": f"{type(problem).__name__}: {(causes[-1:] or lines)[0][:300]}"})


def _say(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
