"""Batches as rows of an element table: kind, start, end, new_end, and the payload.

Forever is NULL in `end`, and in the `new_end` of an adjust. (The `new_end` of an insert is NULL as
well, and says nothing.) A stable point has its time in `start`, where forever is the largest
number.

A table that Spark or a database keeps has no order of its own. There every element has two more
columns: the number of its batch, and its position in it. Sorted by both, the table is the stream.

A revision is a row of kind `revise` (its span in `start` and `end`, its number in `new_end`), then
its changes, of kind `revise-insert` and `revise-adjust`. The table of a query that can have
revisions has a column `_revision` with their number, NULL in all other rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock, note_of_clock
from anabranch.model.files.stream_parquet import ORDER_COLUMNS, REVISION_COLUMN, TIMES_KEY
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time

ELEMENT_FIELDS: Final = (
    pa.field("kind", pa.string()),
    pa.field("start", pa.int64()),
    pa.field("end", pa.int64()),
    pa.field("new_end", pa.int64()),
)
ORDER_FIELDS: Final = tuple(pa.field(name, pa.int64()) for name in ORDER_COLUMNS)
REVISION_FIELD: Final = pa.field(REVISION_COLUMN, pa.int64())

SHARD_BITS: Final = 40
"""A shard numbers its elements on its own, from `shard << SHARD_BITS` on: no shard has more than
2^40 in a batch, and two never have the same number."""


@final
@dataclass(frozen=True, slots=True)
class ElementPosition:
    """The batch of elements in a table, and their positions in it.

    The first has the position `first`, the next one more; the stable point of the batch stands at
    `last` (None: right behind them).
    """

    batch: int
    first: int = 0
    last: int | None = None

    @staticmethod
    def of_shard(batch: int, shard: int, shards: int) -> ElementPosition:
        """The positions of one shard's elements; the stable point stands behind all shards.

        Shards share no event, so their order among each other is free.
        """
        return ElementPosition(batch, shard << SHARD_BITS, shards << SHARD_BITS)


def element_schema(
    payload: pa.Schema,
    *,
    ordered: bool = False,
    clock: Clock = INTEGERS,
    revisable: bool = False,
) -> pa.Schema:
    """The columns of an element table, with `ordered` also those that tell the order.

    With `revisable` there is one more for the numbers of revisions. A note at `start` says how
    times are counted, to whoever reads the table as a stream again.

    Raises:
        PlanError: A payload column has one of the names that are taken.
    """
    more = (*(ORDER_FIELDS if ordered else ()), *((REVISION_FIELD,) if revisable else ()))
    # Whoever reads a table with an order takes the last one for what it is called.
    names = [field.name for field in (*ELEMENT_FIELDS, *(ORDER_FIELDS if ordered else ()))]
    names += [REVISION_COLUMN] if ordered or revisable else []
    taken = [name for name in names if name in payload.names]
    if taken:
        raise PlanError(
            f"a column of the result is called '{taken[0]}'",
            where=f"columns are: {', '.join(payload.names)}",
            hint=f"{', '.join(names[:-1])} and {names[-1]} are reserved in tables of elements; "
            "select it under another name",
        )
    note = {TIMES_KEY: note_of_clock(clock).encode()}
    times = [
        field.with_metadata(note) if clock != INTEGERS and field.name == "start" else field
        for field in ELEMENT_FIELDS
    ]
    return pa.schema([*times, *payload, *more])


def element_rows(
    batch: EventBatch, *, after: Time, position: ElementPosition | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a batch as inserts and adjusts.

    Its stable point follows, if it says more than the one before, `after`. With a position the rows
    have the columns that tell the order.
    """
    schema = element_schema(batch.schema, ordered=position is not None)
    if len(batch):
        adjusts = batch.end != batch.start
        end = np.where(adjusts, batch.end, batch.new_end)
        times = [
            pa.array(batch.start),
            pa.array(end, mask=end == FOREVER),
            pa.array(batch.new_end, mask=~adjusts | (batch.new_end == FOREVER)),
        ]
        kinds = pa.array(np.where(adjusts, "adjust", "insert"), pa.string())
        columns = [kinds, *times, *batch.payload.columns]
        if position is not None:
            numbers = np.arange(position.first, position.first + len(batch), dtype=np.int64)
            columns += [pa.array(np.full(len(batch), position.batch, np.int64)), pa.array(numbers)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    if batch.stable > after:
        row: dict[str, object] = {"kind": "stable", "start": int(batch.stable)}
        if position is not None:
            last = position.first + len(batch) if position.last is None else position.last
            row |= dict(zip(ORDER_COLUMNS, (position.batch, last)))
        yield pa.RecordBatch.from_pylist([row], schema)


def revision_rows(revision: Revision, *, position: ElementPosition | None = None) -> pa.RecordBatch:
    """The row that announces a revision, then its changes."""
    header: dict[str, object] = {
        "kind": "revise",
        "start": int(revision.first),
        "end": None if revision.last == FOREVER else int(revision.last),
        "new_end": revision.number,
    }
    after = position
    if position is not None:
        header |= dict(zip(ORDER_COLUMNS, (position.batch, position.first)))
        after = replace(position, first=position.first + 1)
    (changes,) = element_rows(
        revision.changes.with_stable(BEGINNING), after=BEGINNING, position=after
    )
    kinds = pc.binary_join_element_wise("revise", changes.column("kind"), "-")
    changes = changes.set_column(0, changes.schema.field(0), kinds)
    return pa.concat_batches([pa.RecordBatch.from_pylist([header], changes.schema), changes])


def revised_table(
    batch: EventBatch,
    revisions: Iterable[Revision],
    *,
    after: Time = BEGINNING,
    position: ElementPosition | None = None,
) -> pa.Table:
    """One batch behind its revisions, with a column for their numbers.

    `after` was promised before it; the positions count on through revisions and rows.
    """
    parts: list[tuple[pa.RecordBatch, int | None]] = []
    for revision in revisions:
        rows = revision_rows(revision, position=position)
        parts.append((rows, revision.number))
        if position is not None:
            position = replace(position, first=position.first + rows.num_rows)
    parts += [(rows, None) for rows in element_rows(batch, after=after, position=position)]
    schema = element_schema(batch.schema, ordered=position is not None, revisable=True)
    numbered = [
        rows.append_column(REVISION_FIELD, pa.array([number] * rows.num_rows, pa.int64()))
        for rows, number in parts
    ]
    return pa.Table.from_batches(numbered, schema)


def element_table(
    parts: Iterable[EventBatch | Revision],
    payload: pa.Schema,
    *,
    after: Time = BEGINNING,
    position: ElementPosition | None = None,
) -> pa.Table:
    """Batches and revisions one after the other, as one table; `after` was promised before them.

    A position is that of a single batch.
    """
    rows: list[pa.RecordBatch] = []
    for part in parts:
        if isinstance(part, Revision):
            rows.append(revision_rows(part, position=position))
            continue
        rows += element_rows(part, after=after, position=position)
        after = Time(max(after, part.stable))
    return pa.Table.from_batches(rows, element_schema(payload, ordered=position is not None))
