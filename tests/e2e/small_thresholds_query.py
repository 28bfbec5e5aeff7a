"""Queries in a process whose workers have other thresholds: `python it.py FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anabranch as ab


def queries(engine: ab.Engine, folder: Path) -> Mapping[str, Any]:
    """An aggregate, a join, and what compiled loops do for both."""
    rows = engine.stream(folder, name="s", ends=True, max_files_per_batch=2)
    keys = rows.select("k % 20 AS k", "n % 7 AS m")
    others = rows.where("n > 0").select("k % 20 AS q", "d")
    return {
        "aggregate": rows.group_by("k % 20 AS k").agg(
            n="COUNT(*)", lo="MIN(n)", hi="MAX(d)", m="MEDIAN(n % 100)"
        ),
        "join": keys.distinct().join(others, "k = q", how="left"),
        "top": rows.select("i", "k", "d").top(3, "d DESC", by="k % 5 AS g"),
    }


def main(root: Path) -> None:
    with ab.Engine(shards=3) as engine:
        for name, query in queries(engine, root / "in").items():
            query.start(to=root / name, available_now=True).await_end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
