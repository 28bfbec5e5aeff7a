"""Experiments E8 to E11: count windows and joins over random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from time import perf_counter, sleep
from typing import Final

from anabranch.bench.pipes.lab import BOUND, PipesLab
from anabranch.bench.pipes.queries import count_window
from anabranch.bench.pipes.workload import INTERVAL, StreamFeed, numbers, steady_numbers
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.time import SECOND

WINDOW: Final = 5 * SECOND
"""Of the joins."""

PER_SECOND: Final = 50
"""Numbers per second in the experiment with count windows."""

ROWS: Final = (1, 10, 50, 100)
"""Sizes of count windows."""


def count_windows(lab: PipesLab) -> None:
    """E8: latency of count windows; application time and system time are the same."""
    feed = steady_numbers(1000, PER_SECOND)
    given = {
        (kind, rows): lab.reference.probes.results_by_arrival(
            kind, rows, feed.arrivals(("Number",), signed=kind == "pna")
        )
        for kind in ("tia", "pna")
        for rows in ROWS
    }
    for (kind, rows), results in given.items():
        lab.report.measured(
            "latency",
            kind=kind,
            rows=rows,
            per_second=PER_SECOND,
            results=results[: 5 * PER_SECOND],
        )

    def first(kind: str, rows: int) -> float:
        found = next(at for at, results in enumerate(given[kind, rows]) if results[0])
        return found / PER_SECOND

    lab.state(
        "e8",
        "the first result of TIA comes after N / rate seconds: 2 s for N = 100 (14.3.3)",
        all(first("tia", rows) == rows / PER_SECOND for rows in ROWS),
        first_result_s=first("tia", 100),
    )
    lab.state(
        "e8",
        "positives of PNA come at once, whatever N is (14.3.3)",
        all(first("pna", rows) == 0 for rows in ROWS),
        first_result_pna_s=max(first("pna", rows) for rows in ROWS),
    )
    near = all(
        [positives for positives, _ in given["tia", rows]]
        == [negatives for _, negatives in given["pna", rows]]
        for rows in ROWS
    )
    lab.state(
        "e8",
        "TIA gives a result when PNA gives its negative (14.3.3)",
        near,
        together=float(near),
    )
    if lab.size.clock:
        for kind, seconds in _by_the_clock(lab, 100).items():
            lab.report.figure(f"e8_first_result_{kind}_clock_s", seconds)


def _by_the_clock(lab: PipesLab, rows: int) -> dict[str, float]:
    """When the first result is there if every number is pushed at its time."""
    feed = steady_numbers(rows + PER_SECOND, PER_SECOND)
    steps = feed.batches(("Number",), 1)
    runner = LocalRunner(count_window(rows))
    took = {kind: _pusher(lab, kind, rows, feed) for kind in ("tia", "pna")}
    took["product"] = lambda number: len(runner.step(steps[number])) > 0
    first: dict[str, float] = {}
    began = perf_counter()
    for number in range(len(feed.streams["Number"])):
        sleep(max(0.0, began + number / PER_SECOND - perf_counter()))
        for kind, take in took.items():
            if take(number) and kind not in first:
                first[kind] = perf_counter() - began
        if len(first) == len(took):
            break
    return first


def _pusher(lab: PipesLab, kind: str, rows: int, feed: StreamFeed) -> Callable[[int], bool]:
    elements = feed.arrivals(("Number",), signed=kind == "pna")
    pushes, results = lab.reference.plans.count_window(kind, rows).start()

    def take(number: int) -> bool:
        pushes["Number"](elements[number][1])
        return bool(results)

    return take


def sweep_areas(lab: PipesLab) -> None:
    """E9: a list or a heap for eviction."""
    feed = numbers(lab.size.numbers, 0, 1000)
    lab.race(feed, ["join/list", "join/heap", "join/pna", "join/product"], "e9")
    share = lab.ratio("e9/join/list", "e9/join/heap")
    lab.state(
        "e9",
        "a list is faster than a priority queue where ends are in order (14.3.4)",
        share <= 1,
        list_over_heap=share,
    )
    lab.report.figure("product_speedup_join", 1 / lab.ratio("e9/join/product", "e9/join/list"))


def queue_placement(lab: PipesLab) -> None:
    """E10 and E11: the queue of a join at its input or at its output."""
    matches = WINDOW // INTERVAL
    for experiment, high, better in (("e10", 1000, "output"), ("e11", 100, "input")):
        feed = numbers(lab.size.numbers, 1, high)
        lab.race(feed, ["join/input", "join/output"], experiment)
        elements = lab.arrivals(feed, "join/input")
        expected = matches / high
        entered, at_output = lab.reference.probes.waiting("list", elements, WINDOW)
        one, at_input = lab.reference.probes.waiting("input", elements, WINDOW)
        lab.state(
            experiment,
            f"{expected:g} matches per arrival; 1 waits at the input, {expected:g} at the output "
            "(14.3.4)",
            one == 1
            and all(
                abs(value / formula - 1) <= BOUND
                for value, formula in ((entered, expected), (at_output, expected), (at_input, 1))
            ),
            matches=entered,
            queue_input=at_input,
            queue_output=at_output,
        )
        share = lab.ratio(f"{experiment}/join/output", f"{experiment}/join/input")
        lab.state(
            experiment,
            f"the queue at the {better} is faster (14.3.4)",
            share < 1 if better == "output" else share > 1,
            output_over_input=share,
        )
    shares = {matches / high: _swept(lab, high) for high in (2000, 1000, 500, 250, 100, 50)}
    crossing = crossover(shares)
    lab.state(
        "e11",
        "which place is better changes at one match per arrival (14.3.4); 0.5 to 2 counts",
        0.5 <= crossing <= 2,
        crossover_matches=crossing,
    )


def _swept(lab: PipesLab, high: int) -> float:
    label = f"sweep {high}"
    lab.race(numbers(lab.size.swept, 1, high), ["join/input", "join/output"], label)
    return lab.ratio(f"{label}/join/output", f"{label}/join/input")


def crossover(shares: Mapping[float, float]) -> float:
    """Where a ratio that grows with its argument reaches 1, read off between two points.

    >>> crossover({0.5: 0.5, 2.0: 2.0})
    1.0
    """
    points = sorted((math.log(at), math.log(share)) for at, share in shares.items())
    for (low, before), (high, after) in pairwise(points):
        if before <= 0 < after:
            return math.exp(low + (high - low) * -before / (after - before))
    return math.exp(points[0][0] if points[0][1] > 0 else points[-1][0])
