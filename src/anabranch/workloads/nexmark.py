"""NEXMark, an online auction: persons, auctions and the bids on them, seeded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.model.time import SECOND, Duration, Time, TimeArray
from anabranch.workloads.random_access import Floats, Integers, Randomness

BID: Final = pa.schema(
    [
        ("itemID", pa.int64()),
        ("bidderID", pa.int64()),
        ("price", pa.float64()),
        ("bidTS", pa.timestamp("us", tz="UTC")),
    ]
)
OPEN_AUCTION: Final = pa.schema(
    [
        ("itemID", pa.int64()),
        ("sellerID", pa.int64()),
        ("start_price", pa.float64()),
        ("openTS", pa.timestamp("us", tz="UTC")),
    ]
)
CLOSED_AUCTION: Final = pa.schema(
    [("itemID", pa.int64()), ("buyerID", pa.int64()), ("closeTS", pa.timestamp("us", tz="UTC"))]
)
PERSON: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("emailAddress", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("registrationTime", pa.timestamp("us", tz="UTC")),
    ]
)

FIRST_ID: Final = 1000
"""The first item and the first person."""

BIDS_PER_ITEM: Final = 10
BIDS_PER_PERSON: Final = 100
_UNSOLD: Final = 0.05
_BEGIN: Final = Time(1_793_527_200_000_000)  # 2026-11-01T10:00:00Z
_MILLISECOND: Final = Duration(1_000)
_FIRST_NAMES: Final = ("Ann", "Bob", "Carla", "Deniz", "Eve", "Farid", "Grace", "Hugo", "Ines")
_LAST_NAMES: Final = ("Abel", "Brook", "Costa", "Dahl", "Engel", "Fox", "Gupta", "Hill", "Ito")
_CITIES: Final = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Seattle", "WA"),
    ("Cheyenne", "WY"),
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Nexmark:
    """What is generated; equal values give equal streams, whatever the size of the pieces.

    Ten bids per item and a hundred per person, as in the data of Kraemer (2007, section 14.3).

    Attributes:
        bids: How many bids there are.
        seed: Another seed gives another auction.
        rate: Bids per second of event time.
        begin: When it begins.
        chronon: Times are multiples of it, so that several bids share one.
        open_items: How many auctions are open at once; each closes when as many newer ones are.
        items: If not 0, there are only so many items and their auctions never close.
        hot: The share of bids that go to hot items, one in ten of the open ones at most.
    """

    bids: int = 1_000
    seed: int = 1
    rate: float = 1_000.0
    begin: Time = _BEGIN
    chronon: Duration = _MILLISECOND
    open_items: int = 100
    items: int = 0
    hot: float = 0.5

    def __post_init__(self) -> None:
        for name in ("bids", "items"):
            if getattr(self, name) < 0:
                raise QueryError(f"'{name}' is negative", hint="give 0 or more")
        if self.rate <= 0 or self.chronon < 1 or self.open_items < 1:
            raise QueryError(
                "the rate, the chronon and the number of open items must be positive",
                where=f"rate {self.rate}, chronon {self.chronon}, open items {self.open_items}",
                hint="the defaults are 1000 bids per second, 1 ms and 100 items",
            )
        if not 0 <= self.hot <= 1:
            raise QueryError(f"{self.hot} is not a share", hint="a share is between 0 and 1")

    @property
    def random(self) -> Randomness:
        """Where all its randomness comes from."""
        return Randomness(self.seed)

    def time_of(self, position: Integers | Floats) -> TimeArray:
        """When the bid at this position is made; never falls with the position."""
        micros = (np.asarray(position) * (SECOND / self.rate)).astype(np.int64)
        return np.asarray(self.begin + micros // self.chronon * self.chronon)

    def bid_times(self, position: Integers) -> TimeArray:
        """The event time of bids: evenly spread, with some noise."""
        return self.time_of(position + self.random.floats("bid time", position))

    def bid_items(self, position: Integers) -> Integers:
        """The items of bids: half of them go to few hot items."""
        random = self.random
        newest = position // BIDS_PER_ITEM
        open_now = np.minimum(newest + 1, self.open_items)
        if self.items:
            newest = np.full(len(position), self.items - 1)
            open_now = np.full(len(position), self.items)
        any_item = newest - random.integers("item", position, open_now)
        spacing = max(1, (self.items or self.open_items) // 10)
        hot_item = newest - newest % spacing
        if self.items:
            hot_item = random.integers("hot item", position, max(1, self.items // 100)) * 10
        is_hot = random.floats("hot", position) < self.hot
        return np.asarray(FIRST_ID + np.where(is_hot, hot_item, any_item))

    def bid_rows(self, position: Integers) -> pa.RecordBatch:
        """The bids at these positions (counted from 0), in the schema BID."""
        random = self.random
        item = self.bid_items(position)
        age = np.maximum(position - (item - FIRST_ID) * BIDS_PER_ITEM, 0)
        rise = 1.0 + age / (BIDS_PER_ITEM * self.open_items) if not self.items else 1.0
        noise = 0.9 + 0.4 * random.floats("price", position)
        price = np.round(self.start_prices(item - FIRST_ID) * rise * noise, 2)
        times = pa.array(self.bid_times(position)).cast(BID.field("bidTS").type)
        columns = [
            pa.array(item),
            pa.array(self.person_ids("bidder", position)),
            pa.array(price),
            times,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=BID)

    def start_prices(self, item: Integers) -> Floats:
        """Between 1 and 1000, low ones more often."""
        draw = self.random.floats("start price", item)
        # Products, not powers: those may differ in the last bit from one machine to another.
        return np.asarray(np.round(1.0 + 999.0 * draw * draw * draw, 2))

    def person_ids(self, name: str, position: Integers) -> Integers:
        """Someone who has registered before the bid at a position; recent ones more often."""
        registered = position // BIDS_PER_PERSON + 1
        draw = self.random.floats(name, position)
        ago = (draw * draw * registered).astype(np.int64)
        return np.asarray(FIRST_ID + registered - 1 - ago)


def open_auctions(config: Nexmark, chunk_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
    """The stream OpenAuction in the order of time, in the schema OPEN_AUCTION."""
    for item in _pieces(_item_count(config), chunk_rows):
        opened = np.zeros_like(item) if config.items else item * BIDS_PER_ITEM
        columns = [
            pa.array(FIRST_ID + item),
            pa.array(config.person_ids("seller", opened)),
            pa.array(config.start_prices(item)),
            pa.array(config.time_of(opened)).cast(OPEN_AUCTION.field("openTS").type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=OPEN_AUCTION)


def closed_auctions(config: Nexmark, chunk_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
    """The stream ClosedAuction in the order of time; a few items find no buyer (NULL)."""
    count = 0 if config.items else _item_count(config)
    for item in _pieces(count, chunk_rows):
        closed = (item + config.open_items) * BIDS_PER_ITEM
        buyer = config.person_ids("buyer", closed)
        unsold = config.random.floats("unsold", item) < _UNSOLD
        columns = [
            pa.array(FIRST_ID + item),
            pa.array(buyer, mask=unsold),
            pa.array(config.time_of(closed)).cast(CLOSED_AUCTION.field("closeTS").type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=CLOSED_AUCTION)


def persons(config: Nexmark, chunk_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
    """The relation Person in the order of registration."""
    count = -(-config.bids // BIDS_PER_PERSON)
    for number in _pieces(count, chunk_rows):
        first = config.random.integers("first name", number, len(_FIRST_NAMES))
        last = config.random.integers("last name", number, len(_LAST_NAMES))
        city = config.random.integers("city", number, len(_CITIES))
        names = [f"{_FIRST_NAMES[i]} {_LAST_NAMES[j]}" for i, j in zip(first, last)]
        mails = [f"{_FIRST_NAMES[i].lower()}{n}@example.org" for i, n in zip(first, number)]
        columns = [
            pa.array(FIRST_ID + number),
            pa.array(names, pa.string()),
            pa.array(mails, pa.string()),
            pa.array([_CITIES[i][0] for i in city], pa.string()),
            pa.array([_CITIES[i][1] for i in city], pa.string()),
            pa.array(config.time_of(number * BIDS_PER_PERSON)).cast(
                PERSON.field("registrationTime").type
            ),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PERSON)


def _item_count(config: Nexmark) -> int:
    return config.items or -(-config.bids // BIDS_PER_ITEM)


def _pieces(count: int, size: int) -> Iterator[Integers]:
    for first in range(0, count, size):
        yield np.arange(first, min(first + size, count), dtype=np.int64)
