"""Recognise what a stream says again after it went back before its own promise.

An element against the promise of its own stream can only be a repetition: the stream was restarted
from an earlier point. What follows is then its past, in the same order, up to where it was. So the
elements since the promise are remembered, as hashes; those that come again in their order are left
out, and the first one that does not is new. Where elements may be equal (r1, r4) this is the only
way to tell: the promise shows that there was a restart, and the order shows how far it goes.

Example: a stream says A at 2, stable 3, B at 3, B at 3, and is restarted:
    A at 2, B at 3, B at 3, B at 3     A is late; two Bs are remembered, so the third one is new
"""

from __future__ import annotations

from typing import Final, final

import numpy as np

from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.model.batch import EventBatch

EQUAL_ELEMENTS: Final = ("r1", "r4")
"""Cases in which equal elements may be several events, so that repetitions do not show."""

REMEMBERED_ROWS: Final = 1_000_000
"""Of a stream that says more than this without a promise, nothing is recognised."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


@final
class SaidAgain:
    """What a stream has said since its promise, and how much of it has come again."""

    def __init__(self) -> None:
        """Nothing was said."""
        self._prints = np.empty(0, np.int64)
        # What a move must not be below, to be legal: its start, or the lesser of its ends.
        self._limits = np.empty(0, np.int64)
        self._next: int | None = None

    def new(self, batch: EventBatch, legal: Mask, bound: Ints, stable: int) -> Mask:
        """Which rows of a piece are new; late ones are not.

        Args:
            batch: The rows, in order.
            legal: Which of them keep the promise of the stream.
            bound: What it had promised before each row.
            stable: What it has promised after all of them.
        """
        new = legal.copy()
        limits = np.maximum(batch.start, np.minimum(batch.end, batch.new_end))
        if legal.all() and self._next is None:
            self._remember(batch, np.flatnonzero(limits >= stable), limits)
        else:
            # What is legal comes in stretches; before each, the stream has gone back.
            edges = np.flatnonzero(np.diff(legal, prepend=False, append=False)).tolist()
            for low, high in zip(edges[::2], edges[1::2]):
                if low:
                    self._go_back(int(bound[low - 1]))
                again = self._again(batch, np.arange(low, high))
                new[low : low + again] = False
                self._remember(batch, np.arange(low + again, high), limits)
            if len(legal) and not legal[-1]:
                self._go_back(int(bound[-1]))
        self._forget(stable)
        return new

    @property
    def repeats(self) -> bool:
        """Whether it has gone back, and more of its past may come again."""
        return self._next is not None

    def _go_back(self, bound: int) -> None:
        """The stream begins again somewhere before its promise."""
        self._forget(bound)
        self._next = 0

    def _again(self, batch: EventBatch, rows: Ints) -> int:
        """How many rows, from the first on, are what comes next of the past.

        The past comes again as a whole, or up to where the stream stops: a few elements that look
        like it are new, after an element that was merely late.
        """
        if self._next is None:
            return 0
        rest = self._prints[self._next :]
        count = min(len(rest), len(rows))
        if (_prints(batch, rows[:count]) != rest[:count]).any():
            self._next = None
            return 0
        self._next = None if count == len(rest) else self._next + count
        return count

    def _remember(self, batch: EventBatch, rows: Ints, limits: Ints) -> None:
        if len(rows):
            self._prints = np.concatenate([self._prints, _prints(batch, rows)])
            self._limits = np.concatenate([self._limits, limits[rows]])

    def _forget(self, stable: int) -> None:
        """What would be late now need not be recognised."""
        kept = self._limits >= stable
        if len(kept) > REMEMBERED_ROWS:
            kept[:] = False
        if not kept.all():
            if self._next is not None:
                self._next = int(kept[: self._next].sum())
            self._prints, self._limits = self._prints[kept], self._limits[kept]


def _prints(batch: EventBatch, rows: Ints) -> Ints:
    """Hashes of moves, with all their times."""
    part = batch.payload.take(rows) if len(rows) < len(batch) else batch.payload
    ids, check = ids_and_checks(part.columns, len(rows))
    mixed = ids ^ (check << np.uint64(1))
    for times in (batch.start, batch.end, batch.new_end):
        mixed = (mixed ^ times[rows].view(np.uint64)) * _ODD
    return np.asarray(mixed.view(np.int64))
