"""Write what a run measures to a file, a line of JSON per batch, while it goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run

_LOOK: Final = 0.2
"""Seconds between two looks at a run."""


@contextmanager
def written_metrics(run: Run, path: str | None) -> Iterator[None]:
    """Append each batch's metrics to a file while the block lasts; None: to no file."""
    if path is None:
        yield
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)

    def write(batches: Sequence[Mapping[str, Any]]) -> None:
        lines = "".join(json.dumps(batch, default=str) + "\n" for batch in batches)
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(lines)

    with each_batch(run, write):
        yield


@contextmanager
def each_batch(run: Run, take: Callable[[Sequence[Mapping[str, Any]]], None]) -> Iterator[None]:
    """Hand over the metrics of every batch, in order, while the block lasts."""
    over = threading.Event()
    taken = -1

    def look() -> None:
        nonlocal taken
        new = [batch for batch in run.metrics() if batch["batch"] > taken]
        if new:
            take(new)
            taken = new[-1]["batch"]

    def watch() -> None:
        while not over.wait(_LOOK):
            look()

    thread = threading.Thread(target=watch, name="anabranch-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        look()
