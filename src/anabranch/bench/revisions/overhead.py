"""What it costs normal rows that the past is kept: by reference, and copied."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping
from typing import Final, Literal

from anabranch.bench.cpu_time import cpu_seconds
from anabranch.bench.revisions.lab import QUERIES, RevisionLab

Kept = Literal["nothing", "reference", "copy"]
_ALL: Final[tuple[Kept, ...]] = ("nothing", "reference", "copy")


def overhead(lab: RevisionLab) -> Mapping[Kept, float]:
    """The time of a batch of normal rows over that where nothing is kept of them.

    All three take turns, and each is compared with what ran next to it.
    """
    files, rows, repeats = lab.size.overhead
    folder = lab.root / "overhead" / "rows"
    for _ in lab.quotes.write(folder, first=0, count=files * rows, per_file=rows):
        pass
    times: dict[Kept, list[float]] = {kept: [] for kept in _ALL}
    _batches(lab, "copy")  # warm-up
    for repeat in range(repeats):
        # Whoever comes later finds a warmer machine, so the first one changes.
        order = _ALL[repeat % len(_ALL) :] + _ALL[: repeat % len(_ALL)]
        for kept in order:
            before = cpu_seconds()
            batches = _batches(lab, kept)
            times[kept].append(statistics.median(batches))
            lab.report.measured(
                "overhead",
                kept=kept,
                repeat=repeat,
                rows_per_batch=rows,
                batch_s=[round(each, 3) for each in batches],
                cpu_s=round(cpu_seconds() - before, 2),
            )
    shutil.rmtree(lab.root / "overhead", ignore_errors=True)
    return {
        kept: statistics.median(
            own / nothing for own, nothing in zip(each, times["nothing"], strict=True)
        )
        for kept, each in times.items()
    }


def _batches(lab: RevisionLab, kept: Kept) -> list[float]:
    work = lab.root / "overhead" / kept
    shutil.rmtree(work, ignore_errors=True)
    lab.engine.stream(
        lab.root / "overhead" / "rows",
        name="Quote",
        replace=True,
        start="at",
        delay="2 seconds",
        late="drop" if kept == "nothing" else "revise",
        archive=str(work / "archive") if kept == "copy" else None,
        max_files_per_batch=1,
    )
    run = lab.engine.sql(QUERIES["Q1"]).start(
        to=work / "log", checkpoint=work / "checkpoint", available_now=True
    )
    run.await_end()
    found = [
        batch["milliseconds"]["triggerExecution"] / 1000
        for batch in run.metrics()
        if batch["rows_in"] and "triggerExecution" in batch["milliseconds"]
    ]
    # The first batch waits for processes to start.
    return found[1:] or found
