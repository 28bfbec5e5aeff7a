"""How the events of the public Nexmark benchmark arrive, as files: in order, late, corrected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from anabranch.errors import QueryError
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.clock import MICROSECONDS
from anabranch.model.files.stream_parquet import write_parquet
from anabranch.model.time import BEGINNING, FOREVER, SECOND, Duration, Time, TimeArray
from anabranch.workloads.disturbance import (
    INSERT,
    WITHDRAW,
    Arrived,
    Disturbance,
    EventTimes,
    arrivals,
    corrected,
    rechunked,
)
from anabranch.workloads.nexmark_events import SCHEMAS, NexmarkEvents, StreamName, side_input

_CHUNK: Final = 65_536

ROUGH: Final = Disturbance(
    disorder=Duration(2 * SECOND),
    corrections=0.1,
    replaced=1.0,
    correction_delay=Duration(2 * SECOND),
)
"""Two seconds of disorder; a tenth of the events are wrong at first."""


@final
@dataclass(frozen=True, slots=True)
class _ArrivalView:
    """A stream of elements: the stream its rows come from, and when they hold."""

    stream: StreamName
    start: str
    end: str | None = None

    def lifetimes(self, rows: pa.RecordBatch) -> tuple[TimeArray, TimeArray]:
        start = _times(rows, self.start)
        return start, start + 1 if self.end is None else _times(rows, self.end)


VIEWS: Final[Mapping[str, _ArrivalView]] = {
    "person": _ArrivalView("person", "dateTime"),
    "auction": _ArrivalView("auction", "dateTime"),
    "bid": _ArrivalView("bid", "dateTime"),
    "open_auction": _ArrivalView("auction", "dateTime", "expires"),
    "closing_auction": _ArrivalView("auction", "expires"),
}
"""Elements are points at their time; open auctions hold until they expire."""


def event_rows(
    config: NexmarkEvents,
    stream: StreamName,
    disturbance: Disturbance | None = None,
    chunk_rows: int = _CHUNK,
) -> Iterator[pa.RecordBatch]:
    """One stream as plain rows, in the order of arrival.

    Args:
        config: Which events.
        stream: Which of the streams.
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
            hint="write elements, or leave corrections out",
        )
    parts = rechunked(arrivals(_clock(config, stream), how), chunk_rows)
    return (config.rows(stream, part.event) for part in parts)


def event_elements(
    config: NexmarkEvents, view: str, disturbance: Disturbance = ROUGH
) -> Iterator[EventBatch]:
    """One of the VIEWS as events, in the order of arrival; the last batch ends the stream.

    What is corrected comes with wrong values first; later these are withdrawn and the right ones
    come in their place. So in the end every event is the one of `event_rows`. A batch has
    `stable_every` rows and says how far the stream is settled.
    """
    seen, how = VIEWS[view], replace(disturbance, replaced=1.0)
    clock = _clock(config, seen.stream)
    stable = int(BEGINNING)
    for part in rechunked(arrivals(clock, how), how.stable_every):
        rows = _with_errors(config, seen.stream, part, corrected(clock, how, part.event))
        start, end = seen.lifetimes(rows)
        stable = max(stable, int(part.time[-1]) - how.patience)
        withdrawn = part.kind == WITHDRAW
        yield EventBatch(
            rows,
            start,
            np.where(withdrawn, end, start),
            np.where(withdrawn, start, end),
            Time(stable),
        )
    yield EventBatch.empty(SCHEMAS[seen.stream], FOREVER)


def write_event_rows(
    folder: Path, config: NexmarkEvents, disturbance: Disturbance | None = None, *, files: int = 1
) -> None:
    """Write plain rows to `<folder>/person`, `auction` and `bid`, and the side input beside them.

    Every stream is spread over so many Parquet files, in the order of arrival: files of the same
    number hold about the same period.
    """
    for stream, schema in SCHEMAS.items():
        chunk = max(1, -(-config.count(stream) // files))
        parts = event_rows(config, stream, disturbance, chunk)
        for number, part in enumerate(_at_least_one(parts, schema)):
            pq.write_table(pa.Table.from_batches([part]), _part_path(folder / stream, number))
    _write_side_input(folder)


def write_event_elements(
    folder: Path, config: NexmarkEvents, disturbance: Disturbance = ROUGH, *, files: int = 1
) -> None:
    """Write all VIEWS as Parquet of elements, each to its folder, and the side input."""
    share = 1 + 2 * disturbance.corrections
    for view, seen in VIEWS.items():
        every = max(1, int(config.count(seen.stream) * share / files) + 1)
        how = replace(disturbance, stable_every=every)
        batches = list(event_elements(config, view, how))
        # The end of the stream is said in the last file.
        last = [batches[-2].with_stable(FOREVER)] if len(batches) > 1 else batches
        for number, batch in enumerate([*batches[:-2], *last]):
            write_parquet(_part_path(folder / view, number), [batch], clock=MICROSECONDS)
    _write_side_input(folder)


def _with_errors(
    config: NexmarkEvents, stream: StreamName, part: Arrived, is_corrected: np.ndarray
) -> pa.RecordBatch:
    """The rows as they are told: wrong ones where they are going to be corrected."""
    rows = config.rows(stream, part.event)
    wrong = pa.array(is_corrected & ((part.kind == INSERT) | (part.kind == WITHDRAW)))
    name, change = _WRONG[stream]
    index = rows.schema.get_field_index(name)
    corrected_values = pc.if_else(wrong, change(rows.column(index)), rows.column(index))
    return rows.set_column(index, rows.schema.field(index), corrected_values)


_WRONG: Final[Mapping[StreamName, tuple[str, Callable[[pa.Array], pa.Array]]]] = {
    "person": ("state", lambda state: pc.utf8_reverse(state)),
    "auction": ("category", lambda category: pc.subtract(24, category)),
    "bid": ("price", lambda price: pc.add(pc.multiply(price, 3), 1)),
}


def _clock(config: NexmarkEvents, stream: StreamName) -> EventTimes:
    def times(position: np.ndarray) -> TimeArray:
        return config.times(stream, position)

    return EventTimes(config.count(stream), config.random, times, times)


def _times(rows: pa.RecordBatch, name: str) -> TimeArray:
    return np.asarray(rows.column(name).cast(pa.int64()).to_numpy())


def _at_least_one(parts: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """So that an empty stream is a file, too."""
    first = next(parts, no_rows(schema))
    yield first
    yield from parts


def _part_path(folder: Path, number: int) -> Path:
    """The file for a part; the first one takes the place of all that were there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("part-*.parquet") if number == 0 else ():
        old.unlink()
    return folder / f"part-{number:05}.parquet"


def _write_side_input(folder: Path) -> None:
    pcsv.write_csv(side_input(), folder / "side_input.csv")
