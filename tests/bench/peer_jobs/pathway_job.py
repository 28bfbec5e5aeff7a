"""The three jobs in Pathway, over static tables, which it computes as one batch."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.bench.peer_jobs.contract import serve

WINDOW_MS: Final = 10_000


def _rows(pw: Any, folder: Path, name: str, *more: str) -> Any:
    columns = dict.fromkeys(("row", "k", "ts", *more), int)
    schema = pw.schema_from_types(**columns)
    return pw.io.csv.read(str(folder / "csv" / name), schema=schema, mode="static")


def _window(pw: Any) -> Any:
    return pw.temporal.tumbling(duration=WINDOW_MS)


def _tumbling(pw: Any, folder: Path) -> Any:
    rows = _rows(pw, folder, "rows")
    windows = rows.windowby(rows.ts, window=_window(pw), instance=rows.k)
    return windows.reduce(
        k=pw.this._pw_instance, w=pw.this._pw_window_start // WINDOW_MS, n=pw.reducers.count()
    )


def _join(pw: Any, folder: Path) -> Any:
    left, right = (_rows(pw, folder, f"{side}_rows") for side in ("left", "right"))
    both = left.window_join(right, left.ts, right.ts, _window(pw), left.k == right.k)
    number = pw.this._pw_window_start // WINDOW_MS
    return both.select(k=left.k, w=number, l=left.row, r=right.row)


def _top(pw: Any, folder: Path) -> Any:
    changes = _rows(pw, folder, "changes", "v", "op")
    same = changes.groupby(changes.row, changes.k, changes.ts, changes.v)
    live = same.reduce(changes.k, changes.ts, changes.v, n=pw.reducers.sum(changes.op))
    live = live.filter(live.n > 0)
    windows = live.windowby(live.ts, window=_window(pw), instance=live.k)
    ordered = windows.reduce(
        k=pw.this._pw_instance,
        w=pw.this._pw_window_start // WINDOW_MS,
        all=pw.reducers.sorted_tuple(-pw.this.v),
    )
    best = ordered.select(ordered.k, ordered.w, v=pw.apply(_best, ordered.all))
    flat = best.flatten(best.v)
    return flat.select(flat.k, flat.w, v=-flat.v)


def _best(every: tuple[int, ...]) -> tuple[int, ...]:
    return every[:3]


def _run(pw: Any, query: Callable[[Any, Path], Any], folder: Path, out: Path) -> None:
    importlib.import_module("pathway.internals.parse_graph").G.clear()
    pw.io.csv.write(query(pw, folder), str(out / "answer.csv"))
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    os.environ.setdefault("PATHWAY_THREADS", str(os.cpu_count()))
    pathway = importlib.import_module("pathway")
    _best.__annotations__["every"] = _best.__annotations__["return"] = tuple[int, ...]
    serve(
        {
            "tumbling": partial(_run, pathway, _tumbling),
            "join": partial(_run, pathway, _join),
            "top": partial(_run, pathway, _top),
        }
    )
