"""Windows that overlap more and more, and windows that last longer and longer, in the kernel."""

from __future__ import annotations

import statistics
from typing import Final

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.bench.modules.lab import SECOND, SHAPES, ModulesSize, RunCost, feed, plan, run
from anabranch.bench.report import Report
from anabranch.bench.warming import warm_up
from anabranch.model.batch import EventBatch

KEYS: Final = 200
RATE: Final = 4_000
LENGTH: Final = 10 * SECOND
SMALL_KEYS: Final = 100
SMALL_BATCH: Final = 1_000


def overlaps(report: Report, size: ModulesSize) -> None:
    """Windows of ten seconds that have ended, each event in one of them or in many."""
    batches = feed(size.events, size.batch, KEYS, RATE)
    for shape in SHAPES:
        _warm_up(plan(shape, LENGTH, LENGTH), batches, size)
        for overlap in size.overlaps:
            node = plan(shape, LENGTH, LENGTH // overlap)
            cost = _measure(report, "overlap", node, batches, size, shape=shape, overlap=overlap)
            if overlap == size.overlaps[0]:
                report.figure(f"{shape}_events_per_s", cost.events_per_s)
                report.figure(f"{shape}_windows_per_s", cost.windows_per_s)


def lengths(report: Report, size: ModulesSize) -> None:
    """Windows that are answered for while they fill: every second a small batch for all of them.

    Who looks at all events of a window again pays for its length; who keeps a state does not.
    """
    batches = feed(size.small * SMALL_BATCH, SMALL_BATCH, SMALL_KEYS, SMALL_BATCH)
    for shape in SHAPES:
        each = {}
        shortest = size.lengths[0] * SECOND
        _warm_up(plan(shape, shortest, shortest, open_windows=True), batches, size)
        for seconds in size.lengths:
            node = plan(shape, seconds * SECOND, seconds * SECOND, open_windows=True)
            each[seconds] = _measure(
                report, "length", node, batches, size, shape=shape, window_s=seconds
            )
        most, least = each[size.lengths[-1]], each[size.lengths[0]]
        report.figure(f"{shape}_growth", most.event_us / least.event_us)


def _warm_up(node: ApplyOperator, batches: list[EventBatch], size: ModulesSize) -> None:
    run(node, batches[:1])  # what is compiled is compiled now
    for _ in warm_up(lambda _: run(node, batches).events_per_s, size.warm_ups):
        pass


def _measure(
    report: Report,
    what: str,
    node: ApplyOperator,
    batches: list[EventBatch],
    size: ModulesSize,
    **about: object,
) -> RunCost:
    """The run in the middle of all repeats."""
    costs = sorted((run(node, batches) for _ in range(size.repeats)), key=lambda c: c.seconds)
    middle = statistics.median_low(cost.seconds for cost in costs)
    cost = next(cost for cost in costs if cost.seconds == middle)
    report.measured(
        what,
        **about,
        events_per_s=round(cost.events_per_s),
        windows_per_s=round(cost.windows_per_s),
        event_us=round(cost.event_us, 3),
        all_event_us=[round(each.event_us, 3) for each in costs],
    )
    return cost
