"""More cores, more events: throughput on several masters, cost per event, memory."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from anabranch.bench.report import Report, speed
from anabranch.bench.rows import write_rows
from anabranch.errors import EngineError

KEYS: Final = 1_000
RATE: Final = 50_000
"""Rows per second of the stream's own time, so that windows end all the while."""

MASTERS: Final = ("local[1]", "local[2]", "local-cluster[2,1,1024]")
_LOOK: Final = 0.2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured: files of so many rows each, and how often throughput is."""

    rows_per_file: int
    files: int
    long_files: int
    repeats: int
    masters: tuple[str, ...]


FULL: Final = Size(rows_per_file=1_000_000, files=6, long_files=50, repeats=3, masters=MASTERS)
QUICK: Final = Size(
    rows_per_file=100_000, files=4, long_files=8, repeats=1, masters=("local[1]", "local[2]")
)


def scale(report: Report, *, quick: bool) -> None:
    """A windowed count per key, one file per batch, every run in a process of its own.

    Figures: `local2_over_local1` and `cluster_over_local1` (throughput), `cost_50m_over_1m` (time
    per event at the end of a long stream over that at its beginning), `peak_memory_mb` (all
    processes of the long run together) and `memory_growth` (their memory in the second half over
    that in the first).
    """
    size = QUICK if quick else FULL
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    try:
        _write(root / "rows", size.files, size)
        speeds = {master: _throughput(report, root, master, size) for master in size.masters}
        report.figure("local2_over_local1", speeds["local[2]"] / speeds["local[1]"])
        if MASTERS[2] in speeds:
            report.figure("cluster_over_local1", speeds[MASTERS[2]] / speeds["local[1]"])
        _write(root / "long", size.long_files, size)
        _long(report, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _write(folder: Path, files: int, size: Size) -> None:
    write_rows(folder, files=files, rows_per_file=size.rows_per_file, keys=KEYS, per_second=RATE)


def _throughput(report: Report, root: Path, master: str, size: Size) -> float:
    rates = []
    for repeat in range(size.repeats):
        batches, _ = _run(root / "rows", root / f"{len(master)}-{repeat}", master)
        rates.append(speed(batches))
        report.measured(master, repeat=repeat, rows_per_s=round(rates[-1]), batches=batches)
    report.figure(f"{master}_rows_per_s", statistics.median(rates))
    return statistics.median(rates)


def _long(report: Report, root: Path) -> None:
    batches, memory = _run(root / "long", root / "long-work", "local[2]")
    each = [batch["seconds"] / batch["rows"] for batch in batches]
    part = max(2, len(each) // 5)
    # The first batch warms everyone up.
    begin, end = statistics.median(each[1 : 1 + part]), statistics.median(each[-part:])
    half = len(memory) // 2
    report.measured(
        "long",
        events=sum(batch["rows"] for batch in batches),
        seconds_per_million=[round(seconds * 1e6, 3) for seconds in each],
        memory_mb=memory,
    )
    report.figure("cost_50m_over_1m", end / begin)
    report.figure("peak_memory_mb", max(memory))
    report.figure("memory_growth", max(memory[half:]) / max(memory[:half]))


def _run(rows: Path, work: Path, master: str) -> tuple[list[dict[str, float]], list[int]]:
    """The batches of a run in a process of its own, and what memory it had all the while."""
    words = [sys.executable, "-m", "anabranch.bench.scale_job", str(rows), str(work), master]
    with tempfile.TemporaryFile("w+") as talk:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=talk, text=True, start_new_session=True
        )
        memory: list[int] = []
        ended = threading.Event()
        watch = threading.Thread(target=_watch, args=(process.pid, memory, ended))
        watch.start()
        said, _ = process.communicate()
        ended.set()
        watch.join()
        if process.returncode:
            talk.seek(0)
            raise EngineError(
                f"a run on {master} has failed",
                where=(talk.read().strip().splitlines() or ["without a word"])[-1][:300],
                hint="run the benchmark again; if it fails again, please report it",
            )
    shutil.rmtree(work, ignore_errors=True)
    batches: list[dict[str, float]] = json.loads(said.splitlines()[-1])
    return batches, memory or [0]


def _watch(leader: int, memory: list[int], ended: threading.Event) -> None:
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
