"""Read of a piece only the row groups that can matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.model.batch import EventBatch
from anabranch.model.coarser import chronon_of_time
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.files.parquet_metadata import parquet_metadata
from anabranch.runtime.sources.files.parquet_times import StartStatistics, Value
from anabranch.runtime.sources.files.reader import (
    WHOLE,
    FileSplit,
    Narrow,
    form_of_split,
    time_step,
)
from anabranch.runtime.sources.rows import instants
from anabranch.runtime.sources.spec import ARRIVAL, ELEMENTS, FileSource

Wanted = Mapping[str, pa.Array]
"""By column the values that rows must have."""

_PARQUET: Final = ("parquet", "log", "delta", "archive")


def having(rows: EventBatch, wanted: Wanted) -> EventBatch:
    """The rows that have a wanted value in every column; NULL is a value."""
    for name, values in wanted.items():
        column = rows.payload.column(name)
        found = pc.is_in(column, value_set=values.cast(column.type))
        rows = rows.where(np.asarray(found.to_numpy(zero_copy_only=False), np.bool_))
    return rows


def narrowing(source: FileSource, split: FileSplit, span: Span, wanted: Wanted) -> Narrow | None:
    """What leaves out most rows of a piece that do not matter; None where it is not that easy.

    Of a row group of 50,000 quotes a replay wants a few hundred. Rows come in the order of time as
    a rule: then those of a span lie together, and nothing is copied to look at their values.
    """
    shape, form = source.shape, form_of_split(source, split)
    if shape is None or split.change or form not in _PARQUET:
        return None
    is_point = shape.kind is None and shape.end is None and shape.start not in (None, ARRIVAL)
    by_time = is_point and span != EVERYTHING and time_step(source, form) == 1

    def narrow(rows: pa.RecordBatch) -> pa.RecordBatch:
        if by_time and rows.num_rows:
            start, there = instants(rows, shape.start, split.path)
            matters = (start >= span[0]) & (start < span[1])
            if not there.all():
                matters |= ~there
            first, behind = int(matters.argmax()), int(matters[::-1].argmax())
            last = rows.num_rows - behind if matters[first] else first
            rows = rows.slice(first, last - first)
        for name, values in wanted.items():
            # A column that is read as another type has other values.
            column = rows.column(name)
            if column.type == values.type:
                rows = rows.filter(pc.is_in(column, value_set=values))
        return rows

    return narrow


def narrowed(
    source: FileSource, split: FileSplit, span: Span, wanted: Wanted
) -> Iterator[FileSplit]:
    """The parts of a piece that may have rows within a span, and with wanted values.

    Of Parquet the statistics of row groups tell; a piece in another form stays whole, and so do
    corrections, which are few.
    """
    form = form_of_split(source, split)
    if split.change == "corrections" or form not in _PARQUET or (span == EVERYTHING and not wanted):
        yield split
        return
    metadata = parquet_metadata(split.path)
    statistics = StartStatistics(metadata, ELEMENTS if source.copies else source.shape)
    bounds = bounds_of(wanted)
    step = time_step(source, form)
    last = metadata.num_row_groups if split.last == WHOLE else split.last
    number, open_at = split.number, None
    groups = range(split.first, last)
    hulls = dict(zip(groups, statistics.hulls(groups), strict=True))
    for group in range(split.first, last + 1):
        matters = group < last and _overlaps(hulls[group], step, span)
        matters = matters and may_hold(statistics, group, bounds)
        if matters and open_at is None:
            open_at = (group, number)
        elif not matters and open_at is not None:
            yield replace(split, first=open_at[0], last=group, number=open_at[1])
            open_at = None
        if group < last:
            number += metadata.row_group(group).num_rows


def bounds_of(wanted: Wanted) -> dict[str, tuple[Value, Value]]:
    """The least and the greatest wanted value of columns that statistics can be asked for.

    Statistics do not tell where NULLs are, so a column of which NULL is wanted has no bounds.
    """
    found = {}
    for name, values in wanted.items():
        if values.null_count:
            continue
        if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
            ends = pc.min_max(values)
            if ends["min"].is_valid:
                found[name] = (ends["min"].as_py(), ends["max"].as_py())
    return found


def may_hold(
    statistics: StartStatistics, group: int, bounds: Mapping[str, tuple[Value, Value]]
) -> bool:
    """Whether a row group may have wanted values in all columns."""
    return all(statistics.may_hold(group, name, *both) for name, both in bounds.items())


def _overlaps(hull: Span | None, step: int, span: Span) -> bool:
    if hull is None:
        return True
    first, last = (chronon_of_time(time, step) for time in hull)
    # What holds at all holds for one chronon.
    last = last if step == 1 or last == FOREVER else type(last)(last + 1)
    return first < span[1] and last > span[0]
