"""How a stream of bids arrives: out of order, late, corrected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import QueryError
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.workloads.disturbance import (
    REPLACE,
    WITHDRAW,
    Arrived,
    Disturbance,
    EventTimes,
    arrivals,
    corrected,
    rechunked,
)
from anabranch.workloads.nexmark import BID, Nexmark
from anabranch.workloads.random_access import Randomness

__all__ = [
    "BID_PAYLOAD",
    "Disturbance",
    "bid_copy",
    "bid_elements",
    "bid_rows",
    "write_bid_rows",
]

BID_PAYLOAD: Final = pa.schema([field for field in BID if field.name != "bidTS"])
"""A bid as an event: its time is the start of its lifetime."""

_BLOCK: Final = 65_536


def bid_rows(
    config: Nexmark, disturbance: Disturbance | None = None, chunk_rows: int = _BLOCK
) -> Iterator[pa.RecordBatch]:
    """The stream Bid as plain rows, in the order of arrival.

    Args:
        config: Which bids.
        disturbance: How they arrive; plain rows cannot be corrected.
        chunk_rows: Rows per piece; has no influence on the rows.

    Raises:
        QueryError: Corrections are asked for.
    """
    how = disturbance or Disturbance()
    if how.corrections:
        raise QueryError(
            "plain rows cannot be corrected",
            where=f"corrections {how.corrections}",
            hint="write elements (JSON lines, or Parquet of elements), or leave corrections out",
        )
    parts = rechunked(arrivals(_clock(config), how), chunk_rows)
    return (config.bid_rows(part.event) for part in parts)


def bid_elements(
    config: Nexmark, disturbance: Disturbance | None = None, chunk_rows: int = _BLOCK
) -> Iterator[EventBatch]:
    """The stream Bid as events of one chronon (a microsecond), in the order of arrival.

    A batch ends where a stable point is said, so there are `stable_every` rows in each; the last
    batch says that the stream has ended. Without late rows the stream is legal.

    Args:
        config: Which bids.
        disturbance: How they arrive, and which are corrected.
        chunk_rows: At most so many rows per batch; has no influence on the elements.
    """
    how = disturbance or Disturbance()
    parts = _parts(_clock(config), how)
    events = ((part, _events(config, part, part.kind == REPLACE)) for part in parts)
    return _batches(events, how, chunk_rows)


def bid_copy(config: Nexmark, number: int, disturbance: Disturbance) -> Iterator[EventBatch]:
    """The stream Bid as one of many copies, which arrive differently and mean the same.

    What is corrected was wrong on its way: such a bid comes with another price, is withdrawn, and
    comes again as it is. So in the end there are the bids of `config`, whatever the disturbance.
    Copies of other numbers have another order, and other bids are wrong at first.
    """
    how = replace(disturbance, replaced=1.0)
    (seed,) = config.random.integers("copy", np.array([number], np.int64), 2**53)
    clock = replace(_clock(config), random=Randomness(int(seed)))

    def events() -> Iterator[tuple[Arrived, EventBatch]]:
        for part in _parts(clock, how):
            wrong = corrected(clock, how, part.event) & (part.kind != REPLACE)
            yield part, _events(config, part, wrong)

    return _batches(events(), how, _BLOCK)


def write_bid_rows(
    target: Path,
    config: Nexmark,
    disturbance: Disturbance | None = None,
    *,
    files: int = 1,
    watch: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = lambda rows: rows,
) -> None:
    """Write the stream Bid as plain rows to a Parquet file, or to files of a folder.

    Args:
        target: A file if its name ends in `.parquet`, else a folder, which is made if needed.
        config: Which bids.
        disturbance: How they arrive.
        files: Spread the rows, in the order of arrival, over so many files of the folder.
        watch: Sees the rows pass by.
    """
    is_file = target.suffix == ".parquet"
    chunk_rows = 2**20 if is_file else max(1, -(-config.bids // files))
    rows = watch(bid_rows(config, disturbance, chunk_rows))
    if is_file:
        with pq.ParquetWriter(target, BID) as writer:
            for part in rows:
                writer.write_batch(part)
        return
    target.mkdir(parents=True, exist_ok=True)
    parts = rows if config.bids else iter([no_rows(BID)])
    for number, part in enumerate(parts):
        pq.write_table(pa.Table.from_batches([part]), target / f"part-{number:05}.parquet")


def _parts(clock: EventTimes, how: Disturbance) -> Iterator[Arrived]:
    """What arrives, in pieces that end where a stable point is said."""
    every = how.stable_every
    return rechunked(arrivals(clock, how), every * max(1, _BLOCK // every))


def _batches(
    parts: Iterator[tuple[Arrived, EventBatch]], how: Disturbance, chunk_rows: int
) -> Iterator[EventBatch]:
    """The events of parts, each batch with its stable point; at last that the stream has ended."""
    every = how.stable_every
    for part, events in parts:
        count = len(events)
        for first in range(0, count, every):
            end = min(first + every, count)
            for low in range(first, end, chunk_rows):
                high = min(low + chunk_rows, end)
                is_last = high == first + every
                stable = int(part.time[high - 1]) - how.patience if is_last else BEGINNING
                yield _slice(events, low, high, Time(stable))
    yield EventBatch.empty(BID_PAYLOAD, FOREVER)


def _slice(events: EventBatch, low: int, high: int, stable: Time) -> EventBatch:
    return EventBatch(
        events.payload.slice(low, high - low),
        events.start[low:high],
        events.end[low:high],
        events.new_end[low:high],
        stable,
    )


def _events(config: Nexmark, part: Arrived, other: npt.NDArray[np.bool_]) -> EventBatch:
    """The elements of a part; `other` are those with another price than the bid has."""
    rows = config.bid_rows(part.event)
    price = rows.column("price").to_numpy()
    factor = 0.5 + config.random.floats("other price", part.event)
    columns = [
        rows.column("itemID"),
        rows.column("bidderID"),
        pa.array(np.where(other, np.round(price * factor, 2), price)),
    ]
    start = config.bid_times(part.event)
    withdrawn = part.kind == WITHDRAW
    return EventBatch(
        pa.RecordBatch.from_arrays(columns, schema=BID_PAYLOAD),
        start,
        start + withdrawn,
        start + ~withdrawn,
    )


def _clock(config: Nexmark) -> EventTimes:
    return EventTimes(config.bids, config.random, config.bid_times, config.time_of)
