"""Queries of which one joins while the other runs, as a process: see test_kill_joining."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from tests.e2e.changed_queries import counting, declare, write_file

from anabranch.engine import Engine
from anabranch.runtime.store.migrations import How
from anabranch.runtime.store.query_record import read_query_record

ROWS = 500
JOINS_AFTER = 3
FILES = 8


def main(folder: Path, how: How) -> None:
    """Feed file by file; whoever is started again starts what the checkpoint says is there."""
    with Engine(shards=2) as engine:
        declare(engine, folder)
        first, new = counting(engine, 1500), counting(engine, 400, least=500)
        home = folder / "log" / "_checkpoint"
        stored = read_query_record(str(home))
        has_joined = stored is not None and stored.in_force is not None
        if has_joined:
            run, _ = engine.start_all([first, new], [folder / "log", folder / "new"])
        else:
            run = first.start(folder / "log")
        for number in range(FILES):
            if not (folder / "in" / f"{number:04d}.parquet").exists():
                write_file(folder, number, ROWS)
            if number == JOINS_AFTER and not has_joined:
                run.drain()
                # A folder that was made just before the kill is nobody's.
                left = (folder / "new").exists()
                run.add(new, folder / ("again" if left else "new"), how=how)
            run.drain()
        run.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), cast(How, sys.argv[2]))
