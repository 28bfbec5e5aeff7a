"""Queries of which one joins and the other leaves, as a process: see test_kill_joining."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from tests.e2e.changed_queries import counting, declare, write_file

from anabranch.engine import Engine
from anabranch.runtime.store.migrations import How, MigrationFolder
from anabranch.runtime.store.query_record import read_query_record

ROWS = 500
JOINS_AFTER = 3
LEAVES_AFTER = 5
FILES = 8


def last_change(home: Path) -> str:
    """What the plan in force is there for: a query that joined (add), or one that left (drop)."""
    stored = read_query_record(str(home))
    if stored is None or stored.in_force is None:
        return ""
    record = MigrationFolder.of(str(home)).read(stored.in_force.migration)
    assert record is not None
    return record.verb


def main(folder: Path, how: How) -> None:
    """Feed file by file; whoever is started again starts what the checkpoint says is there."""
    home = folder / "log" / "_checkpoint"
    with Engine(shards=2) as engine:
        declare(engine, folder)
        first, new = counting(engine, 1500), counting(engine, 400, least=500)
        changed = last_change(home)
        if changed == "add":
            runs = engine.start_all([first, new], [folder / "log", folder / "new"])
        elif changed == "drop":
            runs = engine.start_all([new], [folder / "new"], checkpoint=home)
        else:
            runs = [first.start(folder / "log")]
        for number in range(FILES):
            if not (folder / "in" / f"{number:04d}.parquet").exists():
                write_file(folder, number, ROWS)
            runs[-1].drain()
            if number == JOINS_AFTER and not changed:
                runs.append(runs[0].add(new, folder / "new", how=how))
            if number == LEAVES_AFTER and changed != "drop":
                runs[0].leave()
        runs[-1].stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), cast(How, sys.argv[2]))
