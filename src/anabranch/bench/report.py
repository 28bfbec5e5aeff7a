"""What a benchmark says: one JSON object per measurement, the figures last."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

Form = Literal["full", "quick", "smoke"]
"""How much a benchmark measures.

`full` gives the figures to compare, `quick` takes about a minute, and `smoke` takes seconds: it
shows that every step of the benchmark still works, and its figures mean nothing.
"""

FORMS: Final[tuple[Form, ...]] = ("full", "quick", "smoke")


@final
@dataclass(slots=True)
class Report:
    """Collects measurements of one benchmark and passes each on as it is made.

    Attributes:
        bench: The name of the benchmark.
        say: Takes one measurement, or the summary.
        form: How much is measured.
        spark: A Spark session for what runs in this process; None: the benchmark starts its own.
        figures: What the benchmark is judged by, so far.
    """

    bench: str
    say: Callable[[Mapping[str, object]], None]
    form: Form = "full"
    spark: Any = None
    figures: dict[str, float] = field(default_factory=dict)

    def measured(self, what: str, **values: object) -> None:
        """One measurement."""
        self.say({"bench": self.bench, "measurement": what, **values})

    def figure(self, name: str, value: float) -> None:
        """One of the figures the benchmark is judged by."""
        self.figures[name] = round(value, 4)

    def close(self) -> None:
        """The summary, last."""
        smoke = {"smoke": True} if self.form == "smoke" else {}
        self.say({"bench": self.bench, **smoke, "figures": dict(self.figures)})


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
