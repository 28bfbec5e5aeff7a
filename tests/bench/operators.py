"""What the operators of both approaches share: wiring, filter, map, union, a sink.

These operators take elements one by one. They are a yardstick for `anabranch bench pipes`, after
Kraemer (2007, chapters 11 and 14), and no part of the product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

Element: TypeAlias = tuple[Any, int, int]
"""`(payload, start, end)` in the interval approach, `(payload, time, sign)` in the other."""

Push: TypeAlias = Callable[[Element], None]
Entry: TypeAlias = tuple[int, int, Element]
"""What a priority queue holds: the place in the order, a number against ties, the element."""

NEVER: Final = 2**63 - 1
"""Later than every instant: the end of what does not end."""

BEFORE: Final = -NEVER
"""The progress of an input from which nothing came yet."""


class Operator:
    """Takes elements through its sides and pushes what follows from them to its followers."""

    sides: ClassVar[int] = 1

    def __init__(self) -> None:
        self.emit: Push = _nowhere
        self._followers: list[tuple[Operator, int]] = []
        self._open = self.sides

    def feed(self, follower: AnyOperator, side: int = 0) -> AnyOperator:
        """Connect a follower directly; returns it, so that chains read from left to right."""
        self._followers.append((follower, side))
        pushes = [each.entry(side) for each, side in self._followers]
        self.emit = pushes[0] if len(pushes) == 1 else partial(_push_all, pushes)
        return follower

    def entry(self, side: int) -> Push:
        """Where elements of a side are pushed to."""
        return self.process if self.sides == 1 else partial(self.arrive, side)

    def process(self, element: Element) -> None:
        """Take an element of the only side."""
        raise NotImplementedError

    def arrive(self, side: int, element: Element) -> None:
        """Take an element of one of several sides."""
        raise NotImplementedError

    def end(self, side: int = 0) -> None:
        """No more elements come from a side; after the last one, followers hear of it."""
        self.ended(side)
        self._open -= 1
        if not self._open:
            self.flush()
            for follower, its_side in self._followers:
                follower.end(its_side)

    def ended(self, side: int) -> None:
        """A side has ended: its progress is infinite."""

    def flush(self) -> None:
        """All sides have ended: emit what is left."""

    def state(self) -> int:
        """How many elements are held."""
        return 0


AnyOperator = TypeVar("AnyOperator", bound=Operator)


def _nowhere(element: Element) -> None:
    raise AssertionError(f"nobody takes {element}")


def _push_all(pushes: list[Push], element: Element) -> None:
    for push in pushes:
        push(element)


class Results(Operator):
    """The sink: a list."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []

    def entry(self, side: int) -> Push:
        return self.elements.append


class Filter(Operator):
    """Both approaches: look at the payload only."""

    def __init__(self, predicate: Callable[[Any], bool]) -> None:
        super().__init__()
        self._predicate = predicate

    def process(self, element: Element) -> None:
        if self._predicate(element[0]):
            self.emit(element)


class Map(Operator):
    """Both approaches: a new element with another payload and the same times."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def process(self, element: Element) -> None:
        payload, time, other = element
        self.emit((self._function(payload), time, other))


def by_start(element: Element) -> int:
    """The order of an interval stream."""
    return element[1]


def by_sign(element: Element) -> int:
    """The order of a signed stream: by time, at one instant negatives first."""
    return 3 * element[1] + element[2]


class Union(Operator):
    """Merge two streams in their order; an element waits until both sides have come that far."""

    sides = 2

    def __init__(self, order: Callable[[Element], int]) -> None:
        super().__init__()
        self._order = order
        self._progress = [BEFORE, BEFORE]
        self._queue: list[Entry] = []
        self._number = 0

    def arrive(self, side: int, element: Element) -> None:
        place = self._order(element)
        self._number += 1
        heappush(self._queue, (place, self._number, element))
        self._progress[side] = place
        self._release()

    def ended(self, side: int) -> None:
        self._progress[side] = 4 * NEVER
        self._release()

    def _release(self) -> None:
        queue, limit = self._queue, min(self._progress)
        while queue and queue[0][0] <= limit:
            self.emit(heappop(queue)[2])

    def state(self) -> int:
        return len(self._queue)
