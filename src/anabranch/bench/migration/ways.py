"""Ways from one box to another: Parallel Track, GenMig, its reference point, and clip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from anabranch.bench.migration.boxes import Box
from anabranch.bench.migration.fuse import Fuse, fork
from anabranch.bench.migration.pieces import NEVER, Emit, Stretch

EPSILON: Final = 0.5
"""Half a chronon: no element starts or ends there."""


class PlanChange(ABC):
    """Two boxes for one answer: the old one runs, then both, then the new one.

    Elements come in the order of their starts over all inputs, as in the experiments.

    Attributes:
        began: When the migration began; None before that.
        ended: When it was over; None before that.
    """

    def __init__(self, old: Box, new: Box, window: float, emit: Emit) -> None:
        self.began: float | None = None
        self.ended: float | None = None
        self.most_buffered = 0
        self._old, self._new = old, new
        self._window = window
        self._emit = emit
        self._latest_start: dict[str, float] = {}
        self._latest_end = -NEVER
        old.emit = emit

    @property
    def running(self) -> bool:
        """Whether both boxes run."""
        return self.began is not None and self.ended is None

    @property
    def evaluations(self) -> int:
        """How often both boxes have evaluated a predicate."""
        return self._old.evaluations + self._new.evaluations

    def has_seen(self, sources: Iterable[str]) -> bool:
        """Whether every source has delivered an element, without which there is no split time."""
        return self._latest_start.keys() >= set(sources)

    def begin(self, now: float) -> None:
        """Plug the new box in."""
        self.began = now
        self._begin()

    def take(self, name: str, piece: Stretch) -> None:
        """An element of a source."""
        if self.running:
            self._advance(piece.start)
        if self.began is None:
            self._latest_start[name] = piece.start
            self._latest_end = max(self._latest_end, piece.end)
            self._old.advance(piece.start)
            self._old.take(name, piece)
        elif self.ended is not None:
            self._new.advance(piece.start)
            self._new.take(name, piece)
        else:
            self._take(name, piece)

    def finish(self) -> None:
        """All sources have ended."""
        if self.running:
            self._advance(NEVER)
        (self._old if self.began is None else self._new).finish()

    def size(self) -> tuple[int, int]:
        """Elements in all states and buffers, and the tuples of sources they are made of."""
        boxes = [self._old] if self.began is None else [self._new]
        boxes += [self._old] if self.running else []
        sizes = [box.size() for box in boxes]
        waiting = [len(piece.payload) for piece in self._buffered()]
        rows = sum(rows for rows, _ in sizes) + len(waiting)
        return rows, sum(tuples for _, tuples in sizes) + sum(waiting)

    def _over(self, now: float) -> None:
        """Leave the rest to the new box."""
        self.ended = now
        self._new.emit = self._emit

    @abstractmethod
    def _begin(self) -> None:
        """Wire both boxes."""

    @abstractmethod
    def _take(self, name: str, piece: Stretch) -> None:
        """An element while both boxes run."""

    @abstractmethod
    def _advance(self, now: float) -> None:
        """No element starts before this time any more; is the migration over?"""

    def _buffered(self) -> Iterator[Stretch]:
        """Results that wait."""
        return iter(())


class ParallelTrack(PlanChange):
    """Both boxes take all elements; results of old elements come from the old box.

    The new box's results wait until no old element is left. Joins of [ZRH04] purge an element when
    the newest of its parts leaves the window; so an old result of a lower join stays for another
    window in the upper one, and the migration takes two of them. Here the old box purges so from
    the start of the migration on, and before by lifetimes as all others do: the text says that
    memory differs during migration only.
    """

    def _begin(self) -> None:
        self._buffer: list[Stretch] = []
        for join in self._old.joins:
            join.keep_for(self._window)
        self._old.emit = self._of_old
        self._new.emit = self._buffer.append

    def _of_old(self, piece: Stretch) -> None:
        if not piece.new:
            self._emit(piece)

    def _take(self, name: str, piece: Stretch) -> None:
        piece = piece._replace(new=True)
        self._old.take(name, piece)
        self._new.take(name, piece)

    def _advance(self, now: float) -> None:
        self._old.advance(now)
        self._new.advance(now)
        assert self.began is not None
        if now < self.began + self._window or self._old.holds_old():
            return
        self.most_buffered: int = len(self._buffer)
        for piece in self._buffer:
            self._emit(piece)
        self._buffer.clear()
        self._over(now)

    def _buffered(self) -> Iterator[Stretch]:
        return iter(self._buffer if self.running else ())


class _SplitChange(PlanChange):
    """Snapshots before a split time come from the old box, all others from the new one.

    Attributes:
        split: The split time.
    """

    split: float

    def _take(self, name: str, piece: Stretch) -> None:
        old, new = self._shares(piece)
        if old is not None:
            self._old.take(name, old)
        if new is not None:
            self._new.take(name, new)

    def _advance(self, now: float) -> None:
        if now >= self.split:
            # End of stream for the old box: what waits in it leaves.
            self._old.finish()
            self._close()
            self._over(now)
            return
        self._old.advance(now)
        self._new.advance(self.split)
        self._settle()

    def _latest(self) -> float:
        return max(self._latest_start.values()) + self._window + EPSILON

    def _shares(self, piece: Stretch) -> tuple[Stretch | None, Stretch | None]:
        return fork(piece, self.split)

    def _settle(self) -> None:
        """Both boxes have taken note of the time."""

    def _close(self) -> None:
        """The old box is empty."""


class GenMig(_SplitChange):
    """Elements are forked at the split time, results fused there."""

    def _begin(self) -> None:
        self.split: float = self._latest()
        self._fuse = Fuse(self.split, self._emit)
        self._old.emit = self._fuse.from_old
        self._new.emit = self._fuse.from_new

    def _settle(self) -> None:
        self._fuse.release(self._old.horizon)

    def _close(self) -> None:
        self._fuse.flush()
        self.most_buffered: int = self._fuse.most

    def _buffered(self) -> Iterator[Stretch]:
        return self._fuse.held() if self.running else iter(())


class ReferencePoint(_SplitChange):
    """The old box takes whole elements; the new box's results from the split on are dropped.

    Right for joins only: a result that starts at the split has older parts, so that the old box
    has reported it.
    """

    def _begin(self) -> None:
        self.split: float = self._latest()
        self._new.emit = self._of_new

    def _of_new(self, piece: Stretch) -> None:
        if piece.start != self.split:
            self._emit(piece)

    def _shares(self, piece: Stretch) -> tuple[Stretch | None, Stretch | None]:
        return piece, piece.between(self.split, NEVER)


class ClipBoth(_SplitChange):
    """Ours: the new box's inputs and the old box's output are clipped at the greatest end held.

    Both outputs are published at once. The old box goes on as it was.
    """

    def _begin(self) -> None:
        self.split: float = self._latest_end
        self._old.emit = self._of_old
        self._new.emit = self._emit

    def _of_old(self, piece: Stretch) -> None:
        kept = piece.between(-NEVER, self.split)
        if kept is not None:
            self._emit(kept)

    def _shares(self, piece: Stretch) -> tuple[Stretch | None, Stretch | None]:
        return piece, piece.between(self.split, NEVER)


WAYS: Final[Mapping[str, Callable[[Box, Box, float, Emit], PlanChange]]] = {
    "parallel track": ParallelTrack,
    "genmig": GenMig,
    "reference point": ReferencePoint,
    "clip": ClipBoth,
}
