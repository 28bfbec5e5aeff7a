"""A query whose rates were declared wrongly, as a process: see test_measured_plans."""

from __future__ import annotations

import sys
from pathlib import Path

from anabranch.bench.reoptimize import EARLY, LATER, QUERY, Feed, declare
from anabranch.engine import Engine
from anabranch.runtime.store.migrations import MigrationFolder

CHRONONS = 60
BEFORE = 3
FILES = 8
LEAST = 300_000
CHANGED = f"{QUERY} AND A.v >= {LEAST}"


def main(folder: Path) -> None:
    """Feed file by file and change in the middle; whoever is started again takes up where it was.

    The process that goes on after the change knows the new query only, and other declarations.
    """
    home = folder / "home"
    plans = MigrationFolder.of(str(home)).folder.names()
    is_changed = any(name.startswith("plan-") for name in plans)
    with Engine(shards=2) as engine:
        feed = Feed(folder, CHRONONS)
        if feed.number == 0:
            feed.write(LATER)
        declare(engine, folder, LATER if is_changed else EARLY)
        query = engine.sql(CHANGED if is_changed else QUERY)
        run = query.start(folder / "log", checkpoint=home)
        run.drain()
        while feed.number < FILES:
            if feed.number == BEFORE and not is_changed:
                run.migrate(engine.sql(CHANGED)).await_switched(120)
            feed.write(LATER)
            run.drain()
        run.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
