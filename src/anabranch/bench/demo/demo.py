"""The main job end to end: late and corrected bids, a query that is killed, a checked answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from anabranch.bench.demo.answer import compare, right_answer
from anabranch.bench.demo.correction import run_correction
from anabranch.bench.demo.replicas import run_replicas
from anabranch.errors import EngineError
from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import read_batches, write_stream
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, Duration, format_time
from anabranch.workloads.arrival import Disturbance, bid_elements
from anabranch.workloads.nexmark import Nexmark

BIDS: Final = Nexmark(bids=24_000, rate=50.0, seed=2026)
ON_THEIR_WAY: Final = Disturbance(
    disorder=Duration(5_000_000), late=0.005, corrections=0.05, stable_every=500
)
FILES: Final = 12
PATIENCE: Final = 120.0


@final
@dataclass(frozen=True, slots=True)
class GeneratedBids:
    """What was generated: the legal part of the stream, and what is in it."""

    legal: tuple[EventBatch, ...]
    bids: int
    corrections: int
    late: int


def run_demo(folder: Path | None = None) -> None:
    """Generate, run, kill, run again, compare; say what happens in words.

    Raises:
        EngineError: The answer is not the one that the meaning of the query demands.
    """
    console = Console(highlight=False)
    root = folder or Path(tempfile.mkdtemp(prefix="anabranch-demo-"))
    began = time.monotonic()
    console.print(
        "\n[bold]Anabranch demo[/]: the highest bid per item over the last minute, every 10 "
        "seconds,\nover a stream of bids that arrive out of order, late and corrected.\n"
    )
    feed = _generate(root)
    console.print(
        f"[bold]1.[/] {feed.bids:,} bids are on their way, up to 5 seconds out of order.\n"
        f"   {feed.corrections:,} corrections follow; {feed.late:,} bids come so late that the "
        "stream\n   has already promised that nothing more would come.\n"
    )
    console.print("[bold]2.[/] The query runs on Spark, in a process of its own.")
    half = FILES // 2
    before = _run_query(root, console, stop_after=half)
    console.print(
        f"   After batch {half} its process was killed (kill -9): no warning, no clean-up.\n"
    )
    console.print("[bold]3.[/] It is started again, from its checkpoint.")
    after = _run_query(root, console, stop_after=None)
    late = sum(batch["late"] for batch in {b["batch"]: b for b in before + after}.values())
    console.print(
        f"   It resumed with batch {after[0]['batch'] + 1} and reached the end.\n"
        f"   {late:,} late bids were dropped, and counted.\n"
    )
    console.print("[bold]4.[/] Every snapshot is compared with an independent computation.")
    answer = tuple(read_batches(root / "highest.jsonl"))
    instants = compare(right_answer(feed.legal), answer)
    elements = sum(map(len, answer))
    console.print(
        f"   {instants:,} instants at which the answer changes: all equal. The output log has\n"
        f"   {elements:,} elements, none lost and none doubled by the kill.\n"
    )
    _show(console, answer)
    seconds = time.monotonic() - began
    console.print(f"[bold green]The demo's answer is right.[/] It took {seconds:.0f} seconds.")
    console.print(f"Look at the files: anabranch show {root / 'highest.jsonl'}\n")
    run_replicas(root, console)
    run_correction(root, console)


def _generate(root: Path) -> GeneratedBids:
    batches = list(bid_elements(BIDS, ON_THEIR_WAY))
    (root / "bids").mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(_cut(batches, FILES)):
        write_stream(root / "bids" / f"bids-{number:03}.jsonl", part, timestamps=True)
    legal, late, stable = [], 0, int(BEGINNING)
    for batch in batches:
        in_time = np.minimum(batch.end, batch.new_end) >= stable
        late += int(np.count_nonzero(~in_time))
        legal.append(batch.where(in_time))
        stable = max(stable, batch.stable)
    moves = sum(map(len, batches))
    return GeneratedBids(tuple(legal), BIDS.bids, moves - BIDS.bids, late)


def _cut(batches: Sequence[EventBatch], parts: int) -> Iterator[Sequence[EventBatch]]:
    edges = np.linspace(0, len(batches), parts + 1).astype(int)
    for low, high in pairwise(edges):
        yield batches[low:high]


def _run_query(root: Path, console: Console, stop_after: int | None) -> list[dict[str, Any]]:
    """Run the query's process and watch its batches; kill it after so many, if asked to."""
    errors = root / "query.log"
    command = [sys.executable, "-m", "anabranch.bench.demo.query", str(root)]
    batches: list[dict[str, Any]] = []
    with errors.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    assert process.stdout is not None
    columns = (TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
            task = bar.add_task("starting Spark", total=FILES)
            for line in process.stdout:
                message = json.loads(line)
                if "batch" not in message:
                    bar.update(task, description="batches")
                    continue
                batches.append(message)
                bar.update(
                    task,
                    completed=message["batch"] + 1,
                    description="batches, stable "
                    + format_time(message["stable"], timestamps=True),
                )
                if not console.is_terminal and message["batch"] % 4 == 3:
                    console.print(f"   batch {message['batch'] + 1} of {FILES} is done")
                if len(batches) == stop_after:
                    break
        done = stop_after is not None and len(batches) >= stop_after
        failed = not done and process.wait(PATIENCE) != 0
    finally:
        # Spark's own processes are in its group, so nothing is left behind.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        process.stdout.close()
    if failed:
        raise EngineError(
            "the demo's query failed",
            where=errors.read_text(errors="replace").strip()[-2000:],
            hint="please report this with the text above",
        )
    return batches


def _show(console: Console, answer: Sequence[EventBatch]) -> None:
    stream = LogicalStream.of_batches(answer)
    points = stream.change_points()
    instant = points[len(points) // 2]
    rows = sorted(stream.snapshot(instant), key=lambda row: row[2], reverse=True)[:5]
    table = Table(title=f"The busiest items at {format_time(instant, timestamps=True)}")
    for name in answer[0].schema.names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row))
    console.print(table)
    console.print()
