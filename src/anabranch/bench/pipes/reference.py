"""The reference implementations of both approaches, out of the source checkout, and a stopwatch."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias, final

from anabranch.algebra.node import Node
from anabranch.bench.checkout import ROOT, from_checkout
from anabranch.bench.pipes.workload import Arrival
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch

POINTS: Final = 40
"""So many points a curve has."""


class ReferencePlan(Protocol):
    """A plan of the reference."""

    @property
    def entries(self) -> Mapping[str, Any]:
        """Its sources."""

    def start(self) -> tuple[dict[str, Callable[[Any], None]], list[Any]]:
        """Where elements go, and the list that results go to."""

    def end(self) -> None:
        """All sources have ended."""


@final
@dataclass(frozen=True, slots=True)
class Reference:
    """What is loaded: a module of plans, and one of functions that count."""

    plans: ModuleType
    probes: ModuleType

    def make(self, name: str) -> ReferencePlan:
        """A new plan by its name, as `q1/tia`."""
        plan: ReferencePlan = self.plans.PLANS[name]()
        return plan


def load_reference(root: Path = ROOT) -> Reference:
    """Load the reference implementations, which are no part of the installed package.

    Raises:
        QueryError: This is not a source checkout.
    """
    return Reference(
        from_checkout("plans", bench="pipes", root=root),
        from_checkout("probes", bench="pipes", root=root),
    )


Curve: TypeAlias = list[tuple[float, int]]


@final
@dataclass(slots=True)
class RepeatedRuns:
    """The same run several times: its CPU seconds, and what came out."""

    seconds: list[float] = field(default_factory=list)
    results: int = 0
    curve: Curve = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    def add(self, seconds: float, results: int, curve: Curve) -> None:
        """One more; the curve of the fastest run is kept."""
        if not self.seconds or seconds < min(self.seconds):
            self.curve = curve
        self.seconds.append(seconds)
        self.results = results


def time_interleaved(
    plans: Mapping[str, ReferencePlan],
    arrivals: Mapping[str, Sequence[Arrival]],
    runs: Mapping[str, RepeatedRuns],
) -> None:
    """Push all elements as fast as possible, in the order of time, a piece to each plan in turns.

    What else happens on the machine so hits all of them alike.
    """
    started = {name: plan.start() for name, plan in plans.items()}
    orders = {
        name: [started[name][0][source] for source in plan.entries] for name, plan in plans.items()
    }
    seconds = dict.fromkeys(plans, 0.0)
    curves: dict[str, Curve] = {name: [] for name in plans}
    turns = list(plans)
    gc.collect()
    gc.disable()
    try:
        for piece in range(POINTS + 1):
            for name in turns:
                elements = arrivals[name]
                first, last = (len(elements) * at // POINTS for at in (piece, piece + 1))
                order = orders[name]
                began = process_time()
                for side, element in elements[first:last]:
                    order[side](element)
                if piece == POINTS:
                    plans[name].end()
                seconds[name] += process_time() - began
                curves[name].append((seconds[name], len(started[name][1])))
            turns.reverse()
    finally:
        gc.enable()
    for name in plans:
        runs[name].add(seconds[name], len(started[name][1]), curves[name])


def time_product(node: Node, steps: Sequence[Mapping[str, EventBatch]], runs: RepeatedRuns) -> None:
    """Run the product's kernels over micro-batches, in this process."""
    # Expressions are compiled at the first use.
    LocalRunner(node).step(steps[0])
    runner = LocalRunner(node)
    curve: Curve = []
    results = 0
    gc.collect()
    began = process_time()
    for step in steps:
        results += len(runner.step(step))
        curve.append((process_time() - began, results))
    every = -(-len(curve) // POINTS)
    runs.add(curve[-1][0], results, [*curve[:-1:every], curve[-1]])
