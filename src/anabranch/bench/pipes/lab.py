"""What the experiments share: sizes, timing in turns, statements that hold or do not."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from anabranch.bench.pipes.queries import QUERIES
from anabranch.bench.pipes.reference import Reference, RepeatedRuns, time_interleaved, time_product
from anabranch.bench.pipes.workload import Arrival, StreamFeed
from anabranch.bench.report import Report
from anabranch.kernels.plan.local_runner import LocalRunner

BOUND: Final = 0.05
"""A count agrees with a formula within so much."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PipesSize:
    """How much is measured.

    Attributes:
        bids: Bids of the auction; a tenth as many auctions.
        numbers: Numbers of each side of a join.
        swept: The same where the selectivity of the join is varied.
        batch: Rows per micro-batch of the product.
        repeats: The median of so many runs counts.
        clock: Whether the count window also runs by the clock, for two seconds.
    """

    bids: int
    numbers: int
    swept: int
    batch: int
    repeats: int
    clock: bool = True


@final
@dataclass(slots=True)
class PipesLab:
    """What all experiments share: the report, the reference, and what was timed so far."""

    report: Report
    reference: Reference
    size: PipesSize
    runs: dict[str, RepeatedRuns] = field(default_factory=dict)
    checks: list[bool] = field(default_factory=list)

    def arrivals(self, feed: StreamFeed, plan: str) -> list[Arrival]:
        """The elements that a plan of the reference takes."""
        return feed.arrivals(tuple(self.reference.make(plan).entries), signed="pna" in plan)

    def race(self, feed: StreamFeed, plans: Sequence[str], label: str = "") -> None:
        """Time several plans in turns; the product's is called `q1/product`."""
        names = {plan: plan if not label else f"{label}/{plan}" for plan in plans}
        own = [plan for plan in plans if plan.endswith("/product")]
        others = [plan for plan in plans if plan not in own]
        runs = {plan: RepeatedRuns() for plan in plans}
        arrivals = {plan: self.arrivals(feed, plan) for plan in others}
        for _ in range(self.size.repeats):
            time_interleaved({plan: self.reference.make(plan) for plan in others}, arrivals, runs)
            for plan in own:
                node = QUERIES[plan.removesuffix("/product")]
                steps = feed.batches(tuple(LocalRunner(node).plan.sources), self.size.batch)
                time_product(node, steps, runs[plan])
        for plan, name in names.items():
            self.runs[name] = runs[plan]
            self._tell(name)

    def _tell(self, name: str) -> None:
        runs = self.runs[name]
        self.report.measured(
            "run",
            plan=name,
            median_s=round(runs.median, 5),
            results=runs.results,
            seconds=[round(value, 5) for value in runs.seconds],
            curve=[(round(second, 5), count) for second, count in runs.curve],
        )

    def ratio(self, one: str, other: str) -> float:
        """The runtime of a plan as a multiple of another's: the median over all repeats."""
        pairs = zip(self.runs[one].seconds, self.runs[other].seconds, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    def state(self, experiment: str, published: str, holds: bool, **figures: float) -> None:
        """A published statement, what was measured, and whether it holds here."""
        self.checks.append(holds)
        self.report.measured(
            "statement",
            experiment=experiment,
            published=published,
            holds=holds,
            **{name: round(value, 4) for name, value in figures.items()},
        )
        for name, value in figures.items():
            self.report.figure(f"{experiment}_{name}", value)
