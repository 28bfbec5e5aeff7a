"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, final

from anabranch.bench.growth import growth
from anabranch.bench.latency import latency
from anabranch.bench.operators import operators
from anabranch.bench.pipes import pipes
from anabranch.bench.pipes_plots import write_plots
from anabranch.bench.report import Report
from anabranch.bench.tumbling import tumbling


class Measure(Protocol):
    """A benchmark: says what it measures to a report."""

    def __call__(self, report: Report, *, quick: bool) -> None:
        """Measure; `quick` takes under a minute."""


@final
@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark, what it is about, and what draws its lines to a folder, if anything does."""

    about: str
    measure: Measure
    plot: Callable[[Sequence[Mapping[str, Any]], Path], object] | None = None


BENCHES: Final[Mapping[str, Bench]] = {
    "tumbling": Bench("windowed count, rows per second beside Spark and Python state", tumbling),
    "latency": Bench("time of a batch of a few rows beside Spark's stateful floor", latency),
    "operators": Bench("every kernel by itself, events per second beside DuckDB", operators),
    "growth": Bench("time of a batch while the state grows to 10M live events", growth),
    "pipes": Bench(
        "the experiments of PIPES: intervals beside positive and negative elements",
        pipes,
        write_plots,
    ),
}
