"""How long the batches of one of Spark's own queries took."""

from __future__ import annotations

from typing import Any


def batch_times(query: Any) -> list[dict[str, float]]:
    """Rows and seconds of every batch that did something, after the query has ended."""
    query.awaitTermination()
    return [
        {
            "rows": float(progress.numInputRows),
            "seconds": progress.durationMs.get("triggerExecution", 0) / 1000.0,
        }
        for progress in query.recentProgress
        if progress.numInputRows
    ]
