"""Cut lifetimes into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.algebra.forms.split import Split
from anabranch.algebra.to_stream import ToStream
from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import positions_of
from anabranch.kernels.contract.column_names import CHECK, ID, TIME
from anabranch.kernels.contract.kernel import (
    Arrived,
    Rest,
    SortedRun,
    Stateful,
    Stateless,
    Trace,
)
from anabranch.kernels.contract.packed_events import payload_of, unpack_events
from anabranch.kernels.contract.routing import Routing, by_payload
from anabranch.kernels.lifetimes.packed_events import concat_where, pack, packed_schema, run_of
from anabranch.kernels.trace.event_trace import add_up, events_merger
from anabranch.kernels.trace.rest import runs_rest
from anabranch.kernels.trace.runs import add_run
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.netting import net
from anabranch.model.time import FOREVER, Time, TimeArray, add_saturating

Counts = npt.NDArray[np.uint64]

MOST_PIECES: Final = 20_000_000
"""A split that makes more pieces than this of one batch is refused."""


@final
@dataclass(frozen=True, slots=True)
class KeepKernel(Stateless):
    """A split of points: there is nothing to cut."""

    identity: ClassVar[Identity] = Identity("KeepKernel", ("node",))

    node: Split | ToStream

    @property
    def label(self) -> str:
        """That of the node, and why it does nothing."""
        return f"{self.node.label} [points]"

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    def interest(self, end: Time, side: int = 0) -> Time:
        """Lifetimes stay as they are."""
        del side
        return end

    def apply(self, batch: EventBatch) -> EventBatch:
        """The rows as they are."""
        return batch


@final
@dataclass(frozen=True, slots=True)
class SplitKernel(Stateful):
    """Split, and Rstream as a split into points.

    A lifetime that ends is cut when it comes: its pieces follow from its start and its end. One
    that does not end is cut up to the stable point; the piece that reaches beyond stays open. As
    the stable point moves on, open pieces are ended and others begin, so just the open lifetimes
    are remembered.
    """

    identity: ClassVar[Identity] = Identity("SplitKernel", ("node",), form=("route",))

    node: Split | ToStream

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    @property
    def _length(self) -> np.uint64:
        return np.uint64(self.node.length if isinstance(self.node, Split) else 1)

    @property
    def looks_back(self) -> bool:
        """What was cut is not cut again."""
        return True

    def routing(self, name: str) -> Routing:
        """Open lifetimes have their payload."""
        del name
        return by_payload(self.route, self.schema)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Events with both hashes of their payload."""
        del side
        return packed_schema(self.node.input.schema)

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with the hash of their payload."""
        del side
        return pack(batch)

    def rest(self, trace: Trace) -> Rest:
        """Until the stable point reaches the next cut of an open lifetime."""
        held, stable = trace.runs.get("open", ()), trace.stable
        until = int(runs_rest(held, stable, anchors=False))
        for run in held:
            start = run.rows.column(TIME).to_numpy()
            begun = np.maximum(start, np.int64(stable))
            in_piece = (begun.view(np.uint64) - start.view(np.uint64)) % self._length
            room = np.uint64(FOREVER) - begun.view(np.uint64)
            ahead = np.minimum(self._length - in_piece - np.uint64(1), room)
            last = (begun.view(np.uint64) + ahead).view(np.int64)
            until = min(until, int(last.min(initial=FOREVER)))
        return Rest(Time(until))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Cut what came at the old stable point, then all that is open up to the new one."""
        (rows,) = arrived
        moves = unpack_events(rows, self.schema, stable)
        held, before = trace.runs.get("open", ()), trace.stable
        fresh = run_of(rows, _open_parts(moves))
        parts = [
            self._cut(moves, before),
            self._cut_further((*held, SortedRun(fresh)), before, stable),
        ]
        output = net(EventBatch.concat(parts))
        if stable == FOREVER:
            return Trace({}, stable), output
        kept = add_run(held, fresh, stable, events_merger(stable, [CHECK]), anchors=False)
        return Trace({"open": kept} if kept else {}, stable), output

    def _cut(self, moves: EventBatch, stable: Time) -> EventBatch:
        moves = moves.where(moves.end != moves.new_end)
        counts = [self._count(moves.start, end, stable) for end in (moves.end, moves.new_end)]
        return self._pieces(moves, counts[0], counts[1])

    def _cut_further(self, runs: Sequence[SortedRun], before: Time, stable: Time) -> EventBatch:
        """The open lifetimes in which the stable point has passed a cut."""
        if stable in (before, FOREVER):
            return EventBatch.empty(self.schema, stable)
        starts = [run.rows.column(TIME).to_numpy() for run in runs]
        due = [self._full(start, stable) > self._full(start, before) for start in starts]
        rows = concat_where([(run.rows, mask) for run, mask in zip(runs, due, strict=True)])
        positions, copies = add_up(rows, [CHECK], rows.column(ID).to_numpy())
        positions = np.repeat(positions, np.maximum(copies, 0))
        rows = rows.take(pa.array(positions))
        start = rows.column(TIME).to_numpy()
        end = np.full(len(start), np.int64(FOREVER))
        moves = EventBatch(payload_of(rows, self.schema), start, end, end, stable)
        counts = [self._full(start, at) + np.uint64(1) for at in (before, stable)]
        return self._pieces(moves, counts[0], counts[1])

    def _full(self, start: TimeArray, stable: Time) -> Counts:
        """How many whole pieces of an open lifetime lie before the stable point."""
        passed = np.maximum(start, np.int64(stable)).view(np.uint64) - start.view(np.uint64)
        return np.asarray(passed // self._length)

    def _count(self, start: TimeArray, end: TimeArray, stable: Time) -> Counts:
        """How many pieces there are of each lifetime [start, end), as it is cut by now."""
        length = end.view(np.uint64) - start.view(np.uint64)
        one = np.uint64(1)
        cut = np.where(length > 0, (np.maximum(length, one) - one) // self._length + one, 0)
        return np.where(end == FOREVER, self._full(start, stable) + one, cut).astype(np.uint64)

    def _pieces(self, moves: EventBatch, old: Counts, new: Counts) -> EventBatch:
        """The moves of pieces when there are other ends, or other numbers of pieces.

        All pieces before the last one are whole, so only from the last common one on something
        can change.
        """
        one = np.uint64(1)
        low, high = np.maximum(np.minimum(old, new), one) - one, np.maximum(old, new)
        self._refuse_too_many(high - low)
        many = (high - low).astype(np.int64)
        offset, row = positions_of(np.zeros(len(many), np.int64), many)
        moves = moves.take(row)
        number, old, new = low[row] + offset.astype(np.uint64), old[row], new[row]
        # Modulo 2^64 this is right for any two instants.
        begin = (moves.start.view(np.uint64) + number * self._length).view(np.int64)
        whole = add_saturating(begin, int(self._length))

        def ends(count: Counts, end: TimeArray) -> TimeArray:
            there = np.where(number + one == count, end, whole)
            return np.where(number < count, there, begin)

        was, now = ends(old, moves.end), ends(new, moves.new_end)
        pieces = EventBatch(moves.payload, begin, was, now, moves.stable)
        return pieces.where(was != now)

    def _refuse_too_many(self, pieces: Counts) -> None:
        if float(pieces.astype(np.float64).sum()) > MOST_PIECES:
            raise StreamError(
                f"a lifetime would be cut into {int(pieces.max())} pieces",
                where=self.node.label,
                hint="use longer pieces, or a coarser time; a lifetime without end is cut up to "
                "the stable point",
            )


def _open_parts(moves: EventBatch) -> EventBatch:
    """The same moves of those events that do not end; others count as nothing."""
    ends = (np.where(end == FOREVER, end, moves.start) for end in (moves.end, moves.new_end))
    return moves.with_ends(*ends)
