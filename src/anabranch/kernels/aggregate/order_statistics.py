"""Order statistics over time: each moves on from where it was, by what came and went below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.aggregate.argument_lanes import StatisticLane
from anabranch.kernels.aggregate.holistic import present_values, same_values, spans
from anabranch.kernels.aggregate.measures import Measure
from anabranch.kernels.columns.codes import code_of, has_code
from anabranch.kernels.columns.families import STATISTICS
from anabranch.kernels.columns.grouped import Ints, Mask, order_by_number_and_time
from anabranch.kernels.columns.value_order import codes_of
from anabranch.kernels.contract.column_names import END, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.breakpoints import filled
from anabranch.kernels.trace.coverage import Coverage
from anabranch.kernels.trace.ranked_events import (
    VALUE,
    Asked,
    alive_between,
    unknown_event,
    walk,
)
from anabranch.kernels.trace.ranked_values import walk_values
from anabranch.kernels.trace.timeline import LaneMoves, TimelineRevision
from anabranch.kernels.trace.timeline_rows import COUNT

_MOST: Final = np.int64(2**63 - 1)
_UNKNOWN: Final = -1

Walk: TypeAlias = Callable[[Asked], tuple[Ints, Ints, Ints]]
"""The codes that are asked for, and how many alive values are smaller, smaller or equal."""


def revise_statistics(
    measure: Measure,
    revision: TimelineRevision,
    arrived: pa.RecordBatch,
    moves: LaneMoves,
    events: Sequence[SortedRun],
) -> dict[str, pa.Array]:
    """The lanes of the order statistics after a batch; `events` are all that are alive then.

    A lane holds the value itself, and how many values are smaller, smaller or equal. What the
    batch brought and took below it is counted; from there the new one is so many values away.
    """
    count = revision.new[measure.additive.count]
    if (count < 0).any():
        raise unknown_event()
    names = measure.statistic_columns()
    positions = np.flatnonzero(revision.touched & ~same_values(measure, revision))
    if not has_code(measure.ranked):
        if not len(positions) or not names:
            return old_statistics(measure, revision)
        return _move_values(measure, revision, arrived, moves, events, positions)
    columns = {name: _numbers(revision, name) for name in names}
    if len(positions) and names:
        rows, values = present_values(measure, arrived)
        batch = _BatchValues.of(revision, moves, rows, code_of(values, measure.ranked))

        def onward(asked: Asked) -> tuple[Ints, Ints, Ints]:
            past = np.where(asked.up, np.minimum(asked.cut, _MOST - 1) + 1, asked.cut)
            return walk(events, replace(asked, cut=past))

        _move(measure, revision, batch, columns, positions, onward)
    is_there = count > 0
    return {name: pa.array(values * is_there) for name, values in columns.items()}


def old_statistics(measure: Measure, revision: TimelineRevision) -> dict[str, pa.Array]:
    """The lanes of the order statistics as they were.

    Numbers are 0 where there was no value; other values are null there.
    """
    names = measure.statistic_columns()
    if has_code(measure.ranked):
        return {name: pa.array(_numbers(revision, name)) for name in names}
    return {name: revision.old_values(name) for name in names}


def _numbers(revision: TimelineRevision, name: str, *, missing: int = 0) -> Ints:
    """A lane of numbers as it was, `missing` where there was none."""
    held = revision.rows.column(name)
    if held.null_count:
        held = held.fill_null(missing)
    return filled(held.to_numpy(), revision.old_source)


def _move_values(
    measure: Measure,
    revision: TimelineRevision,
    arrived: pa.RecordBatch,
    moves: LaneMoves,
    events: Sequence[SortedRun],
    positions: Ints,
) -> dict[str, pa.Array]:
    """Order statistics of values that have no code, such as texts.

    The old statistics and what the batch brings are ranked among themselves, which is enough to
    count; their ranks are codes for this batch. A value that is walked to has a code behind all
    of these, which is read off and never compared.
    """
    parts = measure.statistic_lanes
    rows, values = present_values(measure, arrived)
    pool = pa.concat_arrays([*(revision.rows.column(part.name) for part in parts), values])
    codes = codes_of(pool)
    row_of = np.arange(len(pool))  # by code
    row_of[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
    found: list[pa.Array] = [pool]
    columns: dict[str, Ints] = {}
    for number, part in enumerate(parts):
        own = codes[number * revision.rows.num_rows :][: revision.rows.num_rows]
        columns[part.name] = filled(own, revision.old_source)
        for name in (part.below, part.upto):
            columns[name] = _numbers(revision, name, missing=_UNKNOWN)

    def onward(asked: Asked) -> tuple[Ints, Ints, Ints]:
        asked = replace(asked, cut=row_of[asked.cut])
        answers, below, upto = walk_values(events, asked, pool)
        found.append(answers)
        return len(pool) + np.arange(len(answers)), below, upto

    was, now = revision.old[measure.additive.count], revision.new[measure.additive.count]
    unknown = np.zeros(len(positions), np.bool_)
    for part in parts:
        unknown |= columns[part.below][positions] == _UNKNOWN
    unknown &= (was[positions] > 0) & (now[positions] > 0)
    batch = _BatchValues.of(revision, moves, rows, codes[len(pool) - len(values) :])
    _move(measure, revision, batch, columns, positions[~unknown], onward)
    counted = positions[unknown]
    for part, answers, below, upto in _look_up(measure, revision, events, counted):
        columns[part.name][counted] = sum(map(len, found)) + np.arange(len(counted))
        columns[part.below][counted], columns[part.upto][counted] = below, upto
        found.append(answers)
    every = pa.concat_arrays(found)
    row_of = np.concatenate([row_of, np.arange(len(pool), len(every))])
    missing = now <= 0
    lanes: dict[str, pa.Array] = {}
    for part in parts:
        row = row_of[np.where(missing, 0, columns[part.name])]
        lanes[part.name] = every.take(pa.array(row, mask=missing))
        for name in (part.below, part.upto):
            lanes[name] = pa.array(columns[name], mask=missing | (columns[name] == _UNKNOWN))
    return lanes


def _move(
    measure: Measure,
    revision: TimelineRevision,
    batch: _BatchValues,
    columns: dict[str, Ints],
    positions: Ints,
    onward: Walk,
) -> None:
    """Write the new order statistics of positions into the columns of their lanes.

    Codes are those of the batch; `onward` finds the value at an index beyond a code.
    """
    parts = measure.statistic_lanes
    was, now = revision.old[measure.additive.count], revision.new[measure.additive.count]
    index = np.concatenate([part.statistic.index(now[positions]) for part in parts])
    names = ("name", "below", "upto")
    each = [[getattr(part, name) for part in parts] for name in names]
    code, below, upto = (
        np.concatenate([columns[name][positions] for name in of_parts]) for of_parts in each
    )
    at = np.tile(positions, len(parts))
    known = _Known(index, code, below, upto, had=was[at] > 0, has=now[at] > 0)
    loops = STATISTICS.loops(len(batch.codes))
    if loops is None:
        code, below, upto, is_away = _counted(batch, known, positions, at)
    else:
        by_code = order_by_number_and_time(batch.group[batch.low], batch.codes)
        code, below, upto, is_away = loops.count_batch(
            batch.group, batch.low, batch.high, batch.codes, batch.sign, by_code, positions,
            index, code, below, upto, known.had, known.has,
        )  # fmt: skip
    away = np.flatnonzero(is_away)
    if len(away):
        up = index[away] >= upto[away]
        asked = Asked(
            ids=revision.ids[at[away]],
            times=revision.times[at[away]],
            index=index[away],
            cut=code[away],
            base=np.where(up, upto[away], below[away]),
            up=up,
        )
        code[away], below[away], upto[away] = onward(asked)
    for of_parts, found in zip(each, (code, below, upto), strict=True):
        for name, part in zip(of_parts, np.split(found, len(parts)), strict=True):
            columns[name][positions] = part


@final
@dataclass(frozen=True, slots=True, eq=False)
class _BatchValues:
    """The values that a batch brings (and takes, with `sign` -1) between breakpoints of groups."""

    group: Ints
    low: Ints
    high: Ints
    codes: Ints
    sign: Ints

    @staticmethod
    def of(revision: TimelineRevision, moves: LaneMoves, rows: Ints, codes: Ints) -> _BatchValues:
        """The codes of the rows of a batch that have a value."""
        return _BatchValues(
            group=np.cumsum(revision.first) - 1,
            low=revision.low_index[rows],
            high=revision.high_index[rows],
            codes=codes,
            sign=np.where(moves.new_end[rows] > moves.end[rows], 1, -1),
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Order statistics as they were, and the index that each has now."""

    index: Ints
    code: Ints
    below: Ints
    upto: Ints
    had: Mask
    has: Mask


def _counted(
    batch: _BatchValues, known: _Known, positions: Ints, at: Ints
) -> tuple[Ints, Ints, Ints, Mask]:
    """The statistics moved by what came below them; see `count_batch` for the compiled twin."""
    group, index, code = batch.group, known.index, known.code.copy()
    of_row = group[batch.low]
    last = np.full(int(group[-1]) + 1, -1)
    np.maximum.at(last, group[positions], positions)
    brought = Coverage.of_events(
        of_row, batch.low, batch.high, batch.codes, batch.sign, until=last[of_row]
    )
    spot = brought.at(group[at], at)
    below = known.below + brought.below(spot, code)
    upto = known.upto + brought.below(spot, code, or_equal=True)
    # Where there was nothing, all that is there now came with the batch.
    new = np.flatnonzero(known.has & ~known.had)
    code[new], below[new], equal = brought.pick(spot.take(new), index[new])
    upto[new] = below[new] + equal
    away = known.has & known.had & ((index >= upto) | (index < below))
    return code, below, upto, away


def _look_up(
    measure: Measure, revision: TimelineRevision, events: Sequence[SortedRun], positions: Ints
) -> Iterator[tuple[StatisticLane, pa.Array, Ints, Ints]]:
    """Order statistics over all events of the keys: the values, and how many are below and up to.

    Only state that was written before these numbers were kept asks for it, once per row.
    """
    if not len(positions):
        return
    count = revision.new[measure.additive.count][positions]
    ids, owner, first, last = spans(revision.ids[positions], revision.times[positions])
    rows, whose = alive_between(events, measure.ranked, ids, first, last)
    codes = codes_of(rows.column(VALUE))
    coverage = Coverage.of_events(
        whose,
        rows.column(TIME).to_numpy(),
        rows.column(END).to_numpy(),
        codes,
        rows.column(COUNT).to_numpy(),
    )
    spot = coverage.at(owner, revision.times[positions])
    if (coverage.total(spot) != count).any():
        raise unknown_event()
    row_of = np.empty(int(codes.max(initial=-1)) + 1, np.int64)
    row_of[codes] = np.arange(len(codes))
    for part in measure.statistic_lanes:
        picked, below, equal = coverage.pick(spot, part.statistic.index(count))
        answers = rows.column(VALUE).take(pa.array(row_of[picked]))
        yield part, answers, below, below + equal
