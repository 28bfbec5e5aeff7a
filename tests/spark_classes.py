"""A small query, run for the classes that Spark loads for it.

The JVM writes them to an archive when it ends, and other JVMs start faster from there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from anabranch import Engine
from anabranch.bench.rows import write_rows


def main() -> None:
    """Read files, count in windows, write a log."""
    with tempfile.TemporaryDirectory() as name, Engine(shards=2) as engine:
        folder = Path(name)
        write_rows(folder / "rows", files=2, rows_per_file=100, keys=5, per_second=10)
        rows = engine.stream(
            folder / "rows", name="rows", start="ts", delay="5 seconds", max_files_per_batch=1
        )
        counts = rows.window("10 seconds", slide="10 seconds").group_by("k").agg(n="COUNT(*)")
        run = counts.start(to=folder / "log", checkpoint=folder / "checkpoint", available_now=True)
        run.await_end()


if __name__ == "__main__":
    main()
