"""The processes of a query, and those of a cluster."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyspark

from anabranch.runtime.spark.java import use_java

PATIENCE: Final = 240.0
_HERE: Final = Path(__file__).resolve().parents[2]
_OURS: Final = {"ANABRANCH_CAMPAIGN": str(os.getpid())}
"""By this in their environment all processes below us are known, and left alone all others."""


def said_by(folder: Path) -> Path:
    """What the processes of a scenario say: not on the disk that may be full."""
    return folder.parent.with_name(f"{folder.name}.said")


def ran_in(folder: Path) -> Path:
    """Where the processes of a scenario note, in a line per batch, what ran it."""
    return folder.parent.with_name(f"{folder.name}.ran")


def start(folder: Path, master: str | None) -> subprocess.Popen[bytes]:
    """Start the scenario in a folder; what it says goes into `said`, what its clock says is in
    `clock`.
    """
    words = [sys.executable, "-m", "tests.faults.process", str(folder)]
    with (said_by(folder)).open("ab") as said:
        return subprocess.Popen(
            words if master is None else [*words, master],
            stdout=said,
            stderr=said,
            cwd=_HERE,
            env={**os.environ, **_OURS, **_clock(folder), "PYSPARK_PYTHON": sys.executable},
            start_new_session=True,
        )


@lru_cache
def clock_library() -> Path | None:
    """A library with a clock that can be turned, where there is a compiler to make it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp(prefix="anabranch-clock-")) / "clock.so"
    source = Path(__file__).with_name("clock.c")
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    atexit.register(shutil.rmtree, library.parent, ignore_errors=True)
    return library


def turn_clock(folder: Path, seconds: int) -> None:
    """From now on the processes of a scenario see another time of day."""
    with _clock_file(folder).open("r+b") as clock:
        clock.write(struct.pack("=q", seconds))


def _clock(folder: Path) -> dict[str, str]:
    library = clock_library()
    if library is None:
        return {}
    clock = _clock_file(folder)
    if not clock.exists():
        clock.write_bytes(bytes(8))
    return {"LD_PRELOAD": str(library), "ANABRANCH_CLOCK": str(clock)}


def _clock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.clock")


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """No warning, no clean-up: Python and Java at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def kill_one(processes: list[int], choose: Callable[[list[int]], int]) -> bool:
    """Kill one of some processes, if there is one."""
    if not processes:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(choose(processes), signal.SIGKILL)
        return True
    return False


def workers() -> list[int]:
    """The Python workers that Spark has started for us."""
    every = _processes()
    daemons = {p for p, (_, command) in every.items() if "pyspark.daemon" in command}
    return [p for p, (parent, _) in every.items() if p in daemons and parent in daemons]


def executors() -> list[int]:
    """The executors of a cluster."""
    return [p for p, (_, c) in _processes().items() if "CoarseGrainedExecutorBackend" in c]


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A standalone cluster of Spark's own: a master and two workers with a core each."""
    use_java()
    port, running = _free_port(), list[subprocess.Popen[bytes]]()
    address = f"spark://127.0.0.1:{port}"
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, **_OURS, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_WORKER_DIR": str(folder), "PYSPARK_PYTHON": sys.executable}

    def run(*words: str) -> None:
        with (folder / "cluster.log").open("ab") as said:
            command = [str(home / "bin" / "spark-class"), *words]
            running.append(
                subprocess.Popen(
                    command, stdout=said, stderr=said, env=environment, start_new_session=True
                )
            )

    ui = ("--webui-port", "0")
    try:
        package = "org.apache.spark.deploy"
        run(f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), *ui)
        for _ in range(2):
            size = ("--cores", "1", "--memory", "2g")
            run(f"{package}.worker.Worker", *size, "--host", "127.0.0.1", *ui, address)
        _await(lambda: _registered(folder) == 2)
        yield address
    finally:
        for process in reversed(running):
            kill_all(process)


def _registered(folder: Path) -> int:
    text = (folder / "cluster.log").read_text(errors="replace")
    return len(re.findall(r"Successfully registered with master", text))


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the cluster does not come up"
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _processes() -> dict[int, tuple[int, str]]:
    """All our processes: parent and command line."""
    found = {}
    ours = "\0".join(f"{name}={value}" for name, value in _OURS.items()).encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if ours not in (folder / "environ").read_bytes():
                    continue
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = (parent, command)
    return found
