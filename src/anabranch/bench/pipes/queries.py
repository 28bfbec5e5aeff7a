"""The queries of the experiments as logical plans, which the product's own kernels run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.clock import MICROSECONDS
from anabranch.workloads.nexmark import BID, CLOSED_AUCTION, OPEN_AUCTION

NUMBER: Final = pa.schema([("number", pa.int64())])


def _source(name: str, rows: pa.Schema, *, last_is_time: bool = True) -> Source:
    columns = list(rows)[:-1] if last_is_time else list(rows)
    return Source(
        name=name,
        schema=pa.schema(columns),
        insert_only=True,
        only_points=True,
        timestamps=True,
    )


BIDS: Final = _source("Bid", BID)
OPENED: Final = _source("OpenAuction", OPEN_AUCTION)
CLOSED: Final = _source("ClosedAuction", CLOSED_AUCTION)


def _window(node: Node, size: str) -> Node:
    return TimeWindow(input=node, size=MICROSECONDS.duration(size))


def _columns(node: Node, **columns: str) -> Node:
    parsed = ((name, Expression.parse(text, node.schema)) for name, text in columns.items())
    return Map(input=node, columns=tuple(parsed))


def _join(left: Node, right: Node, predicate: str, *, semi: bool = False) -> Node:
    both = pa.schema([*left.schema, *right.schema])
    return Join(
        kind="semi" if semi else "inner",
        left=left,
        right=right,
        predicate=Expression.parse(predicate, both),
    )


def _highest(node: Node, price: str, *keys: str) -> Node:
    call = AggregateCall(function="max", argument=Expression.column(price, node.schema))
    groups = tuple((key, Expression.column(key, node.schema)) for key in keys)
    return Aggregation(input=node, group_by=groups, aggregates=(("highest", call),))


def currency() -> Node:
    """Q1: every bid in euros."""
    return _columns(BIDS, itemID="itemID", euros="price * 0.8D", bidderID="bidderID")


def selection() -> Node:
    """Q2: bids on five items."""
    wanted = "itemID IN (1007, 1020, 2001, 2019, 1087)"
    return Filter(input=BIDS, predicate=Expression.parse(wanted, BIDS.schema))


def short_auctions() -> Node:
    """Q3: auctions that close within five hours of their opening."""
    closed = _columns(CLOSED, closed="itemID")
    return _join(_window(OPENED, "5 hours"), closed, "itemID = closed", semi=True)


def highest_bid(*, coalesce: bool = False) -> Node:
    """Q4: the highest bids of the last ten minutes."""
    held = _window(BIDS, "10 minutes")
    highest = _highest(held, "price")
    right = Coalesce(input=highest) if coalesce else highest
    joined = _join(held, right, "price = highest", semi=True)
    return _columns(joined, itemID="itemID", price="price")


def closing_price(*, group_first: bool) -> Node:
    """Q5: the closing price and the seller of each auction."""
    opened = _window(OPENED, "2 days")
    prices = Union(
        inputs=(
            _columns(_window(BIDS, "2 days"), itemID="itemID", price="price"),
            _columns(opened, itemID="itemID", price="start_price"),
        )
    )
    closing = _join(prices, _columns(CLOSED, closed="itemID"), "itemID = closed", semi=True)
    sellers = _columns(opened, opened="itemID", sellerID="sellerID")
    if group_first:
        joined = _join(_highest(closing, "price", "itemID"), sellers, "itemID = opened")
        return _columns(joined, itemID="itemID", sellerID="sellerID", highest="highest")
    joined = _join(closing, sellers, "itemID = opened")
    return _highest(joined, "price", "itemID", "sellerID")


def number_join() -> Node:
    """Equal numbers of two streams within five seconds."""
    left = _window(_source("A", NUMBER, last_is_time=False), "5 seconds")
    right = _window(_source("B", NUMBER, last_is_time=False), "5 seconds")
    joined = _join(left, _columns(right, other="number"), "number = other")
    return _columns(joined, number="number")


def count_window(rows: int) -> Node:
    """The last rows of a stream of numbers."""
    return CountWindow(input=_source("Number", NUMBER, last_is_time=False), rows=rows)


QUERIES: Final[Mapping[str, Node]] = {
    "q1": currency(),
    "q2": selection(),
    "q3": short_auctions(),
    "q4": highest_bid(),
    "q4 coalesce": highest_bid(coalesce=True),
    "q5": closing_price(group_first=True),
    "q5 plan 2": closing_price(group_first=False),
    "join": number_join(),
}
