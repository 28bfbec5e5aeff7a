"""How a stream of bids arrives: out of order, late, corrected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import QueryError
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.time import BEGINNING, FOREVER, SECOND, Duration, Time, TimeArray
from anabranch.workloads.nexmark import BID, Nexmark
from anabranch.workloads.random_access import Integers

BID_PAYLOAD: Final = pa.schema([field for field in BID if field.name != "bidTS"])
"""A bid as an event: its time is the start of its lifetime."""

_BLOCK: Final = 65_536
_NONE: Final = Duration(0)
_TEN_SECONDS: Final = Duration(10 * SECOND)
_MINUTE: Final = Duration(60 * SECOND)
_INSERT, _WITHDRAW, _REPLACE = 0, 1, 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What happens to bids on their way.

    Attributes:
        disorder: A bid arrives up to so much later than it was made.
        late: The share of bids that arrive later than that, and so break the promises of
            stable points: a source must drop, revise or refuse them.
        late_by: By how much more, at most.
        corrections: The share of bids that are withdrawn after their arrival; half of these come
            again with another price.
        correction_delay: How long after its arrival a bid is corrected, at most.
        stable_every: A stable point follows so many rows.
    """

    disorder: Duration = _NONE
    late: float = 0.0
    late_by: Duration = _MINUTE
    corrections: float = 0.0
    correction_delay: Duration = _TEN_SECONDS
    stable_every: int = 1_000

    def __post_init__(self) -> None:
        for name in ("late", "corrections"):
            if not 0 <= getattr(self, name) <= 1:
                raise QueryError(f"'{name}' is not a share", hint="a share is between 0 and 1")
        if min(self.disorder, self.late_by, self.correction_delay) < 0 or self.stable_every < 1:
            raise QueryError(
                "a delay is negative, or stables come every 0 rows",
                hint="delays are 0 or more, and 'stable_every' is 1 or more",
            )

    @property
    def patience(self) -> int:
        """How far a stable point stays behind the clock of arrivals."""
        return self.disorder + (self.correction_delay if self.corrections else 0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Arrivals:
    """Elements by time of arrival: what happens to which bid."""

    time: TimeArray
    bid: Integers
    kind: Integers

    def take(self, rows: np.ndarray) -> _Arrivals:
        return _Arrivals(self.time[rows], self.bid[rows], self.kind[rows])


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
    return (config.bid_rows(part.bid) for part in _rechunked(_arrivals(config, how), chunk_rows))


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
    every = how.stable_every
    for part in _rechunked(_arrivals(config, how), every * max(1, _BLOCK // every)):
        events = _events(config, part)
        count = len(events)
        for first in range(0, count, every):
            end = min(first + every, count)
            for low in range(first, end, chunk_rows):
                high = min(low + chunk_rows, end)
                is_last = high == first + every
                stable = int(part.time[high - 1]) - how.patience if is_last else BEGINNING
                yield _slice(events, low, high, Time(stable))
    yield EventBatch.empty(BID_PAYLOAD, FOREVER)


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


def _slice(events: EventBatch, low: int, high: int, stable: Time) -> EventBatch:
    return EventBatch(
        events.payload.slice(low, high - low),
        events.start[low:high],
        events.end[low:high],
        events.new_end[low:high],
        stable,
    )


def _events(config: Nexmark, part: _Arrivals) -> EventBatch:
    rows = config.bid_rows(part.bid)
    price = rows.column("price").to_numpy()
    other = np.round(price * (0.5 + config.random.floats("other price", part.bid)), 2)
    columns = [
        rows.column("itemID"),
        rows.column("bidderID"),
        pa.array(np.where(part.kind == _REPLACE, other, price)),
    ]
    start = config.bid_times(part.bid)
    withdrawn = part.kind == _WITHDRAW
    return EventBatch(
        pa.RecordBatch.from_arrays(columns, schema=BID_PAYLOAD),
        start,
        start + withdrawn,
        start + ~withdrawn,
    )


def _arrivals(config: Nexmark, how: Disturbance) -> Iterator[_Arrivals]:
    """All elements, by time of arrival; what comes after the bids of a block is held back."""
    none = np.empty(0, np.int64)
    held = _Arrivals(none, none, none)
    for first in range(0, config.bids, _BLOCK):
        last = min(first + _BLOCK, config.bids)
        block = _block(config, how, np.arange(first, last, dtype=np.int64))
        both = _joined([held, block])
        if last < config.bids:
            ready = both.time < config.time_of(np.array([last]))[0]
        else:
            ready = np.ones(len(both.bid), np.bool_)
        held = both.take(~ready)
        now = both.take(ready)
        yield now.take(np.lexsort((now.kind, now.bid, now.time)))


def _block(config: Nexmark, how: Disturbance, bid: Integers) -> _Arrivals:
    random = config.random
    made = config.bid_times(bid)
    is_late = random.floats("late", bid) < how.late
    delay = random.integers("delay", bid, how.disorder + 1)
    lateness = how.patience + how.late_by * (0.5 + 0.5 * random.floats("late by", bid))
    arrival = made + np.where(is_late, lateness.astype(np.int64), delay)
    corrected = (random.floats("corrected", bid) < how.corrections) & ~is_late
    again = corrected & (random.floats("again", bid) < 0.5)
    noticed = arrival + random.integers("noticed", bid, how.correction_delay + 1)
    return _joined(
        [
            _Arrivals(arrival, bid, np.full(len(bid), _INSERT)),
            _Arrivals(noticed, bid, np.full(len(bid), _WITHDRAW)).take(corrected),
            _Arrivals(noticed, bid, np.full(len(bid), _REPLACE)).take(again),
        ]
    )


def _joined(parts: list[_Arrivals]) -> _Arrivals:
    return _Arrivals(
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.bid for part in parts]),
        np.concatenate([part.kind for part in parts]),
    )


def _rechunked(parts: Iterator[_Arrivals], rows: int) -> Iterator[_Arrivals]:
    """The same in pieces of exactly so many rows, but for the last."""
    rest: list[_Arrivals] = []
    count = 0
    for part in parts:
        rest.append(part)
        count += len(part.bid)
        if count >= rows:
            whole = _joined(rest)
            cut = count - count % rows
            for first in range(0, cut, rows):
                yield whole.take(np.arange(first, first + rows))
            rest = [whole.take(np.arange(cut, count))]
            count -= cut
    if count:
        yield _joined(rest)
