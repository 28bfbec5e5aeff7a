"""Smallest and largest values over time: raised by what comes, looked up where one has gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.kernels.aggregate.argument_lanes import ExtremeLane
from anabranch.kernels.aggregate.measures import Measures
from anabranch.kernels.columns.extremes import NONE, Codec, cover_max
from anabranch.kernels.columns.grouped import Ids, Ints, Mask
from anabranch.kernels.contract.column_names import END, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.event_trace import events_over, events_schema
from anabranch.kernels.trace.runs import search
from anabranch.kernels.trace.timeline import LaneMoves, Lanes, TimelineRevision, revise
from anabranch.kernels.trace.timeline_rows import COUNT


@final
@dataclass(frozen=True, slots=True, eq=False)
class Peaks:
    """The value lanes of a revision as codes, before and after."""

    codecs: Mapping[ExtremeLane, Codec]
    old: Mapping[ExtremeLane, Ints]
    new: dict[ExtremeLane, Ints]

    @staticmethod
    def none() -> Peaks:
        """No value lanes at all."""
        return Peaks({}, {}, {})

    def decoded(self, codes: Mapping[ExtremeLane, Ints]) -> dict[str, pa.Array]:
        """Codes as values, by the columns of their lanes."""
        return {lane.name: self.codecs[lane].decode(part) for lane, part in codes.items()}

    def differ(self, length: int) -> Mask:
        """Breakpoints whose values are not those of the breakpoint before."""
        result = np.zeros(length, np.bool_)
        for codes in self.new.values():
            result[1:] |= codes[1:] != codes[:-1]
        return result

    def changed(self, length: int) -> Mask:
        """Breakpoints whose values are not what they were."""
        result = np.zeros(length, np.bool_)
        for lane, codes in self.new.items():
            result |= codes != self.old[lane]
        return result


def find_peaks(
    timeline: Sequence[SortedRun],
    lanes: Lanes,
    measures: Measures,
    moves: LaneMoves,
    arrived: pa.RecordBatch,
    events: Sequence[SortedRun] | None,
) -> tuple[TimelineRevision, Peaks]:
    """Revise the timelines with their value lanes.

    `events` holds all events after this batch, or is None where nothing is ever taken away.
    """
    values = [(part.value_column, part.argument.type) for part in measures.extremes]
    schema, compared = events_schema(values), [name for name, _ in values]
    revision = revise(timeline, lanes, moves)
    peaks, lost = _overlay(revision, measures, moves, arrived, None)
    if lost.any():
        if events is None:
            raise StreamError(
                "an adjust or withdrawal in a stream that was declared insert-only",
                where="MIN/MAX over an insert-only input",
                hint="declare the source without insert_only",
            )
        ids, low, high = _ranges(revision, lost)
        rows, owner = events_over(events, schema, compared, ids, low, high)
        starts = np.clip(rows.column(TIME).to_numpy(), low[owner], high[owner])
        ends = np.clip(rows.column(END).to_numpy(), low[owner], high[owner])
        # Inside a range that lost its extreme, events may begin and end where no row was needed.
        revision = revise(timeline, lanes, _with_indexes(moves, ids[owner], starts, ends))
        peaks, lost = _overlay(revision, measures, moves, arrived, rows)
        low_index = _locate(revision, ids[owner], starts)
        high_index = _locate(revision, ids[owner], ends)
        for lane, codec in peaks.codecs.items():
            codes = codec.encode(rows.column(lane.source))
            covered = cover_max(len(revision.ids), low_index, high_index, codes)
            peaks.new[lane] = np.where(lost, covered, peaks.new[lane])
    if not measures.counting:
        there = np.zeros(len(revision.ids), np.bool_)
        for codes in peaks.new.values():
            there |= codes > NONE
        revision.new[COUNT] = there.astype(np.int64)
    return revision, peaks


def _overlay(
    revision: TimelineRevision,
    measures: Measures,
    moves: LaneMoves,
    arrived: pa.RecordBatch,
    events: pa.RecordBatch | None,
) -> tuple[Peaks, Mask]:
    """Raise the lanes by what came; mark the breakpoints whose extreme went away."""
    count = arrived.num_rows
    low, high = revision.low_index[:count], revision.high_index[:count]
    grows = moves.new_end[:count] > moves.end[:count]
    shrinks = moves.new_end[:count] < moves.end[:count]
    there = revision.old[COUNT] > 0
    lost = np.zeros(len(revision.ids), np.bool_)
    codecs, old, new = {}, {}, {}
    for lane in (lane for part in measures.extremes for lane in part.extremes):
        values = arrived.column(lane.source)
        was = revision.old_values(lane.name)
        columns = [was, values] + ([events.column(lane.source)] if events is not None else [])
        codec = Codec.of(lane.kind, lane.is_smallest, columns)
        codes = codec.encode(values)
        old[lane] = np.where(there, codec.encode(was), NONE)
        length = len(revision.ids)
        raised = cover_max(length, low[grows], high[grows], codes[grows])
        gone = cover_max(length, low[shrinks], high[shrinks], codes[shrinks])
        lost |= (gone > NONE) & (gone >= old[lane])
        new[lane] = np.maximum(old[lane], raised)
        codecs[lane] = codec
    return Peaks(codecs, old, new), lost & revision.touched


def _ranges(revision: TimelineRevision, lost: Mask) -> tuple[Ids, Ints, Ints]:
    """Maximal stretches of neighbouring lost breakpoints: ids, from, to."""
    before = np.zeros(len(lost), np.bool_)
    before[1:] = lost[:-1] & ~revision.first[1:]
    begins = np.flatnonzero(lost & ~before)
    after = np.zeros(len(lost), np.bool_)
    after[:-1] = lost[1:] & ~revision.first[1:]
    ends = np.flatnonzero(lost & ~after)
    return revision.ids[begins], revision.times[begins], revision.times[ends + 1]


def _with_indexes(moves: LaneMoves, ids: Ids, starts: Ints, ends: Ints) -> LaneMoves:
    """The same moves, and breakpoints at which nothing moves."""
    more = len(ids)
    times = np.concatenate([starts, ends])
    nothing = np.zeros(2 * more, np.int64)
    check = None
    if moves.check is not None:
        order = np.argsort(moves.ids, kind="stable")
        check_of = moves.check[order[np.searchsorted(moves.ids[order], ids)]]
        check = np.concatenate([moves.check, check_of, check_of])
    return LaneMoves(
        ids=np.concatenate([moves.ids, ids, ids]),
        end=np.concatenate([moves.end, times]),
        new_end=np.concatenate([moves.new_end, times]),
        whole={name: np.concatenate([part, nothing]) for name, part in moves.whole.items()},
        check=check,
    )


def _locate(revision: TimelineRevision, ids: Ids, times: Ints) -> Ints:
    """The indexes of instants, each of which is a breakpoint."""
    low = np.searchsorted(revision.ids, ids, side="left")
    high = np.searchsorted(revision.ids, ids, side="right")
    return search(revision.times, low, high, times, after_equal=False)
