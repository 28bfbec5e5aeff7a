"""The plans of Kraemer (2007, chapter 14) in both approaches, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final

from tests.bench import intervals, signed
from tests.bench.areas import (
    Area,
    Buckets,
    EndList,
    HeapedHash,
    ListedHash,
    ScannedBuckets,
)
from tests.bench.operators import (
    Element,
    Filter,
    Map,
    Operator,
    Push,
    Results,
    Union,
    by_sign,
    by_start,
)

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
NOW: Final = 1

ITEMS: Final = frozenset({1007, 1020, 2001, 2019, 1087})
EUROS: Final = 0.8


@dataclass(frozen=True)
class Plan:
    """Directly connected operators: where its sources push to, and what came out."""

    entries: Mapping[str, tuple[Operator, int]]
    last: Operator
    operators: tuple[Operator, ...] = ()

    def start(self) -> tuple[dict[str, Push], list[Element]]:
        """Where to push the elements of every source, and the list that results go to."""
        results = self.last.feed(Results())
        pushes = {name: first.entry(side) for name, (first, side) in self.entries.items()}
        return pushes, results.elements

    def end(self) -> None:
        """All sources have ended."""
        for first, side in self.entries.values():
            first.end(side)

    def state(self) -> int:
        """How many elements all operators hold."""
        return sum(operator.state() for operator in self.operators)


def _bid_in_euros(bid: Any) -> Any:
    return bid[0], bid[2] * EUROS, bid[1]


def _wanted(bid: Any) -> bool:
    return bid[0] in ITEMS


def _left(mine: Any, theirs: Any) -> Any:
    return mine


def _whole(payload: Any) -> Any:
    return payload


_item: Callable[[Any], Any] = itemgetter(0)
_price: Callable[[Any], Any] = itemgetter(2)
_item_and_price: Callable[[Any], Any] = itemgetter(0, 2)
_value: Callable[[Any], Any] = itemgetter(1)


def _same_item(stored: Any, mine: Any) -> bool:
    return bool(stored[0] == mine[0])


def currency_intervals() -> Plan:
    """Q1."""
    convert = Map(_bid_in_euros)
    return Plan({"Bid": (convert, 0)}, convert)


def currency_signed() -> Plan:
    """Q1; the now-window is needed for the negatives."""
    window = signed.TimeWindow(NOW)
    return Plan({"Bid": (window, 0)}, window.feed(Map(_bid_in_euros)), (window,))


def selection_intervals() -> Plan:
    """Q2."""
    keep = Filter(_wanted)
    return Plan({"Bid": (keep, 0)}, keep)


def selection_signed() -> Plan:
    """Q2."""
    window = signed.TimeWindow(NOW)
    return Plan({"Bid": (window, 0)}, window.feed(Filter(_wanted)), (window,))


def short_auctions_intervals(areas: tuple[Area, Area], *, hashed: bool = True) -> Plan:
    """Q3: what was opened in the last five hours and closes now."""
    keys = (_item, _item) if hashed else (_whole, _whole)
    join = intervals.Join(areas, keys, _left)
    window = intervals.TimeWindow(5 * HOUR)
    window.feed(join, 0)
    return Plan({"OpenAuction": (window, 0), "ClosedAuction": (join, 1)}, join, (window, join))


def short_auctions_signed(buckets: tuple[Buckets, Buckets], *, hashed: bool = True) -> Plan:
    """Q3."""
    keys = (_item, _item) if hashed else (_whole, _whole)
    join = signed.Join(buckets, keys, _left)
    window, now = signed.TimeWindow(5 * HOUR), signed.TimeWindow(NOW)
    window.feed(join, 0)
    now.feed(join, 1)
    entries: dict[str, tuple[Operator, int]] = {
        "OpenAuction": (window, 0),
        "ClosedAuction": (now, 0),
    }
    return Plan(entries, join, (window, now, join))


def highest_bid_intervals(*, coalesce: bool = False) -> Plan:
    """Q4: the bids of the last ten minutes whose price is the highest of these."""
    window = intervals.TimeWindow(10 * MINUTE)
    highest = window.feed(intervals.Aggregate(intervals.MAX, _price))
    right: Operator = highest
    areas: tuple[Area, Area] = (ListedHash(), ListedHash())
    if coalesce:
        # Its output has no order of ends in general.
        right = highest.feed(intervals.Coalesce(10 * MINUTE))
        areas = (ListedHash(), HeapedHash())
    join = intervals.Join(areas, (_price, _whole), lambda bid, _: _item_and_price(bid))
    window.feed(join, 0)
    right.feed(join, 1)
    return Plan({"Bid": (window, 0)}, join, (window, highest, join))


def highest_bid_signed(
    maximum: Callable[[], signed.SortedMaximum | signed.RecomputedMaximum],
    *,
    only_changes: bool = False,
) -> Plan:
    """Q4."""
    window = signed.TimeWindow(10 * MINUTE)
    highest = window.feed(signed.Aggregate(maximum(), _price, only_changes=only_changes))
    join = signed.Join(
        (Buckets(), Buckets()), (_price, _whole), lambda bid, _: _item_and_price(bid)
    )
    window.feed(join, 0)
    highest.feed(join, 1)
    return Plan({"Bid": (window, 0)}, join, (window, highest, join))


def closing_price(kind: str, *, group_first: bool) -> Plan:
    """Q5: the highest price of an auction that closes now, and its seller."""
    approach = intervals if kind == "tia" else signed
    bids, opened = approach.TimeWindow(2 * DAY), approach.TimeWindow(2 * DAY)
    prices = Union(by_start if kind == "tia" else by_sign)
    bids.feed(Map(_item_and_price)).feed(prices, 0)
    opened.feed(Map(_item_and_price)).feed(prices, 1)
    closing = _hash_join(kind, (HeapedHash, ListedHash), _left)
    prices.feed(closing, 0)
    group: Operator
    if group_first:
        group = _highest(kind, _item, _value, lambda item, price: (item, price))
        sellers = _hash_join(
            kind, (HeapedHash, ListedHash), lambda mine, auction: (mine[0], auction[1], mine[1])
        )
        closing.feed(group).feed(sellers, 0)
        last = sellers
    else:
        sellers = _hash_join(
            kind, (HeapedHash, ListedHash), lambda mine, auction: (mine[0], mine[1], auction[1])
        )
        group = _highest(kind, itemgetter(0, 2), _value, lambda key, price: (key[0], key[1], price))
        last = closing.feed(sellers, 0).feed(group)
    opened.feed(sellers, 1)
    held = (bids, opened, prices, closing, group, sellers)
    entries: dict[str, tuple[Operator, int]] = {"Bid": (bids, 0), "OpenAuction": (opened, 0)}
    if kind == "tia":
        return Plan({**entries, "ClosedAuction": (closing, 1)}, last, held)
    now = signed.TimeWindow(NOW)
    now.feed(closing, 1)
    return Plan({**entries, "ClosedAuction": (now, 0)}, last, (*held, now))


def _hash_join(
    kind: str,
    areas: tuple[type[HeapedHash] | type[ListedHash], type[HeapedHash] | type[ListedHash]],
    combine: Callable[[Any, Any], Any],
) -> Operator:
    if kind == "tia":
        return intervals.Join((areas[0](), areas[1]()), (_item, _item), combine)
    return signed.Join((Buckets(), Buckets()), (_item, _item), combine)


def _highest(
    kind: str,
    group: Callable[[Any], Any],
    value: Callable[[Any], Any],
    result: Callable[[Any, Any], Any],
) -> Operator:
    if kind == "tia":
        return intervals.Group(intervals.MAX, group, value, result)
    return signed.Group(group, value, result)


def count_window(kind: str, rows: int) -> Plan:
    """The last rows of the stream Number."""
    approach = intervals if kind == "tia" else signed
    window = approach.CountWindow(rows)
    return Plan({"Number": (window, 0)}, window, (window,))


def time_window(kind: str, size: int) -> Plan:
    """A window over bids alone."""
    approach = intervals if kind == "tia" else signed
    window = approach.TimeWindow(size)
    return Plan({"Bid": (window, 0)}, window, (window,))


def number_join(kind: str) -> Plan:
    """Equal numbers of A and B within five seconds: `list`, `heap`, `input` or `pna`."""
    window = signed.TimeWindow if kind == "pna" else intervals.TimeWindow
    join: Operator
    if kind == "pna":
        join = signed.Join((Buckets(), Buckets()), (_whole, _whole), _left)
    elif kind == "input":
        join = intervals.InputQueueJoin((ListedHash(), ListedHash()), (_whole, _whole), _left)
    else:
        area = HeapedHash if kind == "heap" else ListedHash
        join = intervals.Join((area(), area()), (_whole, _whole), _left)
    first, second = window(5 * SECOND), window(5 * SECOND)
    first.feed(join, 0)
    second.feed(join, 1)
    return Plan({"A": (first, 0), "B": (second, 0)}, join, (first, second, join))


PLANS: Final[Mapping[str, Callable[[], Plan]]] = {
    "q1/tia": currency_intervals,
    "q1/pna": currency_signed,
    "q2/tia": selection_intervals,
    "q2/pna": selection_signed,
    "q3/tia": lambda: short_auctions_intervals((ListedHash(), ListedHash())),
    "q3/pna": lambda: short_auctions_signed((Buckets(), Buckets())),
    "q3/tia heap": lambda: short_auctions_intervals((HeapedHash(), HeapedHash())),
    "q3/tia nested": lambda: short_auctions_intervals(
        (EndList(_same_item), EndList(_same_item)), hashed=False
    ),
    "q3/pna nested": lambda: short_auctions_signed(
        (ScannedBuckets(_same_item), ScannedBuckets(_same_item)), hashed=False
    ),
    "q4/tia": highest_bid_intervals,
    "q4/tia coalesce": partial(highest_bid_intervals, coalesce=True),
    "q4/pna": partial(highest_bid_signed, signed.SortedMaximum),
    "q4/pna changes": partial(highest_bid_signed, signed.SortedMaximum, only_changes=True),
    "q4/pna recomputed": partial(highest_bid_signed, signed.RecomputedMaximum),
    "q5/tia": partial(closing_price, "tia", group_first=True),
    "q5/pna": partial(closing_price, "pna", group_first=True),
    "q5/tia plan 2": partial(closing_price, "tia", group_first=False),
    "q5/pna plan 2": partial(closing_price, "pna", group_first=False),
    "join/list": partial(number_join, "list"),
    "join/heap": partial(number_join, "heap"),
    "join/input": partial(number_join, "input"),
    "join/output": partial(number_join, "list"),
    "join/pna": partial(number_join, "pna"),
}
