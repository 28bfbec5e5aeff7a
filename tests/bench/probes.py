"""What is counted rather than timed: elements held, waiting, inserted and deleted."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench import intervals
from tests.bench.areas import CountingBuckets, ListedHash
from tests.bench.operators import Element
from tests.bench.plans import (
    Plan,
    count_window,
    number_join,
    short_auctions_intervals,
    short_auctions_signed,
    time_window,
)

Arrivals = Sequence[tuple[int, Element]]


def held_by_window(
    kind: str, size: int, arrivals: Arrivals, points: int
) -> tuple[float, int, int, list[tuple[int, int]]]:
    """The elements a time window holds: average over time, least, most, and some in between.

    Counted from the first instant at which the window is full.
    """
    plan = time_window(kind, size)
    pushes, _ = plan.start()
    push = pushes["Bid"]
    since = arrivals[0][1][1] + size
    area, low, high = 0, len(arrivals), 0
    curve: list[tuple[int, int]] = []
    every = max(1, len(arrivals) // points)
    before, held = since, 0
    last = arrivals[0][1][1]
    for number, (_, element) in enumerate(arrivals):
        time = element[1]
        if time > before:
            area += held * (time - before)
            low, high = min(low, held), max(high, held)
            before = time
        # Elements of one instant come together: what is held then is seen afterwards.
        if time > last and number >= every * len(curve):
            curve.append((last - arrivals[0][1][1], held))
        last = time
        push(element)
        held = plan.state()
    return area / max(1, before - since), low, high, curve


def waiting(kind: str, arrivals: Arrivals, window: int) -> tuple[float, float]:
    """What enters the queue of a join per arrival, and how much waits in it on average.

    Counted at every arrival, apart from what that arrival itself puts in, once the windows are
    full.
    """
    plan = number_join(kind)
    join = plan.operators[-1]
    assert isinstance(join, intervals.Join | intervals.InputQueueJoin)
    pushes, _ = plan.start()
    order = [pushes[name] for name in plan.entries]
    since = arrivals[0][1][1] + window
    count = entered = waited = 0
    for side, element in arrivals:
        before = join.queued
        order[side](element)
        if element[1] >= since:
            count += 1
            own = sum(entry[0] == element[1] for entry in join.queue)
            entered += join.queued - before
            waited += len(join.queue) - own
    return entered / count, waited / count


def inserts_and_deletes(kind: str, arrivals: Arrivals) -> tuple[int, int]:
    """How often the areas of the join of Q3 are changed."""
    buckets = (CountingBuckets(), CountingBuckets())
    plan = (
        short_auctions_intervals((ListedHash(buckets[0]), ListedHash(buckets[1])))
        if kind == "tia"
        else short_auctions_signed(buckets)
    )
    _push_all(plan, arrivals)
    return sum(each.added for each in buckets), sum(each.removed for each in buckets)


def held_on_average(plan: Plan, arrivals: Arrivals, samples: int) -> float:
    """How many elements all operators hold, over the second half of a run."""
    pushes, _ = plan.start()
    order = [pushes[name] for name in plan.entries]
    half = len(arrivals) // 2
    every = max(1, half // samples)
    seen = []
    for number, (side, element) in enumerate(arrivals):
        order[side](element)
        if number >= half and number % every == 0:
            seen.append(plan.state())
    return sum(seen) / len(seen)


def results_by_arrival(kind: str, rows: int, arrivals: Arrivals) -> list[tuple[int, int]]:
    """After every arrival, how many positives (or lifetimes) and negatives a count window gave."""
    plan = count_window(kind, rows)
    pushes, results = plan.start()
    push = pushes["Number"]
    given = []
    positives = negatives = seen = 0
    for _, element in arrivals:
        push(element)
        for result in results[seen:]:
            if kind == "pna" and result[2] < 0:
                negatives += 1
            else:
                positives += 1
        seen = len(results)
        given.append((positives, negatives))
    return given


def _push_all(plan: Plan, arrivals: Arrivals) -> None:
    pushes, _ = plan.start()
    order = [pushes[name] for name in plan.entries]
    for side, element in arrivals:
        order[side](element)
    plan.end()
