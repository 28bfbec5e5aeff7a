"""A query that changes while it runs, as a process that somebody kills: see test_kill_migration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from tests.e2e.changed_queries import counting, declare, write_file

from anabranch.engine import Engine
from anabranch.runtime.store.migrations import How

ROWS = 500
CHANGED_AFTER = 3
FILES = 9


def main(folder: Path, how: How, *, coalesced: bool) -> None:
    """Feed file by file and change in the middle; whoever is started again takes up where it was.

    The process that goes on after the change knows the new query only.
    """
    with Engine(shards=2) as engine:
        declare(engine, folder)
        old, new = counting(engine, 1500), counting(engine, 400, least=500)
        if coalesced:
            old, new = old.coalesce(), new.coalesce()
        changed = folder / "log" / "_checkpoint" / "migrations"
        is_changed = any(changed.glob("plan-*")) if changed.exists() else False
        run = (new if is_changed else old).start(folder / "log")
        for number in range(FILES):
            if not (folder / "in" / f"{number:04d}.parquet").exists():
                write_file(folder, number, ROWS)
            if number == CHANGED_AFTER and not is_changed:
                run.drain()
                run.migrate(new, how=how).await_switched(120)
            run.drain()
        run.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), cast(How, sys.argv[2]), coalesced="coalesced" in sys.argv[3:])
