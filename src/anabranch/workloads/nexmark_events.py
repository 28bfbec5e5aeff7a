"""The public Nexmark benchmark: persons, auctions and bids in the proportions 1 : 3 : 46, seeded.

Schemas, proportions and what is hot are those of the generator in github.com/nexmark/nexmark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import QueryError
from anabranch.model.time import SECOND, Duration, Time, TimeArray
from anabranch.workloads.nexmark_words import Channels, emails, from_pool, phrases, some_of
from anabranch.workloads.random_access import Floats, Integers, Randomness

_TIME: Final = pa.timestamp("us", tz="UTC")
PERSON: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("emailAddress", pa.string()),
        ("creditCard", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("dateTime", _TIME),
        ("extra", pa.string()),
    ]
)
AUCTION: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("itemName", pa.string()),
        ("description", pa.string()),
        ("initialBid", pa.int64()),
        ("reserve", pa.int64()),
        ("dateTime", _TIME),
        ("expires", _TIME),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("extra", pa.string()),
    ]
)
BID: Final = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("dateTime", _TIME),
        ("extra", pa.string()),
    ]
)
SIDE_INPUT: Final = pa.schema([("key", pa.int64()), ("value", pa.string())])

StreamName: TypeAlias = Literal["person", "auction", "bid"]
SCHEMAS: Final[Mapping[StreamName, pa.Schema]] = {"person": PERSON, "auction": AUCTION, "bid": BID}

PERSONS, AUCTIONS, BIDS = 1, 3, 46
"""Of every fifty events, in this order."""

FIRST_ID: Final = 1000
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
_EPOCH: Final = PERSONS + AUCTIONS + BIDS
_LEAD: Final = 10  # ids that are not yet there, but will be soon
_HOT_ONE_IN: Final = 100  # of the last so many persons or auctions one is hot
_BEGIN: Final = Time(1_793_527_200_000_000)  # 2026-11-01T10:00:00Z
_MILLISECOND: Final = Duration(1_000)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkEvents:
    """What is generated; equal values give equal streams, whatever the size of the pieces.

    Event number n is a person, an auction or a bid by n modulo 50, and happens n / rate seconds
    after the beginning. Persons, auctions and bids are counted from 0, each for itself.

    Attributes:
        events: How many there are in all.
        seed: Another seed gives another auction house.
        rate: Events per second of event time.
        begin: When it begins.
        chronon: Times are multiples of it, so that several events share one.
        open_auctions: How many auctions are open at once, on average.
        active_persons: How many of the last persons sell and bid.
        channels: How many channels there are beside the four well-known ones.
    """

    events: int = 10_000
    seed: int = 1
    rate: float = 10_000.0
    begin: Time = _BEGIN
    chronon: Duration = _MILLISECOND
    open_auctions: int = 100
    active_persons: int = 1_000
    channels: int = 10_000

    def __post_init__(self) -> None:
        if self.events < 0:
            raise QueryError("the number of events is negative", hint="give 0 or more")
        counts = (self.chronon, self.open_auctions, self.active_persons, self.channels)
        if self.rate <= 0 or min(counts) < 1:
            raise QueryError(
                "the rate, the chronon and the numbers of auctions, persons and channels must be "
                "positive",
                where=f"rate {self.rate}, chronon {self.chronon}, auctions {self.open_auctions}, "
                f"persons {self.active_persons}, channels {self.channels}",
                hint="the defaults are 10000 events per second, 1 ms, 100, 1000 and 10000",
            )

    @property
    def random(self) -> Randomness:
        """Where all its randomness comes from."""
        return Randomness(self.seed)

    @property
    def longest_auction(self) -> Duration:
        """No auction is open for longer than this."""
        return Duration(self.chronon + 2 * self._half_length)

    @property
    def _half_length(self) -> int:
        # After that time as many new auctions have been opened as are open at once.
        return int(self.open_auctions * _EPOCH / AUCTIONS * (SECOND / self.rate))

    def count(self, stream: StreamName) -> int:
        """How many events of a stream there are."""
        first, size = _NUMBERS_OF[stream]
        epochs, rest = divmod(self.events, _EPOCH)
        return epochs * size + min(max(rest - first, 0), size)

    def time_of(self, event: Integers) -> TimeArray:
        """When an event happens; never falls with its number."""
        micros = (np.asarray(event) * (SECOND / self.rate)).astype(np.int64)
        return np.asarray(self.begin + micros // self.chronon * self.chronon)

    def times(self, stream: StreamName, position: Integers) -> TimeArray:
        """When the events of one stream at these positions happen."""
        return self.time_of(event_number(stream, position))

    def rows(self, stream: StreamName, position: Integers) -> pa.RecordBatch:
        """The rows of one stream at these positions, in its schema."""
        return _ROWS[stream](self, position)

    def persons(self, position: Integers) -> pa.RecordBatch:
        """The persons at these positions, in the schema PERSON."""
        random = self.random
        columns = [
            pa.array(FIRST_ID + position),
            some_of("person name", random, position),
            emails(random, position),
            pc.binary_join_element_wise(
                *(from_pool(f"card {part}", random, position, "card") for part in range(4)), " "
            ),
            some_of("city", random, position),
            some_of("state", random, position),
            _timestamps(self.times("person", position)),
            from_pool("person extra", random, position, "extra"),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=PERSON)

    def auctions(self, position: Integers) -> pa.RecordBatch:
        """The auctions at these positions, in the schema AUCTION."""
        random = self.random
        opened = self.times("auction", position)
        initial = prices(random.floats("initial bid", position))
        columns = [
            pa.array(FIRST_ID + position),
            from_pool("item", random, position, "word"),
            phrases(random, position),
            pa.array(initial),
            pa.array(initial + prices(random.floats("reserve", position))),
            _timestamps(opened),
            _timestamps(opened + self.lengths(position)),
            pa.array(FIRST_ID + self._sellers(position)),
            pa.array(FIRST_CATEGORY + random.integers("category", position, CATEGORIES)),
            from_pool("auction extra", random, position, "extra"),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=AUCTION)

    def lengths(self, position: Integers) -> TimeArray:
        """How long auctions are open."""
        drawn = self.random.integers("length", position, 2 * self._half_length + 1)
        return np.asarray(self.chronon + drawn // self.chronon * self.chronon)

    def bids(self, position: Integers) -> pa.RecordBatch:
        """The bids at these positions, in the schema BID."""
        random = self.random
        channel, url = Channels.of(self.seed, self.channels).take(random, position)
        columns = [
            pa.array(FIRST_ID + self._bid_auctions(position)),
            pa.array(FIRST_ID + self._bidders(position)),
            pa.array(prices(random.floats("price", position))),
            channel,
            url,
            _timestamps(self.times("bid", position)),
            from_pool("bid extra", random, position, "extra"),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=BID)

    def _bid_auctions(self, position: Integers) -> Integers:
        """Half of the bids go to a hot auction, the first of the last hundred."""
        newest = (position // BIDS + 1) * AUCTIONS - 1
        oldest = np.maximum(newest - self.open_auctions, 0)
        span = newest - oldest + 1 + _LEAD
        other = oldest + self.random.integers("auction", position, span)
        is_hot = self.random.floats("hot auction", position) < 1 / 2
        return np.where(is_hot, newest // _HOT_ONE_IN * _HOT_ONE_IN, other)

    def _bidders(self, position: Integers) -> Integers:
        """Three of four bids are by a hot person, the second of the last hundred."""
        newest = position // BIDS
        is_hot = self.random.floats("hot bidder", position) < 3 / 4
        hot = newest // _HOT_ONE_IN * _HOT_ONE_IN + 1
        return np.where(is_hot, hot, self._active("bidder", position, newest))

    def _sellers(self, position: Integers) -> Integers:
        """Three of four auctions are by a hot person, the first of the last hundred."""
        newest = position // AUCTIONS
        is_hot = self.random.floats("hot seller", position) < 3 / 4
        hot = newest // _HOT_ONE_IN * _HOT_ONE_IN
        return np.where(is_hot, hot, self._active("seller", position, newest))

    def _active(self, name: str, position: Integers, newest: Integers) -> Integers:
        active = np.minimum(newest + 1, self.active_persons)
        return newest + 1 - active + self.random.integers(name, position, active + _LEAD)


def event_number(stream: StreamName, position: Integers) -> Integers:
    """The number among all events of the event at a position of one stream."""
    first, size = _NUMBERS_OF[stream]
    return np.asarray(position // size * _EPOCH + first + position % size)


def prices(draw: Floats) -> Integers:
    """From 100 to 100 million cents; every power of ten is about as likely as any other."""
    decade = np.floor(draw * 6)
    part = draw * 6 - decade
    # Products, not powers: those may differ in the last bit from one machine to another.
    rise = 1 + part * (2.3 + part * (2.2 + part * 4.5))
    return np.asarray(np.round(_TENS[decade.astype(np.int64)] * rise * 100).astype(np.int64))


def side_input(rows: int = 10_000) -> pa.Table:
    """Numbers and their texts, for bids to be looked up in by auction modulo their number."""
    keys = pa.array(np.arange(rows, dtype=np.int64))
    return pa.Table.from_arrays([keys, keys.cast(pa.string())], schema=SIDE_INPUT)


def _timestamps(times: TimeArray) -> pa.Array:
    return pa.array(times).cast(_TIME)


_TENS: Final = np.array([1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0])
_NUMBERS_OF: Final[Mapping[StreamName, tuple[int, int]]] = {
    "person": (0, PERSONS),
    "auction": (PERSONS, AUCTIONS),
    "bid": (PERSONS + AUCTIONS, BIDS),
}
_ROWS: Final[Mapping[StreamName, Callable[[NexmarkEvents, Integers], pa.RecordBatch]]] = {
    "person": NexmarkEvents.persons,
    "auction": NexmarkEvents.auctions,
    "bid": NexmarkEvents.bids,
}
