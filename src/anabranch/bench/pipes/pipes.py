"""The experiments of PIPES: intervals beside positive and negative elements.

Kraemer (2007, chapter 14) compares two ways to run the same plans. In the time-interval approach
(TIA) an element carries its lifetime; in the positive-negative approach (PNA) a second element
ends it. Both are implemented element by element in the same style under `tests/bench`, and the
product's own kernels, which work on columns, run beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.bench.pipes.auction import (
    closing_price,
    currency,
    highest_bid,
    overview,
    selection,
    short_auctions,
    time_queries,
    window_state,
)
from anabranch.bench.pipes.lab import PipesLab, PipesSize
from anabranch.bench.pipes.numbers import count_windows, queue_placement, sweep_areas
from anabranch.bench.pipes.reference import load_reference
from anabranch.bench.pipes.workload import auction
from anabranch.bench.report import Form, Report

SIZES: Final[Mapping[Form, PipesSize]] = {
    "full": PipesSize(bids=200_000, numbers=100_000, swept=30_000, batch=20_000, repeats=5),
    "quick": PipesSize(bids=20_000, numbers=10_000, swept=5_000, batch=10_000, repeats=3),
    "smoke": PipesSize(bids=1_000, numbers=600, swept=300, batch=500, repeats=1, clock=False),
}


def pipes(report: Report) -> None:
    """Experiments E1 to E11; figures per experiment, `published_that_hold` of `published`.

    Raises:
        QueryError: This is not a source checkout.
    """
    run_experiments(report, SIZES[report.form])


def run_experiments(report: Report, size: PipesSize) -> None:
    """All experiments in one size."""
    lab = PipesLab(report, load_reference(), size)
    feed = auction(size.bids)
    report.measured("data", **{name: len(stream) for name, stream in feed.streams.items()})
    time_queries(lab, feed)
    for experiment in (overview, currency, selection, window_state, short_auctions):
        experiment(lab, feed)
    for one in (highest_bid, closing_price, count_windows, sweep_areas, queue_placement):
        one(lab)
    report.figure("published", len(lab.checks))
    report.figure("published_that_hold", sum(lab.checks))
