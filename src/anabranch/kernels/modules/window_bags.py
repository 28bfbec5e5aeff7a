"""The lists of a trace about windows: bags of rows with counts, found by group and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_identity, order_by_id_and_time
from anabranch.kernels.contract.column_names import END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace import runs as run_sizes
from anabranch.kernels.trace.event_trace import add_up, events_schema
from anabranch.kernels.trace.runs import Slices, add_run, take_ranges, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import FOREVER, Time

Keep = Callable[[pa.RecordBatch], Mask]
"""Which rows still matter."""


@final
@dataclass(frozen=True, slots=True)
class Bag:
    """A kind of rows: `(id, time, end, count, values...)`; the counts of equal rows add up.

    Rows are equal if they are in id, time, end and the `compared` columns.
    """

    values: tuple[tuple[str, pa.DataType], ...]
    compared: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of a run."""
        return events_schema(self.values)

    def rows(
        self, ids: Ids, times: Ints, ends: Ints, counts: Ints, values: Sequence[pa.Array]
    ) -> pa.RecordBatch:
        """A sorted run."""
        arrays = [*map(pa.array, (ids, times, ends, counts)), *values]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        order = order_by_id_and_time(ids, times)
        made = made if is_identity(order) else made.take(pa.array(order))
        return with_times(made, numbers(made, END))

    def at(self, runs: Sequence[SortedRun], ids: Ids, times: Ints) -> tuple[pa.RecordBatch, Ints]:
        """The rows of some groups at some instants, and whose each is."""
        parts, owners = [no_rows(self.schema)], [np.empty(0, np.int64)]
        for run in runs:
            slices = Slices(run, ids)
            rows, owner = take_ranges(run, slices.at_or_after(times), slices.after(times))
            parts.append(rows)
            owners.append(owner)
        return self._added_up(pa.concat_batches(parts), np.concatenate(owners))

    def over(
        self, runs: Sequence[SortedRun], ids: Ids, low: Ints, high: Ints, *, points: bool
    ) -> tuple[pa.RecordBatch, Ints]:
        """The rows of some groups that overlap [low, high), and whose each is.

        With `points` rows hold for an instant each.
        """
        parts, owners = [no_rows(self.schema)], [np.empty(0, np.int64)]
        for run in runs:
            slices = Slices(run, ids)
            first = slices.at_or_after(low) if points else slices.low
            rows, owner = take_ranges(run, first, slices.at_or_after(high))
            if not points:
                keep = np.flatnonzero(rows.column(END).to_numpy() > low[owner])
                rows, owner = rows.take(pa.array(keep)), owner[keep]
            parts.append(rows)
            owners.append(owner)
        return self._added_up(pa.concat_batches(parts), np.concatenate(owners))

    def of(self, runs: Sequence[SortedRun], ids: Ids) -> tuple[pa.RecordBatch, Ints]:
        """All rows of some groups, and whose each is."""
        parts, owners = [no_rows(self.schema)], [np.empty(0, np.int64)]
        for run in runs:
            slices = Slices(run, ids)
            rows, owner = take_ranges(run, slices.low, slices.high)
            parts.append(rows)
            owners.append(owner)
        return self._added_up(pa.concat_batches(parts), np.concatenate(owners))

    def where(self, runs: Sequence[SortedRun], keep: Keep) -> pa.RecordBatch:
        """All rows for which something holds that equal rows have in common."""
        parts = [no_rows(self.schema)]
        parts += [run.rows.take(pa.array(np.flatnonzero(keep(run.rows)))) for run in runs]
        rows = pa.concat_batches(parts)
        return self._added_up(rows, rows.column(ID).to_numpy())[0]

    def _added_up(self, rows: pa.RecordBatch, owner: np.ndarray) -> tuple[pa.RecordBatch, Ints]:
        positions, counts = add_up(rows, self.compared, owner)
        if len(positions) == rows.num_rows and is_identity(positions):
            return rows, owner
        rows = rows.take(pa.array(positions))
        return rows.set_column(3, rows.schema.field(COUNT), pa.array(counts)), owner[positions]

    def add(
        self, runs: tuple[SortedRun, ...], fresh: pa.RecordBatch, stable: Time, keep: Keep
    ) -> tuple[SortedRun, ...]:
        """Append rows; merge runs now and then, without what does not matter any more."""

        def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
            del whole
            parts = [run.rows.take(pa.array(np.flatnonzero(keep(run.rows)))) for run in runs]
            rows = pa.concat_batches(parts)
            ids = rows.column(ID).to_numpy()
            rows, _ = self._added_up(rows, ids)
            return with_times(rows, rows.column(END).to_numpy())

        if stable == FOREVER:
            return ()
        needed = np.flatnonzero(keep(fresh))
        if len(needed) < fresh.num_rows:
            # Much is over as soon as it has come.
            fresh = fresh.take(pa.array(needed))
            fresh = with_times(fresh, fresh.column(END).to_numpy())
        every = (*runs, SortedRun(fresh)) if fresh.num_rows else runs
        if not every:
            return ()
        if sum(map(len, every)) <= run_sizes.MERGE_ALL_UP_TO_ROWS:
            merged = merge(every, True)
            return (SortedRun(merged),) if merged.num_rows else ()
        return add_run(runs, fresh, stable, merge, anchors=False)


def negative(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that take other ones away."""
    counts = -rows.column(COUNT).to_numpy()
    return rows.set_column(3, rows.schema.field(COUNT), pa.array(counts))


def sorted_rows(*parts: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of one kind put together, as a run has them."""
    rows = pa.concat_batches([part.replace_schema_metadata(None) for part in parts])
    order = order_by_id_and_time(rows.column(ID).to_numpy(), rows.column(TIME).to_numpy())
    rows = rows.take(pa.array(order))
    return with_times(rows, rows.column(END).to_numpy())


def numbers(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """A column of times, ids or counts."""
    found: np.ndarray = rows.column(name).to_numpy()
    return found
