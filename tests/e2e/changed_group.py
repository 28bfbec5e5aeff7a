"""Queries over one derived stream that change together, as a process: see test_kill_shared_change.

What they share changes, so all that read it do; another query of the group stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from tests.e2e.changed_queries import answers, declare, write_file

from anabranch.engine import Engine
from anabranch.runtime.store.migrations import How

ROWS = 500
CHANGED_AFTER = 3
FILES = 9
OUTS = ("log", "few", "other")

OLD, NEW = (1500, 0), (400, 500)
OTHER = 900
FEW = 7
"""The second query has the items below this number."""


def script(size: int, least: int) -> str:
    """The queries of the group: two over a stream, and one beside them."""
    counts = "SELECT item, COUNT(*) AS n, SUM(price) AS total FROM Bid"
    return (
        f"CREATE STREAM Counts AS {counts} WINDOW(RANGE {size}) WHERE price >= {least} "
        "GROUP BY item;\n"
        "SELECT item, n, total FROM Counts;\n"
        f"SELECT item, n, total FROM Counts WHERE item < {FEW};\n"
        f"{counts} WINDOW(RANGE {OTHER}) GROUP BY item;"
    )


def wanted(folder: Path, name: str, instant: int, *, is_new: bool) -> list[tuple[Any, ...]]:
    """What an output must have at an instant."""
    if name == "other":
        return answers(folder, instant, OTHER)
    found = answers(folder, instant, *(NEW if is_new else OLD))
    return found if name == "log" else [row for row in found if row[0] < FEW]


def main(folder: Path, how: How, *, coalesced: bool) -> None:
    """Feed file by file and change in the middle; whoever is started again takes up where it was.

    The process that goes on after the change knows the new queries only.
    """
    with Engine(shards=2) as engine, Engine(engine.spark, shards=2) as apart:
        declare(engine, folder)
        declare(apart, folder)
        old, new = engine.script(script(*OLD)), apart.script(script(*NEW))
        if coalesced:
            old, new = ([each.coalesce() for each in queries] for queries in (old, new))
        home = folder / "log" / "_checkpoint"
        changed = home / "migrations"
        is_changed = any(changed.glob("plan-*")) if changed.exists() else False
        outs = [folder / name for name in OUTS]
        runs = engine.start_all(new if is_changed else old, outs, checkpoint=home)
        for number in range(FILES):
            if not (folder / "in" / f"{number:04d}.parquet").exists():
                write_file(folder, number, ROWS)
            if number == CHANGED_AFTER and not is_changed:
                runs[0].drain()
                engine.migrate_all(runs[:2], new[:2], how=how).await_switched(120)
            runs[0].drain()
        runs[0].stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), cast(How, sys.argv[2]), coalesced="coalesced" in sys.argv[3:])
