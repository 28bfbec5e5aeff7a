"""Elements in order of time, per key: what a trace holds of them, and what it forgets.

A run has rows `(id, time, count, payload...)`: so many more elements of this payload are at this
instant (fewer, where the count is negative). All runs of a trace add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    group_starts,
    group_sums,
    is_first,
    merge_order,
    order_by_id_and_time,
)
from anabranch.kernels.contract.column_names import CHECK, END, ID, NEW_END, SUM, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.row_windows.tie_order import sort_elements
from anabranch.kernels.trace import runs as run_sizes
from anabranch.kernels.trace.runs import Merge, add_run, with_times
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import no_rows
from anabranch.model.time import FOREVER, Time


@final
@dataclass(frozen=True, slots=True)
class ElementLayout:
    """The columns of a run, and how far back elements matter.

    `rows` is None where the window forgets nothing.
    """

    payload: pa.Schema
    order_by: tuple[Expression, ...]
    rows: int | None
    slide: int
    checked: bool

    def schema(self) -> pa.Schema:
        """The columns of a run."""
        fields = [(ID, pa.uint64()), (TIME, pa.int64()), (COUNT, pa.int64())]
        fields += [(CHECK, pa.uint64())] if self.checked else []
        fields += [(SUM, pa.int64())] if self.slide > 1 else []
        return pa.schema([*fields, *zip(self.values(), self.payload.types)])

    def values(self) -> list[str]:
        """The names that the payload columns have in a run."""
        return [f"key{index}" for index in range(len(self.payload))]

    def payload_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The payload columns of rows, under the user's names."""
        columns = [rows.column(name) for name in self.values()]
        return pa.RecordBatch.from_arrays(columns, schema=self.payload)

    @property
    def per_key(self) -> int:
        """So many rows of a key may be needed however old they are."""
        incomplete = self.slide if self.slide > 1 else 0
        return (self.rows or 0) + incomplete

    def first_needed(self, settled: Ints) -> Ints:
        """The number of the first element that matters once so many elements are settled.

        Those in the window may end later, and those after it may enter it.
        """
        return settled // self.slide * self.slide - (self.rows or 0) + 1

    def run_of(self, ids: Ids, times: Ints, counts: Ints, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A run; `rows` has the columns that are not given."""
        given = {ID: ids, TIME: times, COUNT: counts, SUM: np.cumsum(counts)}
        schema = self.schema()
        arrays = [
            pa.array(given[name]) if name in given else rows.column(name) for name in schema.names
        ]
        made = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return with_times(made, times, self.per_key)


def add_elements(
    runs: tuple[SortedRun, ...], layout: ElementLayout, fresh: pa.RecordBatch, stable: Time
) -> tuple[SortedRun, ...]:
    """Append a run, merge now and then, forget what cannot matter after the stable point."""
    if stable == FOREVER:
        return ()
    merge = merger(layout, stable)
    every = (*runs, SortedRun(fresh)) if fresh.num_rows else runs
    if every and sum(map(len, every)) <= run_sizes.MERGE_ALL_UP_TO_ROWS:
        merged = merge(every, True)
        return (SortedRun(merged),) if merged.num_rows else ()
    return add_run(runs, fresh, stable, merge, anchors=True)


def forget(
    runs: tuple[SortedRun, ...], layout: ElementLayout, stable: Time
) -> tuple[SortedRun, ...]:
    """The same without what cannot matter after the stable point."""
    return add_elements(runs, layout, no_rows(layout.schema()), stable)


def newest_elements(rows: pa.RecordBatch, count: int, before: Time) -> pa.RecordBatch:
    """Prepared moves without those for which so many others of their key are newer.

    Only what is before an instant is left out, or counted. Rows are left alone where one of them is
    more than the insert of a point.
    """
    ids, times = rows.column(ID).to_numpy(), rows.column(END).to_numpy()
    old = np.flatnonzero(times < before)
    if len(old) <= count or not (rows.column(NEW_END).to_numpy() - times == 1).all():
        return rows
    old = old[order_by_id_and_time(ids[old], times[old])]
    ids, times = ids[old], times[old]
    of_key, of_instant = is_first(ids), is_first(ids, times)
    # Those of one instant are not newer than each other, whatever decides between them.
    key_stops, stops = (
        np.append(np.flatnonzero(each), len(old))[1:] for each in (of_key, of_instant)
    )
    newer = key_stops[np.cumsum(of_key) - 1] - stops[np.cumsum(of_instant) - 1]
    kept = np.ones(rows.num_rows, np.bool_)
    kept[old[newer >= count]] = False
    return rows if kept.all() else rows.filter(pa.array(kept))


def merger(layout: ElementLayout, stable: Time) -> Merge:
    """Merge runs; only all of them together show which elements have left the window."""

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        rows = pa.concat_batches([run.rows for run in runs]) if len(runs) > 1 else runs[0].rows
        ids, times = rows.column(ID).to_numpy(), rows.column(TIME).to_numpy()
        every = np.arange(len(ids))
        parts = [(run.rows.column(ID).to_numpy(), run.rows.column(TIME).to_numpy()) for run in runs]
        order = merge_order(parts)
        found = sort_elements(order, ids, times, layout.payload_of(rows), every, layout.order_by)
        begins = np.flatnonzero(found.element)
        counts = np.add.reduceat(rows.column(COUNT).to_numpy()[found.order], begins)
        positions = found.order[begins]
        positions, counts = positions[counts != 0], counts[counts != 0]
        if layout.checked:
            refuse_collisions(ids[positions], rows.column(CHECK).to_numpy()[positions])
        if whole:
            counts = _remaining(layout, ids[positions], times[positions], counts, stable)
            positions, counts = positions[counts != 0], counts[counts != 0]
        rest = rows.take(pa.array(positions))
        return layout.run_of(ids[positions], times[positions], counts, rest)

    return merge


def _remaining(layout: ElementLayout, ids: Ids, times: Ints, counts: Ints, stable: Time) -> Ints:
    """How many elements of each row are still needed.

    Elements are forgotten in multiples of the slide, so that numbers stay the same modulo the
    slide: the row of the last one that is not needed counts for those that are left over.
    """
    starts = group_starts(is_first(ids))
    number = group_sums(counts, starts)
    settled = np.zeros(len(ids), np.int64)
    np.add.at(settled, starts, np.where(times < stable, counts, 0))
    gone = np.maximum(layout.first_needed(settled[starts]) - 1, 0)
    kept = np.clip(number - gone, 0, counts)
    if layout.slide > 1:
        last = (number - counts < gone) & (gone <= number)
        kept += np.where(last, gone % layout.slide, 0)
    return kept


def refuse_collisions(ids: Ids, check: Ids, where: str = "a count window") -> None:
    """Two keys under one id are found, never mixed; the ids are sorted.

    Raises:
        EngineError: There are two.
    """
    if ((ids[1:] == ids[:-1]) & (check[1:] != check[:-1])).any():
        raise EngineError(
            "two different keys have the same 64-bit hash",
            where=where,
            hint="please report this with the query; until then add a column to the partitioning",
        )
