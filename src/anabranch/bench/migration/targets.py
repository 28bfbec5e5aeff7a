"""What the figures of the benchmark are to reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TARGETS: Final[Mapping[str, tuple[float, str]]] = {
    "longest_pause_over_batch": (2, "at most"),
    "lost": (0, "at most"),
    "doubled": (0, "at most"),
    "duration_over_window": (1.3, "at most"),
    "replay_vs_window": (10, "at least"),
}


def reaches(figure: str, value: float) -> bool:
    """Whether a figure is as good as it should be."""
    target, way = TARGETS[figure]
    return value <= target if way == "at most" else value >= target
