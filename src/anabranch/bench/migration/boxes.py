"""Plans as boxes: operators that take elements one by one, after Kraemer (2007, chapter 11).

They exist for the comparison of ways to migrate, and are no part of the product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias, cast

from anabranch.bench.migration.pieces import NEVER, Emit, Stretch, Values
from anabranch.bench.migration.sweep_area import SweepArea

Snapshot: TypeAlias = Callable[[Sequence[Sequence[Values]]], Iterable[Values]]
"""What holds at an instant, given what holds in every input then."""


class BoxOperator(ABC):
    """An operator over others; `horizon` is the least start that may still leave it."""

    def __init__(self, *inputs: BoxOperator) -> None:
        self.inputs = inputs
        self.emit: Emit = _nowhere
        self.horizon: float = -NEVER
        for side, each in enumerate(inputs):
            each.emit = self._taker(side)

    @abstractmethod
    def take(self, side: int, piece: Stretch) -> None:
        """An element of an input."""

    @abstractmethod
    def settle(self) -> None:
        """All inputs have their new horizons: emit what has waited, drop what has expired."""

    @abstractmethod
    def held(self) -> Iterator[Stretch]:
        """The elements of its state."""

    @property
    def holds_old(self) -> bool:
        """Whether its state has an element from before the start of the migration."""
        return any(not piece.new for piece in self.held())

    def size(self) -> tuple[int, int]:
        """Elements of its state, and the tuples of sources they are made of."""
        own = [len(piece.payload) for piece in self.held()]
        return len(own), sum(own)

    def walk(self) -> Iterator[BoxOperator]:
        """It and all below, inputs first."""
        for each in self.inputs:
            yield from each.walk()
        yield self

    def _taker(self, side: int) -> Emit:
        return lambda piece: self.take(side, piece)


class Inlet(BoxOperator):
    """Where the elements of a source enter."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def take(self, side: int, piece: Stretch) -> None:
        """Pass it on."""
        del side
        self.emit(piece)

    def settle(self) -> None:
        """Nothing waits here."""

    def held(self) -> Iterator[Stretch]:
        """Nothing."""
        return iter(())


class NestedLoopsJoin(BoxOperator):
    """Pairs of equal first columns that hold together, by nested loops (Kraemer 2007, 11.5.4).

    `keep_for` makes elements stay for a window after their start, as [ZRH04] purges them.
    """

    def __init__(
        self,
        left: BoxOperator,
        right: BoxOperator,
        *,
        combine: Callable[[Values, Values], Values] = lambda left, right: (*left, *right),
        rounds: int = 0,
    ) -> None:
        super().__init__(left, right)
        self._combine = combine
        self.areas: tuple[SweepArea, SweepArea] = (SweepArea(rounds), SweepArea(rounds))
        self._window: float | None = None

    def keep_for(self, window: float) -> None:
        """From now on, keep elements for a window after their start."""
        self._window = window
        for area in self.areas:
            area.keep_longer(window)

    def take(self, side: int, piece: Stretch) -> None:
        """Meet all partners, then wait for more of them."""
        key = hash(piece.payload[0])
        for other in self.areas[1 - side].probe(key):
            start, end = max(piece.start, other.start), min(piece.end, other.end)
            if start < end and piece.payload[0] == other.payload[0]:
                pair = (piece, other) if side == 0 else (other, piece)
                both = self._combine(pair[0].payload, pair[1].payload)
                self.emit(Stretch(both, start, end, piece.new and other.new))
        expiry = piece.end if self._window is None else piece.start + self._window
        self.areas[side].add(key, piece, expiry)

    def settle(self) -> None:
        """What ends before anything that may still come on the other side has no partner left."""
        self.horizon: float = min(each.horizon for each in self.inputs)
        for area, other in zip(self.areas, reversed(self.inputs)):
            area.purge(other.horizon)

    def held(self) -> Iterator[Stretch]:
        """Both sides."""
        for area in self.areas:
            yield from area

    @property
    def holds_old(self) -> bool:
        """Whether either side has an element from before the start of the migration."""
        return any(area.holds_old for area in self.areas)

    def size(self) -> tuple[int, int]:
        """The same for whole areas: elements of a side have one width."""
        counts = [(len(area), len(next(iter(area)).payload)) for area in self.areas if len(area)]
        return sum(rows for rows, _ in counts), sum(rows * width for rows, width in counts)


class SpanDistinct(BoxOperator):
    """No payload twice: of an element, the part that no earlier one has covered.

    The span up to the largest end is remembered, as the erratum to 11.5.5 asks for.
    """

    def __init__(self, below: BoxOperator) -> None:
        super().__init__(below)
        self._covered: dict[Hashable, Stretch] = {}

    def take(self, side: int, piece: Stretch) -> None:
        """Emit what is not covered."""
        del side
        before = self._covered.get(piece.payload)
        if before is None or before.end < piece.start:
            self._covered[piece.payload] = piece
            self.emit(piece)
        elif before.end < piece.end:
            self._covered[piece.payload] = before._replace(
                end=piece.end, new=before.new and piece.new
            )
            self.emit(piece._replace(start=max(piece.start, before.end)))

    def settle(self) -> None:
        """A span that has ended covers nothing that may still come."""
        self.horizon: float = self.inputs[0].horizon
        gone = [key for key, piece in self._covered.items() if piece.end <= self.horizon]
        for key in gone:
            del self._covered[key]

    def held(self) -> Iterator[Stretch]:
        """A span per payload."""
        return iter(self._covered.values())


class SnapshotOperator(BoxOperator):
    """Any function of snapshots: its results are emitted once they are settled.

    Serves for aggregation and difference; a result is new if all that holds then is.
    """

    def __init__(self, snapshot: Snapshot, *inputs: BoxOperator) -> None:
        super().__init__(*inputs)
        self._snapshot = snapshot
        self._pieces: list[tuple[int, Stretch]] = []
        self._done = -NEVER

    def take(self, side: int, piece: Stretch) -> None:
        """Wait until all of its time is settled."""
        self._pieces.append((side, piece))

    def settle(self) -> None:
        """Emit the results between all starts and ends that can no longer be cut."""
        settled = min(each.horizon for each in self.inputs)
        bounds = {bound for _, piece in self._pieces for bound in (piece.start, piece.end)}
        # What began before the last cut goes on from there, though the piece that made it is gone.
        bounds.add(self._done)
        cuts = sorted(bound for bound in bounds if self._done <= bound <= settled)
        for start, end in pairwise(cuts):
            self._emit_between(start, end)
        self._done = max([self._done, *cuts])
        self._pieces = [each for each in self._pieces if each[1].end > self._done]
        waiting = [max(piece.start, self._done) for _, piece in self._pieces]
        self.horizon: float = min([settled, *waiting])

    def _emit_between(self, start: float, end: float) -> None:
        there = [(side, piece) for side, piece in self._pieces if piece.start < end <= piece.end]
        rows = [
            [piece.payload for own, piece in there if own == side]
            for side in range(len(self.inputs))
        ]
        new = all(piece.new for _, piece in there)
        for payload in self._snapshot(rows) if there else ():
            self.emit(Stretch(payload, start, end, new))

    def held(self) -> Iterator[Stretch]:
        """All that is not settled."""
        return (piece for _, piece in self._pieces)


class Box:
    """A plan that runs: elements enter by the name of their source, and leave through `emit`."""

    def __init__(self, root: BoxOperator, emit: Emit | None = None) -> None:
        self._root = root
        self._operators = list(root.walk())
        self._inlets = [each for each in self._operators if isinstance(each, Inlet)]
        self.emit = emit or _nowhere

    @property
    def emit(self) -> Emit:
        """Where results go."""
        return self._root.emit

    @emit.setter
    def emit(self, emit: Emit) -> None:
        self._root.emit = emit

    @property
    def horizon(self) -> float:
        """The least start that may still leave."""
        return self._root.horizon

    @property
    def joins(self) -> list[NestedLoopsJoin]:
        """Its joins."""
        return [each for each in self._operators if isinstance(each, NestedLoopsJoin)]

    @property
    def evaluations(self) -> int:
        """How often predicates were evaluated."""
        return sum(area.evaluations for join in self.joins for area in join.areas)

    def advance(self, now: float) -> None:
        """No source sends anything any more that starts before this time."""
        for inlet in self._inlets:
            inlet.horizon = now
        for each in self._operators:
            each.settle()

    def take(self, name: str, piece: Stretch) -> None:
        """An element of a source; one that several operators read enters at each."""
        for inlet in self._inlets:
            if inlet.name == name:
                inlet.take(0, piece)

    def finish(self) -> None:
        """All sources have ended: what waits leaves."""
        self.advance(NEVER)

    def holds_old(self) -> bool:
        """Whether any state has an element from before the start of the migration."""
        return any(each.holds_old for each in self._operators)

    def size(self) -> tuple[int, int]:
        """Elements in all states, and the tuples of sources they are made of."""
        sizes = [each.size() for each in self._operators]
        return sum(rows for rows, _ in sizes), sum(tuples for _, tuples in sizes)


def first_column(left: Values, right: Values) -> Values:
    """Of two that agree, one."""
    del right
    return left


def bag_difference(inputs: Sequence[Sequence[Values]]) -> Iterator[Values]:
    """What the first input has more of than the second."""
    rest = list(inputs[1])
    for payload in inputs[0]:
        if payload in rest:
            rest.remove(payload)
        else:
            yield payload


def sum_and_count(inputs: Sequence[Sequence[Values]]) -> Iterator[Values]:
    """Sum of the first column, and count, per snapshot; of nothing, nothing."""
    numbers = [cast("int", payload[0]) for payload in inputs[0]]
    if numbers:
        yield (sum(numbers), len(numbers))


def _nowhere(piece: Stretch) -> None:
    del piece
