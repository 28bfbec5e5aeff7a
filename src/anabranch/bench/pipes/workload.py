"""The streams of the experiments: an online auction, and random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.payload import payloads
from anabranch.model.time import FOREVER, SECOND, Duration, Time, TimeArray
from anabranch.workloads.nexmark import (
    CLOSED_AUCTION,
    FIRST_ID,
    OPEN_AUCTION,
    Nexmark,
    closed_auctions,
    open_auctions,
)
from anabranch.workloads.random_access import Integers

RATE: Final = 0.16
"""Bids per second, as in the published data (97 in ten minutes, 2880 in five hours)."""

BURST: Final = Duration(40 * SECOND)
"""All bids within so long share a timestamp: six or seven, six as published."""

LONGEST: Final = 46 * 3600 * SECOND
"""An auction stays open up to so long after its last bid, so two days at most."""

INTERVAL: Final = 10_000
"""Numbers arrive every 10 ms on average."""

Arrival: TypeAlias = tuple[int, tuple[Any, int, int]]
"""The place of a source among those of a plan, and an element."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class PointStream:
    """A stream of points in the order of time."""

    payload: pa.RecordBatch
    time: TimeArray

    def __len__(self) -> int:
        return len(self.time)


@final
@dataclass(frozen=True, slots=True, eq=False)
class StreamFeed:
    """Streams by name, and the forms they are pushed in, which are made once."""

    streams: Mapping[str, PointStream]
    _arrivals: dict[tuple[tuple[str, ...], bool], list[Arrival]] = field(default_factory=dict)
    _batches: dict[tuple[tuple[str, ...], int], list[dict[str, EventBatch]]] = field(
        default_factory=dict
    )

    def arrivals(self, sources: tuple[str, ...], *, signed: bool) -> list[Arrival]:
        """The elements of some sources in the order of time, as a reference takes them.

        An element is `(payload, start, end)`, or `(payload, time, 1)` for the signed one.
        """
        key = (sources, signed)
        if key not in self._arrivals:
            self._arrivals[key] = _arrivals(self.streams, sources, signed)
        return self._arrivals[key]

    def batches(self, sources: tuple[str, ...], rows: int) -> list[dict[str, EventBatch]]:
        """The same as micro-batches of about so many rows of all sources together."""
        key = (sources, rows)
        if key not in self._batches:
            self._batches[key] = _batches(self.streams, sources, rows)
        return self._batches[key]


def auction(bids: int, *, burst: Duration = BURST, seed: int = 14) -> StreamFeed:
    """Bid, OpenAuction and ClosedAuction of a NEXMark auction, at the published rate.

    The generator closes all auctions after the same time. Here each stays open for a while after
    that, up to two days in all, so that some of them are short and others are not. What closes
    after the last bid is left out.
    """
    config = Nexmark(bids=bids, seed=seed, rate=RATE, chronon=burst, open_items=100)
    bid = config.bid_rows(np.arange(bids, dtype=np.int64))
    opened = pa.concat_batches(
        [pa.RecordBatch.from_pylist([], OPEN_AUCTION), *open_auctions(config)]
    )
    closed = pa.concat_batches(
        [pa.RecordBatch.from_pylist([], CLOSED_AUCTION), *closed_auctions(config)]
    )
    item = np.asarray(closed.column("itemID")) - FIRST_ID
    left_open = config.random.floats("left open", item) * LONGEST
    when = _times(closed) + left_open.astype(np.int64) // burst * burst
    order = np.argsort(when, kind="stable")
    # All streams end together; a source that goes on alone would only fill the queues.
    order = order[: np.searchsorted(when[order], _times(bid)[-1], side="right")]
    return StreamFeed(
        {
            "Bid": _points(bid, _times(bid)),
            "OpenAuction": _points(opened, _times(opened)),
            "ClosedAuction": _points(closed.take(pa.array(order)), when[order]),
        }
    )


def numbers(count: int, low: int, high: int, seed: int = 14) -> StreamFeed:
    """A and B: uniform integers from low to high; the times between two are exponential.

    Both end with the shorter one, so there are a few less than `count`.
    """
    random = np.random.default_rng([seed, low, high])
    times = np.cumsum(random.exponential(INTERVAL, (2, count)), axis=1).astype(np.int64)
    values = random.integers(low, high + 1, (2, count))
    there = times <= times[:, -1].min()
    return StreamFeed(
        {
            name: _numbers(values[side, there[side]], times[side, there[side]])
            for side, name in enumerate("AB")
        }
    )


def steady_numbers(count: int, per_second: int, seed: int = 14) -> StreamFeed:
    """Number: random numbers at a constant rate."""
    time = np.arange(count, dtype=np.int64) * (SECOND // per_second)
    value = np.random.default_rng(seed).integers(0, 1_000_000, count)
    return StreamFeed({"Number": _numbers(value, time)})


def _numbers(value: Integers, time: TimeArray) -> PointStream:
    return PointStream(pa.RecordBatch.from_arrays([pa.array(value)], names=["number"]), time)


def _points(rows: pa.RecordBatch, time: TimeArray) -> PointStream:
    """A point per row; its last column is its time."""
    return PointStream(rows.select(rows.schema.names[:-1]), time)


def _times(rows: pa.RecordBatch) -> TimeArray:
    return np.asarray(rows.columns[-1].cast(pa.int64()))


def _arrivals(
    streams: Mapping[str, PointStream], sources: tuple[str, ...], signed: bool
) -> list[Arrival]:
    found: list[tuple[int, int, Arrival]] = []
    for index, name in enumerate(sources):
        stream = streams[name]
        rows = payloads(stream.payload, len(stream))
        plain = [row[0] for row in rows] if stream.payload.num_columns == 1 else rows
        found += [
            (time, index, (index, (row, time, 1 if signed else time + 1)))
            for row, time in zip(plain, stream.time.tolist())
        ]
    found.sort(key=lambda arrival: arrival[:2])
    return [arrival for _, _, arrival in found]


def _batches(
    streams: Mapping[str, PointStream], sources: tuple[str, ...], rows: int
) -> list[dict[str, EventBatch]]:
    every = np.sort(np.concatenate([streams[name].time for name in sources]))
    cuts = [int(time) for time in every[rows::rows]]
    found = []
    before = dict.fromkeys(sources, 0)
    for cut in [*dict.fromkeys(cuts), int(FOREVER)]:
        step = {}
        for name in sources:
            stream = streams[name]
            low, high = before[name], int(np.searchsorted(stream.time, cut))
            before[name] = high
            start = stream.time[low:high]
            step[name] = EventBatch(
                stream.payload.slice(low, high - low), start, start, start + 1, Time(cut)
            )
        found.append(step)
    return found
