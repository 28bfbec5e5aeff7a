"""A batch as changes of a table of events: payload, from when to when it holds, how many copies.

The table of a query that can have revisions has more columns. `payload_hash` finds the rows of a
payload. A history also has `known_from` and `known_until`, the revisions that brought a row and
that took it back: with them it holds every event as it was known after each revision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.clock import Clock
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import FOREVER, TimeArray

EVENT: Final = "event"
FROM: Final = "valid_from"
TO: Final = "valid_to"
COPIES: Final = "copies"
PAYLOAD_HASH: Final = "payload_hash"
KNOWN_FROM: Final = "known_from"
KNOWN_UNTIL: Final = "known_until"

ALWAYS: Final = 0
"""What was known before any revision is known from here on; NULL in a table."""

NEVER: Final = 2**63 - 1
"""What no revision has taken back is known until here; NULL in a table."""

Numbers: TypeAlias = npt.NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True)
class EventColumns:
    """Which columns a table of events has: is it of a query with revisions, and a history?"""

    clock: Clock
    revisable: bool = False
    history: bool = False

    @property
    def keeps_versions(self) -> bool:
        """Whether what a revision takes back stays in the table."""
        return self.revisable and self.history

    @property
    def columns(self) -> tuple[pa.Field, ...]:
        """The columns behind the payload."""
        time, number = self.clock.type, pa.int64()
        found = [(FROM, time), (TO, time), (COPIES, number), (EVENT, number)]
        found += [(PAYLOAD_HASH, number)] if self.revisable else []
        found += [(KNOWN_FROM, number), (KNOWN_UNTIL, number)] if self.keeps_versions else []
        return tuple(pa.field(name, kind) for name, kind in found)


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EventRows:
    """Rows of a table of events, without their payloads, or by how much their copies change.

    Attributes:
        payload: Which payload it is: its hash, or its position in a batch.
        start: From when on it holds.
        end: Until when.
        known_from: The revision that brought it, or ALWAYS.
        known_until: The revision that took it back, or NEVER.
        copies: How many, or how many more.
    """

    payload: Numbers
    start: TimeArray
    end: TimeArray
    known_from: Numbers
    known_until: Numbers
    copies: Numbers

    @staticmethod
    def of(
        payload: Numbers,
        start: TimeArray,
        end: TimeArray,
        copies: Numbers,
        *,
        known_from: Numbers | int = ALWAYS,
        known_until: Numbers | int = NEVER,
    ) -> EventRows:
        """Rows that are known always, if not said otherwise."""
        shape = payload.shape
        return EventRows(
            payload=payload,
            start=start,
            end=end,
            known_from=np.broadcast_to(np.asarray(known_from, np.int64), shape),
            known_until=np.broadcast_to(np.asarray(known_until, np.int64), shape),
            copies=copies,
        )

    @staticmethod
    def concat(parts: list[EventRows]) -> EventRows:
        """All of them."""
        return EventRows(
            payload=np.concatenate([part.payload for part in parts]),
            start=np.concatenate([part.start for part in parts]),
            end=np.concatenate([part.end for part in parts]),
            known_from=np.concatenate([part.known_from for part in parts]),
            known_until=np.concatenate([part.known_until for part in parts]),
            copies=np.concatenate([part.copies for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> EventRows:
        """The rows at these positions, or for which the mask is true."""
        return EventRows(
            payload=self.payload[rows],
            start=self.start[rows],
            end=self.end[rows],
            known_from=self.known_from[rows],
            known_until=self.known_until[rows],
            copies=self.copies[rows],
        )


def event_schema(payload: pa.Schema, form: EventColumns) -> pa.Schema:
    """The columns of a table of events.

    `event` identifies a row: a payload with its period, and by which revisions it is known;
    `valid_to` is NULL where there is no end; equal events share a row.

    Raises:
        PlanError: A payload column has one of the names that are taken.
    """
    names = [field.name for field in form.columns]
    taken = [name for name in names if name in payload.names]
    if taken:
        raise PlanError(
            f"a column of the result is called '{taken[0]}'",
            where=f"columns are: {', '.join(payload.names)}",
            hint=f"{', '.join(names[:-1])} and {names[-1]} are reserved in tables of events; "
            "select it under another name",
        )
    return pa.schema([*payload, *form.columns])


def payload_hashes(batch: EventBatch) -> Numbers:
    """What finds the rows of each payload in a table."""
    found: Numbers = stable_hash(batch.payload.columns, len(batch)).view(np.int64)
    return found


def signed_events(batch: EventBatch) -> EventRows:
    """What a batch takes away and brings, event by event; `payload` is the row of the batch."""
    gone, come = batch.end > batch.start, batch.new_end > batch.start
    rows = np.r_[np.flatnonzero(gone), np.flatnonzero(come)]
    end = np.r_[batch.end[gone], batch.new_end[come]]
    copies = np.r_[np.full(gone.sum(), -1), np.full(come.sum(), 1)].astype(np.int64)
    return EventRows.of(rows, batch.start[rows], end, copies)


def event_changes(batch: EventBatch, form: EventColumns) -> pa.RecordBatch:
    """By how much the number of copies of each event changes; none is left that does not."""
    return change_table(batch.payload, signed_events(batch), form)


def change_table(payload: pa.RecordBatch, changes: EventRows, form: EventColumns) -> pa.RecordBatch:
    """Changes as rows of the table, added up; `changes.payload` counts the rows of `payload`."""
    schema = event_schema(payload.schema, form)
    own = take_rows(payload, changes.payload)
    columns = [*own.columns, pa.array(changes.start), pa.array(changes.end)]
    if form.keeps_versions:
        columns += [pa.array(changes.known_from), pa.array(changes.known_until)]
    event = stable_hash(columns, len(changes)).view(np.int64)
    found, first, event_index = np.unique(event, return_index=True, return_inverse=True)
    total = np.bincount(event_index, changes.copies, minlength=len(found)).astype(np.int64)
    kept = total != 0
    chosen = first[kept]
    there = changes.at(chosen)
    rows = take_rows(own, chosen)
    more = []
    if form.revisable:
        more.append(pa.array(stable_hash(rows.columns, len(chosen)).view(np.int64)))
    if form.keeps_versions:
        more.append(pa.array(there.known_from, mask=there.known_from == ALWAYS))
        more.append(pa.array(there.known_until, mask=there.known_until == NEVER))
    return pa.RecordBatch.from_arrays(
        [
            *rows.columns,
            form.clock.column(there.start, there.start == FOREVER),
            form.clock.column(there.end, there.end == FOREVER),
            pa.array(total[kept]),
            pa.array(found[kept]),
            *more,
        ],
        schema=schema,
    )
