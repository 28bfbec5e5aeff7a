"""The answers of a query from scratch, over all rows, as plain Spark does it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Final

from anabranch.bench.revisions.lab import RevisionLab
from anabranch.workloads.quotes import FIRST_SYMBOL

_MEAN: Final = (
    "SELECT window.end AS at, AVG(price) AS mean FROM quotes "
    f"WHERE symbol = '{FIRST_SYMBOL}' GROUP BY window(at, {{}}, '1 minute')"
)
_SQL: Final[Mapping[str, str]] = {
    "Q1": "SELECT symbol, window.end AS at, AVG(price) AS mean FROM quotes "
    "GROUP BY symbol, window(at, '5 minutes')",
    "Q2": "SELECT symbol, window.end AS at, AVG(price) AS mean FROM quotes "
    "GROUP BY symbol, window(at, '5 minutes', '1 minute')",
    "Q3": "SELECT s.at, CASE WHEN s.mean > l.mean THEN 'BUY' ELSE 'SELL' END AS advice FROM ("
    + _MEAN.format("'1 minute'")
    + ") AS s JOIN ("
    + _MEAN.format("'5 minutes'")
    + ") AS l ON s.at = l.at",
}


def recompute(lab: RevisionLab) -> Mapping[str, float]:
    """Seconds of each query from Parquet files of the archived rows to Parquet files of answers."""
    spark = lab.engine.spark
    spark.read.parquet(str(lab.history)).createOrReplaceTempView("quotes")
    found: dict[str, float] = {}
    for query in lab.size.ways:
        times = []
        for repeat in range(lab.size.recomputed + 1):
            began = time.perf_counter()
            target = str(lab.root / "recomputed" / query)
            spark.sql(_SQL[query]).write.mode("overwrite").parquet(target)
            if repeat:
                times.append(time.perf_counter() - began)
        found[query] = statistics.median(times)
        lab.report.measured(
            "recompute",
            query=query,
            rows=lab.size.archived,
            seconds=round(found[query], 3),
            repeats=[round(each, 3) for each in times],
        )
    return found
