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
