"""A job of one engine in a process of its own: time, time of cores, memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, final

from anabranch.bench.checkout import ROOT
from anabranch.bench.cpu_time import cpu_seconds
from anabranch.bench.job_process import watch_memory
from anabranch.bench.peers.contestants import Contestant
from anabranch.bench.peers.visible import visible_after, watched
from anabranch.errors import PlanError
from anabranch.runtime.spark.java import use_java

_GOOD_BYE: Final = 30.0
"""So many seconds a process has to end by itself."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JobTime:
    """What a run took; `p99_seconds`: until 99 % of its answer was in files."""

    seconds: float
    cpu_seconds: float
    p99_seconds: float


@final
@dataclass(frozen=True, slots=True)
class JobProcess:
    """A process that runs jobs, one after the other."""

    process: subprocess.Popen[str]
    talk: IO[str]
    memory: list[int]

    def run(self, job: str, out: Path) -> JobTime:
        """Run a job once.

        Raises:
            PlanError: It cannot.
        """
        before = cpu_seconds(self.process.pid)
        with watched(out) as seen:
            line = self._ask(f"run {job} {out}")
        seconds = float(line["seconds"])
        return JobTime(
            seconds=seconds,
            cpu_seconds=cpu_seconds(self.process.pid) - before,
            p99_seconds=visible_after(seen, 0.99, seconds),
        )

    def answer(self) -> None:
        """Let the answer of the last run be written.

        Raises:
            PlanError: It cannot.
        """
        self._ask("answer")

    def _ask(self, order: str) -> Mapping[str, Any]:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{order}\n")
            self.process.stdin.flush()
        return self.hear()

    def hear(self) -> Mapping[str, Any]:
        """The next line that it says.

        Raises:
            PlanError: It says that something failed, or nothing at all.
        """
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                said: Mapping[str, Any] = json.loads(line)
                if "problem" in said:
                    raise _failed(str(said["problem"]))
                return said
        self.talk.seek(0)
        raise _failed((self.talk.read().strip().splitlines() or ["without a word"])[-1])


def _failed(why: str) -> PlanError:
    return PlanError(
        "a job of a peer has failed",
        where=why[:300],
        hint="remove build/peers to install peers again, or leave it out with --peers",
    )


@contextmanager
def job_process(contestant: Contestant, folder: Path) -> Iterator[JobProcess]:
    """A process that is ready to run jobs over a folder of input.

    Raises:
        PlanError: It does not start.
    """
    use_java()
    ended = threading.Event()
    with tempfile.TemporaryFile("w+") as talk:
        process = subprocess.Popen(
            [
                str(contestant.python()),
                "-m",
                f"tests.bench.peer_jobs.{contestant.module}",
                str(folder),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=talk,
            text=True,
            cwd=ROOT,
            env={**os.environ, **contestant.environment},
            start_new_session=True,
        )
        memory: list[int] = []
        watch = threading.Thread(target=watch_memory, args=(process.pid, memory, ended))
        watch.start()
        with process:
            try:
                made = JobProcess(process, talk, memory)
                made.hear()
                yield made
                assert process.stdin is not None
                with suppress(BrokenPipeError):
                    process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GOOD_BYE)
            finally:
                ended.set()
                watch.join()
                # It leads a session: its Java and its workers go with it.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
