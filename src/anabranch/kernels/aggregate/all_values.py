"""Results out of all values of an instant: what no lane can follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.aggregates.lanes import OrderedValues
from anabranch.kernels.aggregate.holistic import ArgumentValues, spans
from anabranch.kernels.aggregate.measures import Measure, Measures
from anabranch.kernels.columns.codes import has_code, value_of
from anabranch.kernels.columns.families import STATISTICS
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    order_by_number_and_time,
    positions_of,
)
from anabranch.kernels.columns.value_order import merge_values
from anabranch.kernels.contract.column_names import END, TIME
from anabranch.kernels.trace.ranked_events import VALUE, alive_parts, unknown_event
from anabranch.kernels.trace.runs import search
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import BEGINNING


def over_all_values(
    measures: Measures, values: Mapping[int, ArgumentValues], ids: Ids, times: Ints, is_old: Mask
) -> Iterator[tuple[int, pa.Array]]:
    """Results that need all values, of keys at instants: as they were, or as they are.

    Such a result costs as much as there are values, so only those that leave are ever made. Gives
    the number of an aggregate, and its results.
    """
    for measure in measures.holistic:
        if not measure.writes_values:
            continue
        held = values[measure.index]
        # What ended before the promise may be half forgotten. A stretch that began then and is
        # asked about reaches at least up to it, so its last instant before will do.
        since = np.maximum(times, max(held.stable - 1, BEGINNING))
        found = _values_at(held, measure, ids, since, is_old)
        for index, call in enumerate(measures.calls):
            finish = call.definition.finish_values
            if finish is None or call.argument != measure.argument:
                continue
            yield index, finish(found, call.parameters).cast(call.type)


def _values_at(
    held: ArgumentValues, measure: Measure, ids: Ids, times: Ints, is_old: Mask
) -> OrderedValues:
    """All values that keys have at instants, in order, with how often each is there.

    What was there and what is there differ by what the batch brought, so all is read and put in
    order once, for all questions about a key.
    """
    groups, owner, first, last = spans(ids, times)
    kind = pa.int64() if has_code(measure.ranked) else measure.ranked
    read = _OrderedEvents.of(alive_parts(held.after, groups, first, last), kind)
    old = read.netted(np.flatnonzero(read.part < len(held.before)))
    new = read.netted(np.arange(len(read.part)))
    side = np.where(is_old, 0, len(groups)) + owner
    by_time = order_by_number_and_time(side, times)
    row = np.concatenate([old.row, new.row])
    counts = np.concatenate([old.count, new.count])
    of_row = read.owner[row]
    of_row[len(old.row) :] += len(groups)
    low, high = (np.searchsorted(side[by_time], of_row, side=end) for end in ("left", "right"))
    begin = search(times[by_time], low, high, read.begin[row], after_equal=False)
    stop = search(times[by_time], low, high, read.end[row], after_equal=False)
    question, entry = _spread(begin, stop, by_time)
    code, counts = read.code[row[entry]], counts[entry]
    if (counts < 0).any():
        # Half of an event that is not known, or of one that is half forgotten.
        starts = np.flatnonzero(is_first(question, code))
        counts = np.add.reduceat(counts, starts)
        if (counts < 0).any():
            raise unknown_event()
        starts, counts = starts[counts > 0], counts[counts > 0]
        question, code = question[starts], code[starts]
    return OrderedValues(len(ids), question, read.values(measure.ranked), counts, code)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _NetRows:
    """Rows that are not taken back by others, and how often each counts."""

    row: Ints
    count: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class _OrderedEvents:
    """Events of keys in the order of their values.

    Attributes:
        owner: The key of each.
        code: The number of its value among the different ones of all keys, in order.
        part: Which of the parts it is from.
        begin: From when on it is there.
        end: Until when.
        count: How many of it.
        distinct: The different values, or their codes.
    """

    owner: Ints
    code: Ints
    part: Ints
    begin: Ints
    end: Ints
    count: Ints
    distinct: pa.Array

    @staticmethod
    def of(parts: Sequence[tuple[pa.RecordBatch, Ints]], kind: pa.DataType) -> _OrderedEvents:
        """Merge parts that are in order."""
        values = pa.concat_arrays([pa.array([], kind), *(rows.column(VALUE) for rows, _ in parts)])
        order, first = merge_values([owner for _, owner in parts], values)
        owner = np.concatenate([owner for _, owner in parts])[order]
        begin, end, count = (
            np.concatenate([rows.column(name).to_numpy() for rows, _ in parts])[order]
            for name in (TIME, END, COUNT)
        )
        part = np.repeat(np.arange(len(parts)), [len(owner) for _, owner in parts])[order]
        distinct = values.take(pa.array(order[first]))
        return _OrderedEvents(owner, np.cumsum(first) - 1, part, begin, end, count, distinct)

    def netted(self, chosen: Ints) -> _NetRows:
        """Some of the rows: what was taken back is left out, with what took it back."""
        count = self.count[chosen]
        back = np.zeros(len(self.distinct), np.bool_)
        back[self.code[chosen[count < 0]]] = True
        tied = np.flatnonzero(back[self.code[chosen]])
        if not len(tied):
            return _NetRows(chosen, count)
        rows = chosen[tied]
        keys = (self.end[rows], self.begin[rows], self.code[rows])
        order = np.lexsort(keys)
        starts = np.flatnonzero(is_first(*(key[order] for key in keys)))
        left = np.zeros(len(tied), np.int64)
        left[order[starts]] = np.add.reduceat(count[tied[order]], starts)
        count[tied] = left
        there = np.flatnonzero(count)
        return _NetRows(chosen[there], count[there])

    def values(self, kind: pa.DataType) -> pa.Array:
        """The different values."""
        if not has_code(kind):
            return self.distinct
        codes = self.distinct.to_numpy()
        return value_of(codes, np.zeros(len(codes), np.bool_), kind)


def _spread(begin: Ints, stop: Ints, place: Ints) -> tuple[Ints, Ints]:
    """For ranges [begin, stop) of places: their numbers, place by place, and the place of each.

    >>> place = np.array([1, 0])
    >>> [part.tolist() for part in _spread(np.array([0, 1]), np.array([2, 2]), place)]
    [[0, 0, 1], [0, 1, 0]]
    """
    loops = STATISTICS.loops(len(begin))
    if loops is not None:
        found: tuple[Ints, Ints] = loops.spread(begin, stop, place)
        return found
    position, range_ = positions_of(begin, stop)
    question = place[position]
    # Numbers of 16 bits are sorted by their digits.
    keys = question.astype(np.uint16) if len(place) <= 2**16 else question
    order = np.argsort(keys, kind="stable")
    return question[order], range_[order]
