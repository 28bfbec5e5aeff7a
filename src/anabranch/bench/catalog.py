"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

from anabranch.bench.growth import growth
from anabranch.bench.latency import latency
from anabranch.bench.report import Report
from anabranch.bench.tumbling import tumbling


class Measure(Protocol):
    """A benchmark: says what it measures to a report."""

    def __call__(self, report: Report, *, quick: bool) -> None:
        """Measure; `quick` takes under a minute."""


@final
@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark and what it is about."""

    about: str
    measure: Measure


BENCHES: Final[Mapping[str, Bench]] = {
    "tumbling": Bench("windowed count, rows per second beside Spark and Python state", tumbling),
    "latency": Bench("time of a batch of a few rows beside Spark's stateful floor", latency),
    "growth": Bench("time of a batch while the state grows to 10M live events", growth),
}
