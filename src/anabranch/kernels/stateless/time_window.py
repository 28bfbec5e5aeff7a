"""Hold what was seen for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.layers import WAYS_OUT
from anabranch.algebra.node import clock_of
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.window_columns import Columns
from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import is_compiled, native, positions_of
from anabranch.kernels.contract.kernel import Stateless
from anabranch.kernels.stateless.window_columns import with_bounds
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray, add_saturating

MOST_LAYERS: Final = 20_000_000
"""A window that makes more rows than this of one batch is refused."""


@final
@dataclass(frozen=True, slots=True)
class TimeWindowKernel(Stateless):
    """Time window over events of any lifetime, without state.

    Every instant of a lifetime is an occurrence of its own. Those of `[s, e)` under a window of
    size w are the layers `[s+k-1, e+w-k)` for k = 1 .. min(w, e-s), with both ends moved up to
    the next slide instant. A point has one layer; a move of an end moves the ends of all layers.
    Where only presence matters the first layer is enough: it covers all others.

    Where rows say which window shows them, a point becomes one row per window that holds it.
    """

    identity: ClassVar[Identity] = Identity("TimeWindowKernel", ("node",))

    node: TimeWindow

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """Unchanged, or with the bounds of the window."""
        return self.node.schema

    def interest(self, end: Time, side: int = 0) -> Time:
        """The last layer ends almost a window and a slide later."""
        del side
        if int(self.node.size) == FOREVER:
            return BEGINNING
        return Time(max(end - (self.node.size - 1) - (self.node.slide - 1), BEGINNING))

    def apply(self, batch: EventBatch) -> EventBatch:
        """Rows whose layers are empty after the slide are dropped."""
        if self.node.columns is not None:
            return self._show_windows(batch, self.node.columns)
        if self.node.input.properties.only_points:
            return self._hold_points(batch)
        size = np.int64(1 if self.node.presence else self.node.size)
        depth = np.zeros(len(batch), np.int64)
        if len(batch):
            layers = np.maximum(*(_lengths(batch.start, last, size) for last in _ends(batch)))
            if int(layers.max()) > 1:
                self._refuse_too_many(layers)
                rows, depth = _layers(layers)
                batch = batch.take(rows)
        begin = batch.start + depth
        old, new = (
            np.where(
                _lengths(batch.start, last, size) > depth,
                self._layer_end(last, depth),
                begin,
            )
            for last in _ends(batch)
        )
        batch = EventBatch(batch.payload, begin, old, new, batch.stable)
        if self.node.slide == 1:
            return batch
        begin, old, new = (self._slide_up(times) for times in (begin, old, new))
        slid = EventBatch(batch.payload, begin, old, new, batch.stable)
        return slid.where((begin < FOREVER) & (old != new))

    def _hold_points(self, batch: EventBatch) -> EventBatch:
        """A point is kept or withdrawn, never resized, so one end serves both."""
        begin, size, slide = batch.start, int(self.node.size), int(self.node.slide)
        shown = slide == 1
        if shown or not is_compiled(len(batch)):
            end = self._layer_end(begin, np.zeros(1, np.int64) - 1)
            if not shown:
                begin, end = self._slide_up(begin), self._slide_up(end)
        else:
            begin, end, shown = native().held_points(np.ascontiguousarray(begin), size, slide)
        is_new = batch.end is batch.start or bool((batch.end == batch.start).all())
        if is_new and (batch.new_end > batch.start).all():
            held = EventBatch(batch.payload, begin, begin, end, batch.stable)
            return held if shown else held.where((begin < FOREVER) & (begin != end))
        old, new = (np.where(last > batch.start, end, begin) for last in _ends(batch))
        held = EventBatch(batch.payload, begin, old, new, batch.stable)
        return held if slide == 1 else held.where((begin < FOREVER) & (old != new))

    def _show_windows(self, batch: EventBatch, columns: Columns) -> EventBatch:
        """Once for every slide at which a point is held: kept or withdrawn in all of them."""
        slide = np.int64(self.node.slide)
        batch = batch.where(batch.end != batch.new_end)
        begin = self._slide_up(batch.start)
        end = self._slide_up(add_saturating(batch.start, self.node.size))
        windows = _slides(begin, end, slide)
        if not (windows == 1).all():
            self._refuse_too_many(windows)
            number, row = positions_of(np.zeros(len(batch), np.int64), windows)
            batch, begin = batch.take(row), begin[row] + number * slide
        end = add_saturating(begin, self.node.slide)
        old, new = (np.where(last > batch.start, end, begin) for last in _ends(batch))
        shown = EventBatch(batch.payload, begin, old, new, batch.stable)
        after = begin + 1
        too_early = after < np.int64(BEGINNING + self.node.size)
        first = np.where(too_early, np.int64(BEGINNING), after - np.int64(self.node.size))
        clock = clock_of(self.node.input)
        return shown.with_payload(with_bounds(batch.payload, columns, clock, first, after))

    def _layer_end(self, last: TimeArray, depth: TimeArray) -> TimeArray:
        if int(self.node.size) == FOREVER:
            return np.full(len(last), np.int64(FOREVER))
        return add_saturating(last, np.int64(self.node.size) - 1 - depth)

    def _slide_up(self, times: TimeArray) -> TimeArray:
        """The first slide instant at or after each time: a-1, 2a-1, 3a-1, ..."""
        slide = np.int64(self.node.slide)
        return add_saturating(times, (slide - 1) - np.mod(times, slide))

    def _refuse_too_many(self, layers: TimeArray) -> None:
        if float(layers.astype(np.float64).sum()) > MOST_LAYERS:
            several = int(layers.max())
            if self.node.columns is not None:
                raise StreamError(
                    f"a row would be repeated in {several} windows",
                    where=self.node.label,
                    hint="use a longer slide or a smaller size",
                )
            raise StreamError(
                f"a time window over long lifetimes would need {several} layers for one event",
                where=self.node.label,
                hint=WAYS_OUT,
            )


def _ends(batch: EventBatch) -> tuple[TimeArray, TimeArray]:
    return batch.end, batch.new_end


def _lengths(start: TimeArray, end: TimeArray, most: np.int64) -> TimeArray:
    """How many instants lie in [start, end), at most `most`; unsigned, as it may exceed int64."""
    lengths = end.view(np.uint64) - start.view(np.uint64)
    return np.minimum(lengths, np.uint64(most)).astype(np.int64)


def _slides(begin: TimeArray, end: TimeArray, slide: np.int64) -> TimeArray:
    """How many slide instants lie in [begin, end), given that the first one is `begin`."""
    length = end.view(np.uint64) - begin.view(np.uint64)
    whole, more = np.divmod(length, np.uint64(slide))
    return (whole + (more > 0)).astype(np.int64)


def _layers(layers: TimeArray) -> tuple[TimeArray, TimeArray]:
    """The row of each layer, and its depth (0 is the outermost)."""
    depth, rows = positions_of(np.zeros(len(layers), np.int64), np.maximum(layers, 1))
    return rows, depth
