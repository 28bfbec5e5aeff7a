"""The next version of the module of `module_query`, and what both say: by DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

import anabranch as ab


@ab.uda(name="counted", version=2)
class MeanAdded:
    """The next version of `counted`: its states have names, and it says the mean."""

    def initial(self) -> dict[str, int]:
        return {"rows": 0, "total": 0}

    def add(self, state: dict[str, int], v: int) -> dict[str, int]:
        return {"rows": state["rows"] + 1, "total": state["total"] + v}

    def remove(self, state: dict[str, int], v: int) -> dict[str, int]:
        return {"rows": state["rows"] - 1, "total": state["total"] - v}

    def compute(self, state: dict[str, int]) -> str:
        return f"mean {state['total'] // state['rows']}"

    def migrate(self, state: list[int], version: int) -> dict[str, int]:
        assert version == 1
        return {"rows": state[0], "total": state[1]}


def told_of_windows(folder: Path, at: int, *, mean: bool) -> list[tuple[Any, ...]]:
    """Windows of 40 every 20 around an instant, as `counted` of version 1 or 2 tells of them."""
    said = "'mean ' || sum(v) // count(*)" if mean else "count(*) || ' rows, ' || sum(v)"
    found = (
        duckdb.connect()
        .execute(
            f"SELECT k, w, w + 40, {said} FROM '{folder}/in/*.parquet', "
            f"(SELECT unnest(range({at // 20 * 20 - 20}, {at} + 1, 20)) AS w) "
            "WHERE t >= w AND t < w + 40 GROUP BY k, w ORDER BY k, w"
        )
        .fetchall()
    )
    return [tuple(row) for row in found]
