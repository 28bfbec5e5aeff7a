"""What the optimizer does with the auction queries."""

from __future__ import annotations

import pytest

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.model.logical import LogicalStream
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.regions import regions
from anabranch.optimizer.rules.push_grouping_below_join import push_grouping_below_join
from anabranch.optimizer.statistics import SourceStatistics
from anabranch.testing import meaning
from tests.optimizer.auctions import (
    CLOSED_AT,
    CURRENT,
    DATA,
    OPENED,
    closing_price,
    closing_price_grouped_first,
    current_price,
    selling_price,
    without_key,
)

FEW_BIDS = {
    "Bid": SourceStatistics(rate=1000.0, distinct={"itemID": 1000}),
    "OpenAuction": SourceStatistics(rate=10.0, distinct={"itemID": 1000}),
    "ClosedAuction": SourceStatistics(rate=10.0, distinct={"itemID": 1000}),
}


@pytest.mark.parametrize("swapped", [False, True])
def test_current_prices_do_not_depend_on_the_order_of_joins(swapped: bool) -> None:
    plan = current_price(swapped=swapped)
    assert meaning(plan, DATA) == CURRENT
    assert meaning(optimize(plan).node, DATA) == CURRENT


@pytest.mark.parametrize(
    "plan",
    [closing_price(), closing_price(swapped=True), closing_price_grouped_first()],
    ids=["original", "joins swapped", "K23"],
)
def test_closing_prices_are_the_same_from_every_plan(plan: Node) -> None:
    assert meaning(plan, DATA) == CLOSED_AT
    assert meaning(optimize(plan).node, DATA) == CLOSED_AT
    assert meaning(optimize(plan, statistics=FEW_BIDS).node, DATA) == CLOSED_AT


def test_grouping_moves_below_the_join_with_what_is_unique() -> None:
    pushed = push_grouping_below_join(closing_price())
    assert pushed is not None
    assert isinstance(pushed.inputs[0], Join)
    assert isinstance(pushed.inputs[0].left, Aggregation)
    assert meaning(pushed, DATA) == CLOSED_AT


def test_grouping_stays_where_nothing_is_known_to_be_unique() -> None:
    plan = without_key(closing_price())
    assert push_grouping_below_join(optimize(plan, alternatives=()).node) is None
    assert push_grouping_below_join(plan) is None
    twice = DATA | {
        "OpenAuction": DATA["OpenAuction"].union(LogicalStream.of([((1, "s1", 5.0), 4, 5)]))
    }
    assert meaning(optimize(plan).node, twice) == meaning(plan, twice)


def test_the_window_that_two_branches_share_stays_shared() -> None:
    found = optimize(current_price()).node
    windows = [node for node in found.walk() if isinstance(node, TimeWindow)]
    assert windows.count(OPENED) == 2
    assert len(set(windows)) == 2


def test_an_optimised_plan_costs_less() -> None:
    model = CostModel(FEW_BIDS)
    for plan in (closing_price(), current_price(), selling_price()):
        found = optimize(plan, statistics=FEW_BIDS).node
        assert model.total(found).weight < model.total(plan).weight


def test_all_above_the_windows_of_q5_is_one_region() -> None:
    (region,) = regions(closing_price())
    windows = {node for node in region.inputs if isinstance(node, TimeWindow)}
    assert OPENED in windows
    assert len(windows) == 2
    assert {node.label for node in region.inputs} == {"TimeWindow 48", "Source ClosedAuction"}
    kinds = [type(node) for node in region.nodes]
    assert kinds.count(Join) == 2
    assert kinds[-1] is Aggregation


def test_the_second_window_of_q7_parts_two_regions() -> None:
    plan = selling_price()
    below, above = regions(plan)
    assert above.nodes == (plan,)
    (window,) = above.inputs
    assert isinstance(window, CountWindow)
    assert below.nodes[-1] == window.input


def test_q7_gives_the_mean_of_the_last_items() -> None:
    plan = selling_price(rows=2)
    assert meaning(optimize(plan).node, DATA) == meaning(plan, DATA)
