"""Rows of a table become arrivals: times out of their columns, and the payload."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.files.revision_rows import REVISE_KINDS
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray, add_saturating
from anabranch.runtime.sources.spec import Shape

_KINDS: Final = ("insert", "adjust", "stable", *REVISE_KINDS)
_STABLE: Final = 2
_REVISE: Final = 3
"""Kinds from this one on are those of revisions: what announces one, inserts, adjusts."""

_NONE: Final = np.empty(0, np.int64)
_ELEMENT_HINT: Final = (
    "an element has a kind ('insert', 'adjust' or 'stable') and a start; an adjust has end and "
    "new_end; a stable has its time in start"
)


def arrivals_of(
    rows: pa.RecordBatch, schema: pa.Schema, shape: Shape, *, first: int, where: str
) -> Arrivals:
    """What these rows say.

    Args:
        rows: The columns of the payload and of the times, in any order.
        schema: The payload columns to keep.
        shape: Which columns are times.
        first: The number of the first row, for messages.
        where: What messages call the table.

    Raises:
        StreamError: A row has no start, ends before it starts, or is no element.
    """
    if shape.start is None:
        return _always(rows, schema, first, where)
    start, there = instants(rows, shape.start, where)
    _refuse(~there, f"'{shape.start}' is missing", rows, first, where, "every row needs a start")
    if shape.kind is not None:
        return _elements(rows, schema, shape, start, first, where)
    if shape.end is None:
        _refuse_forever(start, rows, first, where)
        end = add_saturating(start, 1)
    else:
        end, given = instants(rows, shape.end, where)
        end = np.where(given, end, np.int64(FOREVER))
        _refuse_forever(start, rows, first, where)
        _refuse_reversed(end <= start, rows, first, where)
    return Arrivals(
        batch=EventBatch(_payload(rows, schema, where), start, start, end, BEGINNING),
        position=np.arange(first, first + rows.num_rows, dtype=np.int64),
        is_adjust=np.zeros(rows.num_rows, np.bool_),
        stables=_NONE,
        stable_positions=_NONE,
    )


def _always(rows: pa.RecordBatch, schema: pa.Schema, first: int, where: str) -> Arrivals:
    """Rows without a time hold at every instant."""
    start = np.full(rows.num_rows, np.int64(BEGINNING))
    end = np.full(rows.num_rows, np.int64(FOREVER))
    return Arrivals(
        batch=EventBatch(_payload(rows, schema, where), start, start, end, BEGINNING),
        position=np.arange(first, first + rows.num_rows, dtype=np.int64),
        is_adjust=np.zeros(rows.num_rows, np.bool_),
        stables=_NONE,
        stable_positions=_NONE,
    )


def _elements(
    rows: pa.RecordBatch, schema: pa.Schema, shape: Shape, start: TimeArray, first: int, where: str
) -> Arrivals:
    assert shape.kind is not None
    position = np.arange(first, first + rows.num_rows, dtype=np.int64)
    kinds = pc.index_in(rows.column(shape.kind), pa.array(_KINDS))
    code = pc.fill_null(kinds, -1).to_numpy(zero_copy_only=False)
    _refuse(code < 0, "unknown kind of element", rows, first, where, _ELEMENT_HINT)
    if (code >= _REVISE).any():
        # A revision is read as the rows that it changes; they are late, whatever that means here.
        keep = np.flatnonzero(code != _REVISE)
        rows, start, code, position = take_rows(rows, keep), start[keep], code[keep], position[keep]
        code = np.where(code > _REVISE, code - _REVISE - 1, code)
    is_stable, is_adjust = code == _STABLE, code == 1
    end, given = instants(rows, shape.end, where)
    end = np.where(given, end, np.int64(FOREVER))
    if shape.new_end is None:
        _refuse(is_adjust, "an adjust without new_end", rows, first, where, _ELEMENT_HINT)
    new_end, given = instants(rows, shape.new_end, where)
    new_end = np.where(given, new_end, np.int64(FOREVER))
    stables, stable_positions = start[is_stable], position[is_stable]
    if is_stable.any():
        keep = np.flatnonzero(~is_stable)
        rows, position, is_adjust = take_rows(rows, keep), position[keep], is_adjust[keep]
        start, end, new_end = start[keep], end[keep], new_end[keep]
    _refuse_forever(start, rows, first, where)
    _refuse_reversed((end <= start) | (is_adjust & (new_end < start)), rows, first, where)
    return Arrivals(
        batch=EventBatch(
            _payload(rows, schema, where),
            start,
            np.where(is_adjust, end, start),
            np.where(is_adjust, new_end, end),
            Time(int(stables.max(initial=BEGINNING))),
        ),
        position=position,
        is_adjust=is_adjust,
        stables=stables,
        stable_positions=stable_positions,
    )


def time_type(kind: pa.DataType) -> bool:
    """Whether a column of this type can hold instants."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_timestamp(kind) or types.is_date(kind))


def latest_start(rows: pa.RecordBatch, shape: Shape, *, where: str) -> Time:
    """The largest start of some rows; BEGINNING where there is none."""
    start, there = instants(rows, shape.start, where)
    return Time(int(start[there].max(initial=BEGINNING)))


def latest_times(rows: pa.RecordBatch, shape: Shape, *, where: str) -> tuple[Time, Time]:
    """The largest start and the largest stable point of some rows, by columns of time alone.

    BEGINNING where there is none. What is wrong with rows is for whoever takes all of them.
    """
    start, there = instants(rows, shape.start, where)
    is_stable = np.zeros(len(start), np.bool_)
    if shape.kind is not None:
        kinds = pc.fill_null(pc.equal(rows.column(shape.kind), _KINDS[_STABLE]), False)
        is_stable = kinds.to_numpy(zero_copy_only=False)
    latest = start[there & ~is_stable].max(initial=BEGINNING)
    return Time(int(latest)), Time(int(start[there & is_stable].max(initial=BEGINNING)))


def instants(
    rows: pa.RecordBatch, name: str | None, where: str
) -> tuple[TimeArray, npt.NDArray[np.bool_]]:
    """Instants, and which of them are there."""
    if name is None:
        return np.zeros(rows.num_rows, np.int64), np.zeros(rows.num_rows, np.bool_)
    column = rows.column(name)
    if not time_type(column.type):
        raise StreamError(
            f"column '{name}' holds {column.type}, not times",
            where=where,
            hint="times are integers or timestamps; convert the column, or name another one",
        )
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    elif pa.types.is_timestamp(column.type) and column.type.unit != "us":
        column = in_microseconds(column)
    there = np.ones(len(column), np.bool_)
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
    column = column.cast(pa.int64())
    return (pc.fill_null(column, 0) if column.null_count else column).to_numpy(), there


def in_microseconds(times: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Timestamps of any unit in microseconds; of nanoseconds the rest is cut off, as in Spark.

    The time of an event and the column that it was read from are cut alike, towards the past.
    """
    if times.type.unit == "ns":
        times = pc.floor_temporal(times, unit="microsecond")
    return times.cast(pa.timestamp("us", tz=times.type.tz))


def _payload(rows: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    columns = []
    for field in schema:
        column = rows.column(field.name)
        if column.type != field.type:
            try:
                if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type):
                    column = in_microseconds(column)
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
                raise StreamError(
                    f"column '{field.name}' holds {column.type}, but is declared as {field.type}",
                    where=f"{where}: {str(problem)[:120]}",
                    hint="declare the type of the data",
                ) from None
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _refuse_forever(start: TimeArray, rows: pa.RecordBatch, first: int, where: str) -> None:
    if len(start) and start.max() == FOREVER:
        bad = start == FOREVER
        _refuse(bad, "an event cannot start at forever", rows, first, where, "correct the start")


def _refuse_reversed(
    bad: npt.NDArray[np.bool_], rows: pa.RecordBatch, first: int, where: str
) -> None:
    _refuse(
        bad,
        "a lifetime ends before it starts",
        rows,
        first,
        where,
        "an end must be later than the start; an adjust to the start withdraws the event",
    )


def _refuse(
    bad: npt.NDArray[np.bool_], what: str, rows: pa.RecordBatch, first: int, where: str, hint: str
) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        shown = str(rows.slice(row, 1).to_pylist()[0])[:120]
        raise StreamError(what, where=f"{where}, row {first + row}: {shown}", hint=hint)
