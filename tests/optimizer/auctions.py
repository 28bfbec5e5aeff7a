"""Plans of the auction queries Q5 and Q7, with their data (an instant is an hour)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.model.logical import LogicalStream
from tests.optimizer.plans import join, of, select, window

BID: Final = Source(
    name="Bid",
    schema=pa.schema(
        [("itemID", pa.int64()), ("bid_price", pa.float64()), ("bidderID", pa.int64())]
    ),
    only_points=True,
)
OPEN: Final = Source(
    name="OpenAuction",
    schema=pa.schema(
        [("itemID", pa.int64()), ("sellerID", pa.string()), ("start_price", pa.float64())]
    ),
    only_points=True,
    unique=(("itemID",),),
)
CLOSED: Final = Source(
    name="ClosedAuction",
    schema=pa.schema([("itemID", pa.int64()), ("buyerID", pa.int64())]),
    only_points=True,
)
TWO_DAYS: Final = 48

OPENED: Final = window(OPEN, TWO_DAYS)
PRICES: Final = Union(
    inputs=(
        select(window(BID, TWO_DAYS), "itemID", ("price", "bid_price")),
        select(OPENED, "itemID", ("price", "start_price")),
    )
)
CLOSING: Final = select(CLOSED, ("closedID", "itemID"), "buyerID")
SELLERS: Final = select(OPENED, ("openID", "itemID"), "sellerID", "start_price")

DATA: Final = {
    "OpenAuction": LogicalStream.of(
        [((1, "s1", 5.0), 0, 1), ((2, "s2", 7.0), 1, 2), ((3, "s3", 9.0), 2, 3)]
    ),
    "Bid": LogicalStream.of(
        [((1, 6.0, 7), 3, 4), ((1, 8.0, 7), 5, 6), ((1, 7.5, 8), 5, 6)],
    ),
    "ClosedAuction": LogicalStream.of(
        [((1, None), 10, 11), ((2, None), 20, 21), ((3, None), 50, 51)]
    ),
}
CURRENT: Final = LogicalStream.of(
    [
        *(((1, price, "s1"), 10, 11) for price in (5.0, 6.0, 7.5, 8.0)),
        ((2, 7.0, "s2"), 20, 21),
    ]
)
CLOSED_AT: Final = LogicalStream.of([((1, "s1", 8.0), 10, 11), ((2, "s2", 7.0), 20, 21)])


def current_price(*, swapped: bool = False) -> Map:
    """CurrentPrice, with the joins in the order of the text or in the other one."""
    if swapped:
        first = join("inner", CLOSING, SELLERS, "closedID = openID")
        both = join("inner", PRICES, first, "itemID = closedID")
    else:
        first = join("inner", PRICES, CLOSING, "itemID = closedID")
        both = join("inner", first, SELLERS, "closedID = openID")
    return select(both, "itemID", "price", "sellerID")


def highest(over: Node, *by: str) -> Aggregation:
    groups = tuple((name, of(name, over)) for name in by)
    call = AggregateCall(function="max", argument=of("price", over))
    return Aggregation(input=over, group_by=groups, aggregates=(("price", call),))


def closing_price(*, swapped: bool = False) -> Aggregation:
    """ClosingPriceStream."""
    return highest(current_price(swapped=swapped), "itemID", "sellerID")


def closing_price_grouped_first() -> Map:
    """ClosingPriceStream with the grouping below the second join (K23)."""
    first = highest(join("inner", PRICES, CLOSING, "itemID = closedID"), "itemID", "closedID")
    both = join("inner", first, SELLERS, "closedID = openID")
    return select(both, "itemID", "sellerID", "price")


def selling_price(rows: int = 10) -> Aggregation:
    """Q7: the mean price of the last items of every seller."""
    prices = closing_price()
    by = (("sellerID", of("sellerID", prices)),)
    last = CountWindow(input=prices, rows=rows, partition_by=by, order_by=(of("price", prices),))
    call = AggregateCall(function="avg", argument=of("price", last))
    return Aggregation(input=last, group_by=by, aggregates=(("price", call),))


def without_key(plan: Node) -> Node:
    """The same plan where nobody says that an item is auctioned once."""
    if plan == OPEN:
        return replace(OPEN, unique=())
    return plan.with_inputs(*map(without_key, plan.inputs)) if plan.inputs else plan
