"""A query whose user operator gets another version while it runs: see test_kill_operator."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.module_query import query, write_input
from tests.e2e.module_versions import MeanAdded

from anabranch.engine import Engine
from anabranch.runtime.store.query_record import read_query_record

CHANGED_AFTER = 6
FILES = 12


def main(folder: Path) -> None:
    """Feed file by file and change in the middle; who is started again knows the record only."""
    with Engine(shards=2) as engine:
        stored = read_query_record(str(folder / "log" / "_checkpoint"))
        is_changed = stored is not None and stored.in_force is not None
        write_input(folder / "in", 1)
        old = query(engine, folder / "in")
        new = query(engine, folder / "in", MeanAdded)
        run = (new if is_changed else old).start(folder / "log")
        for number in range(FILES):
            write_input(folder / "in", number + 1)
            run.drain()
            if number == CHANGED_AFTER and not is_changed:
                run.migrate(new, how="state").await_switched(120)
        run.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
