"""What a batch did, added up over shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.model.time import BEGINNING
from anabranch.runtime.sinks.sinks import ShardResult

_SUMS = ("rows_in", "rows_out", "state_rows", "state_bytes", "state_runs")


def batch_metrics(batch: int, results: Sequence[ShardResult], output: int = 0) -> dict[str, Any]:
    """The counters of all stages and sources in one batch, and of one output.

    Keys: `batch`, `stable`, `rows_in` (from all sources), `rows_out`, `late`, `adjusted`,
    `sources` (per source: rows, late, adjusted, reached, after feedback how many were skipped, an
    `order` of "none" where rows have no positions to be late by, and where it has copies the same
    per copy under `copies`, with its problem), `stages` (per stage:
    rows_in, rows_out, state_rows, state_bytes, state_runs, seconds of the slowest shard, and under
    `reports` what its operators noticed, shard by shard), `failed_windows` (that modules gave no
    results for), `control` (commands that took effect).
    """
    counted = {
        (each["stage"], each["shard"]): each
        for result in results
        for each in result.head["counters"]
    }
    stages: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, Any]] = {}
    for (name, _), each in sorted(counted.items()):
        stage = stages.setdefault(name, {**dict.fromkeys(_SUMS, 0), "seconds": {}})
        for key in _SUMS:
            stage[key] += each[key]
        for step, seconds in each["seconds"].items():
            stage["seconds"][step] = max(stage["seconds"].get(step, 0.0), seconds)
        if "report" in each:
            stage.setdefault("reports", []).append({"shard": each["shard"], **each["report"]})
        sources.update(each["sources"])
    own = [result for result in results if result.head["output"] == output]
    return {
        "batch": batch,
        "stable": min(result.head["stable"] for result in own),
        "rows_in": _total(sources, "rows"),
        "rows_out": sum(_rows_out(result) for result in own),
        "late": _total(sources, "late"),
        "adjusted": _total(sources, "adjusted"),
        "lag": _lag(sources, own),
        "sources": sources,
        "stages": stages,
        "failed_windows": sum(each.get("report", {}).get("failed", 0) for each in counted.values()),
        "control": next((each["control"] for each in counted.values() if each["control"]), []),
    }


def _rows_out(result: ShardResult) -> int:
    own: int = result.head["counters"][-1]["rows_out"]
    return own


def _total(sources: Mapping[str, Mapping[str, Any]], key: str) -> int:
    return sum(each[key] for each in sources.values())


def _lag(sources: Mapping[str, Mapping[str, Any]], results: Sequence[ShardResult]) -> int | None:
    """How far the output's stable point is behind that of the most advanced source."""
    ahead = [each["reached"] for each in sources.values() if each["reached"] > BEGINNING]
    stable = min(result.head["stable"] for result in results)
    return max(ahead) - stable if ahead and stable > BEGINNING else None
