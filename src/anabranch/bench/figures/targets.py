"""What the figures of the benchmarks shall reach, in their full form on a quiet machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, final


@final
@dataclass(frozen=True, slots=True)
class Target:
    """What a figure shall reach."""

    way: Literal["at most", "at least"]
    bound: float

    def is_reached(self, value: float) -> bool:
        """Whether a figure is as good as it should be.

        >>> at_most(1.1).is_reached(1.05), at_least(2).is_reached(1.9)
        (True, False)
        """
        return value <= self.bound if self.way == "at most" else value >= self.bound

    def __str__(self) -> str:
        return f"{self.way} {shown_figure(self.bound)}"


def shown_figure(value: float) -> str:
    """A figure in a table.

    >>> shown_figure(1.07271), shown_figure(2_000_000)
    ('1.073', '2,000,000')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def at_most(bound: float) -> Target:
    """The smaller, the better."""
    return Target("at most", bound)


def at_least(bound: float) -> Target:
    """The larger, the better."""
    return Target("at least", bound)


TARGETS: Final[Mapping[str, Mapping[str, Target]]] = {
    "tumbling": {
        "vs_spark": at_least(2.5),
        "vs_spark_tasks": at_least(2),
        "vs_python_state": at_least(35),
        "with_corrections": at_least(0.9),
    },
    "latency": {"floor_vs_spark": at_most(0.5)},
    "endtoend": {"p50_vs_spark": at_most(0.6), "p99_vs_spark": at_most(0.8)},
    "growth": {"t10m_over_t10k": at_most(1.5)},
    "operators": {
        "worst_vs_anchor": at_least(0.8),
        "worst_vs_anchor_small": at_least(0.5),
        "join_vs_anchor": at_least(1),
        "left_join_vs_anchor": at_least(1),
        "top_k_vs_anchor": at_least(1),
        "median_vs_anchor": at_least(1),
        "count_window_vs_anchor": at_least(1),
        "istream_vs_anchor": at_least(1),
        "adjusted_join": at_least(1),
        "withdrawal_growth": at_most(2),
    },
    "merge": {
        "r3_per_s": at_least(2_000_000),
        "r4_per_s": at_least(1_000_000),
        "spark_per_s_core": at_least(600_000),
    },
    "revisions": {
        "archive_overhead": at_most(1.10),
        "archive_overhead_copied": at_most(1.25),
        "rm_vs_ra": at_least(20),
        "rw_vs_ra": at_least(40),
        "revision_ms": at_most(2_000),
        "vs_recompute": at_least(100),
        "index_bytes_per_million_rows": at_most(20_000),
        "planning_growth": at_most(1.2),
    },
    "migration": {
        "longest_pause_over_batch": at_most(2),
        "lost": at_most(0),
        "doubled": at_most(0),
        "duration_over_window": at_most(1.3),
        "replay_vs_window": at_least(10),
    },
    "reoptimize": {"reoptimize_gain": at_least(2)},
    "modules": {
        "vectorised_vs_spark_pandas": at_least(2),
        "incremental_events_per_s": at_least(1_000_000),
    },
    "start": {
        "import_s": at_most(0.3),
        "local_s": at_most(0.7),
        "first_result_s": at_most(8),
        "first_result_vs_spark": at_most(1.3),
    },
    "scale": {
        "local2_over_local1": at_least(1.6),
        "cluster_over_local1": at_least(1.4),
        "cost_50m_over_1m": at_most(1.1),
        "cost_100m_over_1m": at_most(1.1),
        "cost_10m_keys_growth": at_most(1.2),
        "prediction_error": at_most(0.15),
    },
    "nexmark": {
        "ahead_of_spark": at_least(1),
        "ahead_of_flink": at_least(1),
        "worst_ratio": at_least(1),
    },
    "peers": {
        "pairs": at_least(12),
        "tumbling_anabranch_right": at_least(1),
        "join_anabranch_right": at_least(1),
        "top_anabranch_right": at_least(1),
        "ahead": at_least(1),
        "worst_vs_peers": at_least(1),
        "worst_cpu_vs_peers": at_least(1),
    },
}
"""By benchmark and figure. Figures that are not here have no target of their own."""


def target_rows(bench: str, figures: Mapping[str, float]) -> list[str]:
    """The rows of a Markdown table: figure, target, value, whether that is reached.

    A figure that is missing has a row as well, so that nobody overlooks it.

    >>> target_rows("growth", {"t10m_over_t10k": 1.62})
    ['| `t10m_over_t10k` | at most 1.5 | 1.62 | **no** |']
    >>> target_rows("growth", {})
    ['| `t10m_over_t10k` | at most 1.5 | not measured | - |']
    """
    return [
        f"| `{name}` | {target} | {_value_and_mark(target, figures.get(name))} |"
        for name, target in TARGETS.get(bench, {}).items()
    ]


def _value_and_mark(target: Target, value: float | None) -> str:
    if value is None:
        return "not measured | -"
    return f"{shown_figure(value)} | {'yes' if target.is_reached(value) else '**no**'}"
