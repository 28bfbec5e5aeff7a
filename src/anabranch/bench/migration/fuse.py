"""Fork and fuse: the two operators that GenMig puts around its boxes (Kraemer 2007, 29.2)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from anabranch.bench.migration.pieces import NEVER, Emit, Stretch, Values


def fork(piece: Stretch, split: float) -> tuple[Stretch | None, Stretch | None]:
    """The parts of an element for the old and for the new box."""
    return piece.between(-NEVER, split), piece.between(split, NEVER)


class Fuse:
    """Puts the two parts of a result together that the split has cut, in the order of starts.

    Results that touch the split wait for an equal one of the other box. The rule of release and
    the last flush are those of the erratum: the printed ones emit out of order, and lose results
    where the split is the start or end of an element.
    """

    def __init__(self, split: float, emit: Emit) -> None:
        self._split = split
        self._emit = emit
        self._old: dict[Values, deque[Stretch]] = defaultdict(deque)
        self._new: dict[Values, deque[Stretch]] = defaultdict(deque)
        # Starts in `_old` as a heap; those that have met their other part are in `_met`, by count.
        self._waiting: list[float] = []
        self._met: dict[float, int] = defaultdict(int)
        self._queue: list[tuple[float, int, Stretch]] = []
        self._numbers = count()
        self.most: int = 0

    def from_old(self, piece: Stretch) -> None:
        """A result of the old box."""
        if piece.end != self._split:
            self._push(piece)
        elif other := _taken(self._new, piece.payload):
            self._push(piece._replace(end=other.end))
        else:
            self._old[piece.payload].append(piece)
            heappush(self._waiting, piece.start)
        self.most = max(self.most, len(self))

    def from_new(self, piece: Stretch) -> None:
        """A result of the new box."""
        if piece.start != self._split:
            self._push(piece)
        elif other := _taken(self._old, piece.payload):
            self._met[other.start] += 1
            self._push(other._replace(end=piece.end))
        else:
            self._new[piece.payload].append(piece)
        self.most = max(self.most, len(self))

    def release(self, reached: float) -> None:
        """Emit what nothing can precede any more: `reached` is the horizon of the old box."""
        while self._waiting and self._met[self._waiting[0]]:
            self._met[heappop(self._waiting)] -= 1
        bound = min(reached, self._waiting[0] if self._waiting else NEVER)
        while self._queue and self._queue[0][0] <= bound:
            self._emit(heappop(self._queue)[2])

    def flush(self) -> None:
        """Emit all that is left, also what has found no other part."""
        for parts in (*self._old.values(), *self._new.values()):
            for piece in parts:
                self._push(piece)
        self._old.clear()
        self._new.clear()
        self._waiting.clear()
        self.release(NEVER)

    def held(self) -> Iterator[Stretch]:
        """What waits."""
        yield from (piece for _, _, piece in self._queue)
        for parts in (*self._old.values(), *self._new.values()):
            yield from parts

    def __len__(self) -> int:
        return (
            len(self._queue) + sum(map(len, self._old.values())) + sum(map(len, self._new.values()))
        )

    def _push(self, piece: Stretch) -> None:
        heappush(self._queue, (piece.start, next(self._numbers), piece))


def _taken(parts: dict[Values, deque[Stretch]], payload: Values) -> Stretch | None:
    own = parts.get(payload)
    if not own:
        return None
    found = own.popleft()
    if not own:
        del parts[payload]
    return found
