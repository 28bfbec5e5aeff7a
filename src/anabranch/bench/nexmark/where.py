"""Where the time of a query goes, in words and as a row of a table, from what its batches said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_READ: Final = "to read files, evaluate expressions and exchange rows"
_PLAN: Final = "for planning and logs of Spark"
_STEPS: Final[Mapping[str, str]] = {
    "gather": "to gather its rows",
    "step": "to compute",
    "store": "to store its state",
}


def time_sentence(way: Mapping[str, Any]) -> str:
    """The parts of an average batch, the largest first; those below one percent are left out.

    >>> batch, stages = {"spark": 20.0, "batch": 180.0}, {"0-join": {"step": 150.0}}
    >>> time_sentence({"batch_ms": batch, "stages_ms": stages}).split(", ")[:2]
    ['An average batch takes 200 ms: 75 % in `0-join` (75 % to compute)', '15 % to read files']
    """
    spark, batch = way["batch_ms"]["spark"], way["batch_ms"]["batch"]
    whole = max(spark + batch, 1e-9)
    stages = {name: sum(steps.values()) for name, steps in way["stages_ms"].items()}
    parts = {_READ: max(0.0, batch - sum(stages.values())), _PLAN: spark}
    for name, spent in stages.items():
        parts[f"in `{name}`{_steps(way['stages_ms'][name], whole)}"] = spent
    said = ", ".join(_shares(parts, whole))
    return f"An average batch takes {whole:,.0f} ms: {said}."


def time_row(query: str, way: Mapping[str, Any]) -> str:
    """A row: where batches were computed, and milliseconds of each part of an average one."""
    ran = [f"{way[where]} in {where}" for where in ("driver", "tasks") if way[where]]
    stages = {
        name: "/".join(f"{steps.get(step, 0.0):,.0f}" for step in _STEPS)
        for name, steps in way["stages_ms"].items()
        if sum(steps.values()) >= 1
    }
    spent = (f"{way['batch_ms'][part]:,.0f}" for part in ("spark", "batch"))
    listed = ", ".join(f"{name} {each}" for name, each in stages.items())
    return f"| {' | '.join((query, ', '.join(ran), *spent, listed or 'below 1'))} |"


def _steps(steps: Mapping[str, float], whole: float) -> str:
    named = {about: steps.get(step, 0.0) for step, about in _STEPS.items()}
    said = ", ".join(_shares(named, whole))
    return f" ({said})" if said else ""


def _shares(parts: Mapping[str, float], whole: float) -> list[str]:
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return [
        f"{100 * spent / whole:.0f} % {about}" for about, spent in ordered if spent >= whole / 100
    ]
