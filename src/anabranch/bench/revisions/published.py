"""What was published, and what the figures are to reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PAPER: Final[Mapping[tuple[str, str, str], tuple[float, float, float]]] = {
    ("Q1", "RA", "LOW"): (4.53, 4.45, 8.98),
    ("Q1", "RM", "LOW"): (5.66, 0.26, 5.92),
    ("Q1", "RA", "HIGH"): (5.80, 20.77, 26.57),
    ("Q1", "RM", "HIGH"): (6.03, 0.44, 6.47),
    ("Q2", "RA", "HIGH"): (6.72, 20.99, 27.70),
    ("Q2", "RM", "HIGH"): (8.36, 0.89, 9.26),
    ("Q3", "RA", "HIGH"): (5.04, 18.55, 23.59),
    ("Q3", "RM", "HIGH"): (5.37, 0.71, 6.08),
}
"""Minutes of STP, RTP and COM by query, strategy and rate (Maskey and Cherniack)."""

PAPER_OVERHEAD: Final = 6.0
"""Archiving cost more than 500%: normal rows took more than six times as long."""

TARGETS: Final[Mapping[str, tuple[float, str]]] = {
    "archive_overhead": (1.10, "at most"),
    "archive_overhead_copied": (1.25, "at most"),
    "rm_vs_ra": (20, "at least"),
    "rw_vs_ra": (40, "at least"),
    "revision_ms": (2_000, "at most"),
    "vs_recompute": (100, "at least"),
    "index_bytes_per_million_rows": (20_000, "at most"),
    "planning_growth": (1.2, "at most"),
}


def reaches(figure: str, value: float) -> bool:
    """Whether a figure is as good as it should be."""
    target, way = TARGETS[figure]
    return value <= target if way == "at most" else value >= target
