"""The plans of both references mean what the product's queries mean, and so do its kernels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from anabranch.bench.pipes.queries import BIDS, CLOSED, OPENED, QUERIES, count_window
from anabranch.bench.pipes.workload import PointStream, StreamFeed, auction, numbers, steady_numbers
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import rows_of
from anabranch.testing.oracle import meaning
from tests.bench.operators import Element, by_sign
from tests.bench.plans import DAY, HOUR, PLANS, SECOND, Plan
from tests.bench.plans import count_window as count_window_plan

QUERY_OF = {
    plan: "q4 coalesce" if "coalesce" in plan else "q5 plan 2" if "plan 2" in plan else plan[:2]
    for plan in PLANS
    if plan.startswith("q")
}


def small_auction(seed: int) -> StreamFeed:
    """A few auctions over four days: many short ones, equal prices, bids that share an instant."""
    draw = random.Random(seed)
    step = 40 * SECOND
    opened, closed, bids = [], [], []
    for item in range(1000, 1030):
        start = draw.randrange(3 * DAY // step)
        opened.append(((item, draw.randrange(5), float(draw.randrange(9))), start))
        if draw.random() < 0.9:
            longest = draw.choice([5 * HOUR, 2 * DAY, 3 * DAY]) // step
            closed.append(((item, draw.choice([None, 7])), start + draw.randrange(longest + 1)))
        for _ in range(draw.randrange(9)):
            made = start + draw.randrange(draw.choice([20, 1000]))
            bids.append(((item, draw.randrange(9), float(draw.randrange(9))), made))

    def points(rows: Sequence[tuple[tuple[object, ...], int]], schema: pa.Schema) -> PointStream:
        ordered = sorted(rows, key=lambda row: row[1])
        time = np.array([at * step for _, at in ordered], np.int64)
        return PointStream(rows_of([payload for payload, _ in ordered], schema), time)

    return StreamFeed(
        {
            "Bid": points(bids, BIDS.schema),
            "OpenAuction": points(opened, OPENED.schema),
            "ClosedAuction": points(closed, CLOSED.schema),
        }
    )


def meaning_of(feed: StreamFeed, query: str) -> LogicalStream:
    streams = {}
    for name in feed.streams:
        elements = [element for _, element in feed.arrivals((name,), signed=False)]
        streams[name] = LogicalStream.of((as_tuple(p), start, end) for p, start, end in elements)
    return meaning(QUERIES[query], streams)


def as_tuple(payload: object) -> tuple[object, ...]:
    return payload if isinstance(payload, tuple) else (payload,)


def run(plan: Plan, feed: StreamFeed, *, signed: bool) -> list[Element]:
    pushes, results = plan.start()
    order = [pushes[name] for name in plan.entries]
    for side, element in feed.arrivals(tuple(plan.entries), signed=signed):
        order[side](element)
    plan.end()
    return results


def understood(results: list[Element], *, signed: bool) -> LogicalStream:
    """What results mean; they must be in their order."""
    found = [(as_tuple(payload), time, other) for payload, time, other in results]
    if signed:
        assert all(by_sign(one) <= by_sign(other) for one, other in pairwise(found))
        return LogicalStream.of_changes(found)
    assert all(one[1] <= other[1] for one, other in pairwise(found))
    assert all(start < end for _, start, end in found)
    return LogicalStream.of(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("plan", QUERY_OF)
def test_queries(plan: str, seed: int) -> None:
    feed = small_auction(seed)
    signed = "pna" in plan
    got = understood(run(PLANS[plan](), feed, signed=signed), signed=signed)
    assert got.steps
    assert got.difference(meaning_of(feed, QUERY_OF[plan])) == ""


@pytest.mark.parametrize("query", [query for query in QUERIES if query != "join"])
def test_the_kernels_of_the_product_give_the_same(query: str) -> None:
    feed = small_auction(5)
    runner = LocalRunner(QUERIES[query])
    steps = feed.batches(tuple(runner.plan.sources), 20)
    got = LogicalStream.of_batches([runner.step(step) for step in steps])
    assert got.difference(meaning_of(feed, query)) == ""


@pytest.mark.parametrize("plan", [plan for plan in PLANS if plan.startswith("join")])
def test_joins_of_numbers(plan: str) -> None:
    feed = numbers(150, 1, 20)
    signed = "pna" in plan
    got = understood(run(PLANS[plan](), feed, signed=signed), signed=signed)
    assert got == meaning_of(feed, "join")
    runner = LocalRunner(QUERIES["join"])
    steps = feed.batches(tuple(runner.plan.sources), 100)
    assert got == LogicalStream.of_batches([runner.step(step) for step in steps])


def test_a_count_window_of_the_product_gives_results_at_once() -> None:
    feed = steady_numbers(30, 50)
    runner = LocalRunner(count_window(10))
    outs = [runner.step(step) for step in feed.batches(("Number",), 1)]
    assert len(outs[0]) == 1
    wanted = understood(run(count_window_plan("tia", 10), feed, signed=False), signed=False)
    assert LogicalStream.of_batches(outs) == wanted


def test_the_auction_is_as_published() -> None:
    streams = auction(40_000).streams
    bids, opened, closed = (streams[name] for name in ("Bid", "OpenAuction", "ClosedAuction"))
    assert (len(bids), len(opened)) == (40_000, 4_000)
    for stream in streams.values():
        assert np.all(np.diff(stream.time) >= 0)
    of_open = dict(zip(opened.payload.column("itemID").to_pylist(), opened.time.tolist()))
    items = closed.payload.column("itemID").to_pylist()
    lasted = [end - of_open[item] for item, end in zip(items, closed.time.tolist())]
    assert 0 < min(lasted) < 5 * HOUR < max(lasted) < 2 * DAY
    of_close = dict(zip(items, closed.time.tolist()))
    for item, time in zip(bids.payload.column("itemID").to_pylist(), bids.time.tolist()):
        assert of_open[item] <= time <= of_close.get(item, time)
