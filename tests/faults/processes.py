"""The processes of a query, and those of a cluster."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from anabranch.runtime.java import use_java

PATIENCE: Final = 240.0
_HERE: Final = Path(__file__).resolve().parents[2]
_OURS: Final = {"ANABRANCH_CAMPAIGN": str(os.getpid())}
"""By this in their environment all processes below us are known, and left alone all others."""


def start(folder: Path, master: str | None) -> subprocess.Popen[bytes]:
    """Start the scenario in a folder; what it says goes into `said`, what its clock says is in
    `clock`.
    """
    words = [sys.executable, "-m", "tests.faults.process", str(folder)]
    with (folder.with_name(f"{folder.name}.said")).open("ab") as said:
        return subprocess.Popen(
            words if master is None else [*words, master],
            stdout=said,
            stderr=said,
            cwd=_HERE,
            env={**os.environ, **_OURS, **_clock(folder), "PYSPARK_PYTHON": sys.executable},
            start_new_session=True,
        )


def can_turn_clocks() -> bool:
    """Whether Debian's libfaketime is there."""
    return _fake_time() is not None


def turn_clock(folder: Path, seconds: int) -> None:
    """From now on the processes of a scenario see another time of day."""
    clock = _clock_file(folder)
    new = clock.with_suffix(".new")
    new.write_text(f"{seconds:+}\n")
    new.rename(clock)


def _clock(folder: Path) -> dict[str, str]:
    library = _fake_time()
    if library is None:
        return {}
    if not _clock_file(folder).exists():
        turn_clock(folder, 0)
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(_clock_file(folder)),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _clock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.clock")


def _fake_time() -> Path | None:
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


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
