"""The copies of a feed that the demo's replicas read: other order, revisions and promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import write_stream
from anabranch.model.time import FOREVER, SECOND, Duration, Time
from anabranch.workloads.arrival import BID_PAYLOAD, Disturbance, bid_copy
from anabranch.workloads.nexmark import Nexmark

BIDS: Final = Nexmark(bids=12_000, rate=50.0, seed=2027)
STEP: Final = 20 * SECOND
"""A file of a feed ends with the first promise that goes so far beyond that of the file before."""

PARTS: Final = 12
TAMPERED: Final = (Time(BIDS.begin + 80 * SECOND), Time(BIDS.begin + 110 * SECOND))
"""In this time somebody changes the prices in one feed."""


def _disturbance(disorder: int, corrections: float, stable_every: int) -> Disturbance:
    return Disturbance(
        disorder=Duration(disorder * SECOND),
        corrections=corrections,
        correction_delay=Duration(5 * SECOND),
        stable_every=stable_every,
    )


DISTURBANCES: Final = {
    1: _disturbance(2, 0.02, 150),
    2: _disturbance(4, 0.08, 100),
    3: _disturbance(6, 0.05, 300),
    4: _disturbance(1, 0.10, 200),
}
"""What happens to each copy of the bids on its way."""


@final
@dataclass(frozen=True, slots=True)
class ReplicaFeed:
    """A copy of the bids, in parts that are delivered one after the other."""

    number: int
    parts: Sequence[Sequence[EventBatch]]

    @property
    def elements(self) -> int:
        """How many inserts and adjusts there are."""
        return sum(len(batch) for part in self.parts for batch in part)

    @property
    def ends(self) -> list[Time]:
        """How far each part settles the bids."""
        return [max(batch.stable for batch in part) for part in self.parts]

    def write(self, folder: Path) -> list[Path]:
        """Write the parts as stream files."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"bids-{part_number:03}.jsonl" for part_number in range(len(self.parts))]
        for path, part in zip(paths, self.parts, strict=True):
            write_stream(path, part, timestamps=True)
        return paths


def write_opening(folder: Path) -> None:
    """The file with which a feed begins: no bids yet, but it tells how time is counted."""
    path = folder / "bids-.jsonl"
    if not path.exists():
        opening = EventBatch.empty(BID_PAYLOAD, Time(BIDS.begin))
        write_stream(path, [opening], timestamps=True)


def feed_of(number: int) -> ReplicaFeed:
    """The copy of the bids that a replica reads, as it should be."""
    batches = bid_copy(BIDS, number, DISTURBANCES[number])
    return ReplicaFeed(number, list(_cut(batches)))


def tampered(feed: ReplicaFeed) -> ReplicaFeed:
    """The same feed, with all prices a quarter higher for a while."""
    return ReplicaFeed(feed.number, [[_dearer(batch) for batch in part] for part in feed.parts])


def _cut(batches: Iterator[EventBatch]) -> Iterator[list[EventBatch]]:
    """Parts that end alike in all copies, but for the time between two of their promises."""
    part: list[EventBatch] = []
    part_number = 1
    for batch in batches:
        part.append(batch)
        if part_number < PARTS and batch.stable >= BIDS.begin + part_number * STEP:
            assert batch.stable < FOREVER, "the bids are over before the parts are"
            yield part
            part, part_number = [], part_number + 1
    yield part


def _dearer(batch: EventBatch) -> EventBatch:
    low, high = TAMPERED
    price = batch.payload.column("price").to_numpy()
    meant = (batch.start >= low) & (batch.start < high)
    changed = pa.array(np.where(meant, np.round(price * 1.25, 2), price))
    part_number = batch.schema.get_field_index("price")
    return EventBatch(
        batch.payload.set_column(part_number, batch.schema.field(part_number), changed),
        batch.start,
        batch.end,
        batch.new_end,
        batch.stable,
    )
