"""Order statistics over time, and results out of all values of an instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.aggregates.lanes import OrderedValues
from anabranch.kernels.aggregate.measures import Measure, Measures
from anabranch.kernels.columns.codes import code_of, has_code, value_of
from anabranch.kernels.columns.extremes import Codec
from anabranch.kernels.columns.families import STATISTICS
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    order_by_number_and_time,
    positions_of,
)
from anabranch.kernels.contract.column_names import END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.breakpoints import filled
from anabranch.kernels.trace.coverage import Coverage
from anabranch.kernels.trace.ranked_events import (
    VALUE,
    Asked,
    alive_between,
    codes_of,
    ranked_rows,
    unknown_event,
    walk,
)
from anabranch.kernels.trace.runs import search
from anabranch.kernels.trace.timeline import LaneMoves, TimelineRevision
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import BEGINNING, Time

_LEAST: Final = np.int64(-(2**63))
_MOST: Final = np.int64(2**63 - 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArgumentValues:
    """All values of an argument, before a batch and after it, and the promise before it."""

    before: tuple[SortedRun, ...]
    after: tuple[SortedRun, ...]
    stable: Time


def fresh_values(
    measure: Measure, arrived: pa.RecordBatch, start: Ints, moves: LaneMoves
) -> pa.RecordBatch:
    """What arrived of an argument, in the order of its values; NULLs do not count."""
    rows, values = _present(measure, arrived)
    if has_code(measure.ranked):
        values = pa.array(code_of(values, measure.ranked))
    ids = arrived.column(ID).to_numpy()
    return ranked_rows(ids[rows], values, start[rows], moves.end[rows], moves.new_end[rows])


def _present(measure: Measure, arrived: pa.RecordBatch) -> tuple[Ints, pa.Array]:
    values = arrived.column(measure.value_column)
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    return rows, values.take(pa.array(rows)).cast(measure.ranked, safe=False)


def same_values(measure: Measure, revision: TimelineRevision) -> Mask:
    """Where the values of an argument are what they were."""
    count, mix = measure.additive.count, measure.additive.mix
    same: Mask = revision.old[count] == revision.new[count]
    same &= revision.old[mix] == revision.new[mix]
    return same


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
    positions = np.flatnonzero(revision.touched & ~same_values(measure, revision))
    if not has_code(measure.ranked):
        lanes = {name: revision.old_values(name) for name in measure.statistic_columns()}
        return _look_up(measure, revision, events, lanes, positions) if len(positions) else lanes
    columns = {name: _codes(revision, name) for name in measure.statistic_columns()}
    if len(positions) and columns:
        _move(measure, revision, arrived, moves, events, columns, positions)
    missing = count == 0
    return {name: pa.array(values, mask=missing) for name, values in columns.items()}


def _codes(revision: TimelineRevision, name: str) -> Ints:
    """A lane of codes as it was, 0 where there was no value."""
    held = revision.rows.column(name)
    if held.null_count:
        held = held.fill_null(0)
    return filled(held.to_numpy(), revision.old_source)


def _move(
    measure: Measure,
    revision: TimelineRevision,
    arrived: pa.RecordBatch,
    moves: LaneMoves,
    events: Sequence[SortedRun],
    columns: dict[str, Ints],
    positions: Ints,
) -> None:
    """Write the new order statistics of positions into the columns of their lanes."""
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
    rows, values = _present(measure, arrived)
    batch = _BatchValues(
        group=_groups(revision),
        low=revision.low_index[rows],
        high=revision.high_index[rows],
        codes=code_of(values, measure.ranked),
        sign=np.where(moves.new_end[rows] > moves.end[rows], 1, -1),
    )
    loops = STATISTICS.loops(len(rows))
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
        from_ = code[away]
        asked = Asked(
            ids=revision.ids[at[away]],
            times=revision.times[at[away]],
            index=index[away],
            cut=np.where(up, np.minimum(from_, _MOST - 1) + 1, from_),
            base=np.where(up, upto[away], below[away]),
            up=up,
        )
        code[away], below[away], upto[away] = walk(events, asked)
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


def _groups(revision: TimelineRevision) -> Ints:
    return np.cumsum(revision.first) - 1


def _look_up(
    measure: Measure,
    revision: TimelineRevision,
    events: Sequence[SortedRun],
    lanes: dict[str, pa.Array],
    positions: Ints,
) -> dict[str, pa.Array]:
    """Order statistics of values that are no numbers: over all events of the keys."""
    count = revision.new[measure.additive.count]
    counted = positions[count[positions] > 0]
    ids, owner, first, last = _spans(revision.ids[counted], revision.times[counted])
    rows, whose = alive_between(events, measure.ranked, ids, first, last)
    codec = Codec.of(measure.ranked, False, [rows.column(VALUE)])
    coverage = Coverage.of_events(
        whose,
        rows.column(TIME).to_numpy(),
        rows.column(END).to_numpy(),
        codec.encode(rows.column(VALUE)),
        rows.column(COUNT).to_numpy(),
    )
    spot = coverage.at(owner, revision.times[counted])
    if (coverage.total(spot) != count[counted]).any():
        raise unknown_event()
    for part in measure.statistic_lanes:
        codes, _, _ = coverage.pick(spot, part.statistic.index(count[counted]))
        source = np.arange(len(revision.ids))
        source[positions] = -1
        source[counted] = len(revision.ids) + np.arange(len(counted))
        both = pa.concat_arrays([lanes[part.name], codec.decode(codes)])
        lanes[part.name] = both.take(pa.array(source, mask=source < 0))
    return lanes


def _spans(ids: Ids, times: Ints) -> tuple[Ids, Ints, Ints, Ints]:
    """The different ids, the number of each row's, and the first and last instant of each id."""
    groups, owner = np.unique(ids, return_inverse=True)
    first, last = np.full(len(groups), _MOST), np.full(len(groups), _LEAST)
    np.minimum.at(first, owner, times)
    np.maximum.at(last, owner, times)
    return groups, owner, first, last


def over_all_values(
    measures: Measures, values: Mapping[int, ArgumentValues], ids: Ids, times: Ints, is_old: Mask
) -> Iterator[tuple[int, pa.Array]]:
    """Results that need all values, of keys at instants: as they were, or as they are.

    Such a result costs as much as there are values, so only those that leave are ever made. Gives
    the number of an aggregate, and its results.
    """
    rows = [np.flatnonzero(is_old), np.flatnonzero(~is_old)]
    back = pa.array(np.argsort(np.concatenate(rows), kind="stable"))
    for measure in measures.holistic:
        if not measure.writes_values:
            continue
        held = values[measure.index]
        # What ended before the promise may be half forgotten. A stretch that began then and is
        # asked about reaches at least up to it, so its last instant before will do.
        since = np.maximum(times, max(held.stable - 1, BEGINNING))
        found = [
            _values_at(runs, measure, ids[counted], since[counted])
            for runs, counted in zip((held.before, held.after), rows, strict=True)
        ]
        for index, call in enumerate(measures.calls):
            finish = call.definition.finish_values
            if finish is None or call.argument != measure.argument:
                continue
            parts = [finish(each, call.parameters).cast(call.type) for each in found]
            yield index, pa.concat_arrays(parts).take(back)


def _values_at(runs: Sequence[SortedRun], measure: Measure, ids: Ids, times: Ints) -> OrderedValues:
    """All values that keys have at instants, in order, with how often each is there."""
    coded = has_code(measure.ranked)
    kind = pa.int64() if coded else measure.ranked
    groups, owner, first, last = _spans(ids, times)
    rows, whose = alive_between(runs, kind, groups, first, last)
    by_time = np.lexsort((times, owner))
    ordered, whole = times[by_time], owner[by_time]
    low, high = (np.searchsorted(whole, whose, side=side) for side in ("left", "right"))
    begin = search(ordered, low, high, rows.column(TIME).to_numpy(), after_equal=False)
    stop = search(ordered, low, high, rows.column(END).to_numpy(), after_equal=False)
    position, row = positions_of(begin, stop)
    question, code = by_time[position], codes_of(rows.column(VALUE))[row]
    order = np.lexsort((code, question))
    starts = is_first(question[order], code[order])
    counts = rows.column(COUNT).to_numpy()[row][order]
    counts = np.add.reduceat(counts, np.flatnonzero(starts)) if len(order) else counts
    if (counts < 0).any():
        raise unknown_event()
    counted = counts > 0
    chosen = order[starts][counted]
    if coded:
        values = value_of(code[chosen], np.zeros(len(chosen), np.bool_), measure.ranked)
    else:
        values = rows.column(VALUE).take(pa.array(row[chosen]))
    return OrderedValues(len(ids), question[chosen], values, counts[counted])
