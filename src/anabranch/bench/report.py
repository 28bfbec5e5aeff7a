"""What a benchmark says: one JSON object per measurement, the figures last."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final


@final
@dataclass(slots=True)
class Report:
    """Collects measurements of one benchmark and passes each on as it is made."""

    bench: str
    say: Callable[[Mapping[str, object]], None]
    figures: dict[str, float] = field(default_factory=dict)

    def measured(self, what: str, **values: object) -> None:
        """One measurement."""
        self.say({"bench": self.bench, "measurement": what, **values})

    def figure(self, name: str, value: float) -> None:
        """One of the figures the benchmark is judged by."""
        self.figures[name] = round(value, 4)

    def close(self) -> None:
        """The summary, last."""
        self.say({"bench": self.bench, "figures": dict(self.figures)})


def as_json(line: Mapping[str, object]) -> str:
    """One line of output."""
    return json.dumps(line, default=float)


def speed(batches: Sequence[Mapping[str, float]], *, warm_up: int = 1) -> float:
    """Rows per second: the median over the batches after the first ones."""
    settled = batches[warm_up:] or batches
    return statistics.median(batch["rows"] / batch["seconds"] for batch in settled)


def floor(batches: Sequence[Mapping[str, float]], *, warm_up: int = 5) -> float:
    """Seconds per batch: the median over the batches after the first ones."""
    return statistics.median(batch["seconds"] for batch in batches[warm_up:] or batches)
