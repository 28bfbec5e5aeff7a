"""The sending side of a source: judge what came, prepare it, pack it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Stable
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.exchange import Parcel, pack
from anabranch.runtime.file_reader import Split, read_split
from anabranch.runtime.job import Job, Route
from anabranch.runtime.late import judge, reached
from anabranch.runtime.source_spec import FileSource
from anabranch.runtime.stage_task import deliver_part

ENOUGH_ROWS: Final = 500_000
"""So many rows are prepared together: adding up equal rows early pays, and memory is bounded."""

Piece = tuple[Arrivals, str]


def send_source(
    job: Job,
    source: str,
    part: int,
    batch: int,
    pieces: Iterable[Piece],
    *,
    ends: bool,
    in_order: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Send one part of a source to all shards that read it.

    Args:
        job: The query.
        source: The name of the source.
        part: The number of this part in the batch.
        batch: The batch.
        pieces: What came, and what messages call the place it came from.
        ends: The source ends with this batch.
        in_order: What a piece promises holds for the pieces behind it.
    """
    promise = job.promises[source]
    promised = job.promised(source, batch)
    first = job.routes(f"source:{source}")[0]
    waiting: list[EventBatch] = []
    progress = FOREVER if ends else BEGINNING
    counts = {"rows": 0, "late": 0, "adjusted": 0}
    message = 0

    def deliver(output: EventBatch, route: Route, number: int) -> dict[str, Any]:
        sender = f"{route.edge}-{part}-{number}"
        return deliver_part(job, route.target, batch, sender, output)

    def flush() -> Iterator[pa.RecordBatch]:
        nonlocal message
        schema = job.plan.sources[source].schema
        columns = pa.schema([schema.field(name) for name in job.columns(source)])
        rows = EventBatch.concat(waiting) if waiting else EventBatch.empty(columns)
        head: dict[str, Any] = {
            "source": source,
            "reached": int(progress),
            "counted_at": [first.target, first.edge],
            **counts,
        }
        yield from pack(
            job.parcels(f"source:{source}", rows, head, part=part, message=message, deliver=deliver)
        )
        message += 1
        waiting.clear()
        counts.update(rows=0, late=0, adjusted=0)

    for came, where in pieces:
        judged = judge(promise, promised, came, where=where)
        progress = Time(max(progress, reached(promise, came)))
        # What a stream says itself holds for its next rows; a declared delay only from the next
        # batch on, for within a batch the parts do not know of each other.
        if in_order:
            promised = Time(max(promised, came.batch.stable))
        counts["rows"] += len(came) + came.left_out
        counts["late"] += judged.late
        counts["adjusted"] += judged.adjusted
        if len(judged.batch):
            waiting.append(judged.batch)
        if sum(map(len, waiting)) >= ENOUGH_ROWS:
            yield from flush()
    if waiting or not message or counts["rows"]:
        yield from flush()


def send_time(job: Job, source: str, part: int, passed: int) -> Iterator[pa.RecordBatch]:
    """Tell all shards that read a source that time passes, whatever came of it."""
    schema = job.plan.sources[source].schema
    nothing = EventBatch.empty(pa.schema([schema.field(name) for name in job.columns(source)]))
    head = {"source": source, "reached": int(BEGINNING), "passed": passed}
    yield from pack(job.parcels(f"source:{source}", nothing, head, part=part))


def send_commands(
    job: Job, part: int, commands: Sequence[Mapping[str, Any]]
) -> Iterator[pa.RecordBatch]:
    """Tell all shards of all stages what somebody wants."""
    head = {"control": [dict(command) for command in commands]}
    yield from pack(
        Parcel(shard=shard, target=target, edge=0, part=part, head=head)
        for target, stage in enumerate(job.plan.stages)
        for shard in range(job.shards_of(stage))
    )


def read_pieces(
    source: FileSource, splits: Iterable[Split], columns: Sequence[str]
) -> Iterator[Piece]:
    """What files say, split by split, with these payload columns."""
    for split in splits:
        if split.path:
            for came in read_split(source, split, columns):
                yield came, split.path
        if split.stable is not None:
            schema = pa.schema([source.schema.field(name) for name in columns])
            yield Arrivals.of([Stable(split.stable)], schema), source.path
