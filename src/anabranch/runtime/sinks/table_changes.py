"""A batch with its revisions as changes of a table of events, wherever the table is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.revision import Revision
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.elements.event_revisions import TouchedRows, revised_changes, touched_rows
from anabranch.runtime.elements.event_table import (
    COPIES,
    PAYLOAD_HASH,
    TO,
    EventColumns,
    EventRows,
    event_changes,
)

_NO_ROWS: Final = EventRows.of(*(np.empty(0, np.int64) for _ in range(4)))


def table_changes(
    rows: EventBatch,
    revisions: Sequence[Revision],
    form: EventColumns,
    *,
    revised: bool,
    read: Callable[[list[TouchedRows]], EventRows],
) -> pa.RecordBatch:
    """By how much the copies of rows change.

    Args:
        rows: The moves of the batch, with its stable point.
        revisions: Those that the table does not have yet.
        form: The columns of the table.
        revised: The table has had a revision: an event need not be a row of its own any more.
        read: Fetches rows from the table.
    """
    if not revised and not revisions:
        return event_changes(rows, form)
    touched = touched_rows(rows, revisions)
    there = read(touched) if touched else _NO_ROWS
    changes = revised_changes(there, rows, revisions, form)
    return changes if form.history else _without_over(changes, rows.stable, form)


def _without_over(changes: pa.RecordBatch, stable: Time, form: EventColumns) -> pa.RecordBatch:
    """Without rows that a table of current events would forget at once."""
    end = changes.column(TO)
    over = end.is_valid() if stable == FOREVER else pc.less(end, _instant(stable, form))
    come = pc.greater(changes.column(COPIES), 0)
    return changes.filter(pc.invert(pc.and_(come, pc.fill_null(over, False))))


def _instant(time: Time, form: EventColumns) -> pa.Scalar:
    return form.clock.column(np.array([time], np.int64))[0]


def refuse_unrevisable(names: Sequence[str], where: str) -> None:
    """Refuse a table of events that has no columns for revisions, of a query that has them now.

    Raises:
        PlanError: It has none.
    """
    if PAYLOAD_HASH not in names:
        raise PlanError(
            "the table has no columns for revisions",
            where=where,
            hint="it was created before a source of the query was declared LATE REVISE; start the "
            "query with a new checkpoint and a new table",
        )
