"""The positive-negative approach: an element for every begin and one for every end.

Kraemer (2007, sections 14.1 and 14.2). A stream is in the order of time, and at one instant
negatives come first, so that no result holds for no time at all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any, Final

from tests.bench.areas import Buckets
from tests.bench.operators import BEFORE, NEVER, Element, Entry, Operator

POSITIVE: Final = 1
NEGATIVE: Final = -1


class TimeWindow(Operator):
    """Hold every element until time has come far enough for its negative."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._held: deque[Element] = deque()

    def process(self, element: Element) -> None:
        held, size = self._held, self._size
        past = element[1] - size
        while held and held[0][1] <= past:
            payload, time, _ = held.popleft()
            self.emit((payload, time + size, NEGATIVE))
        held.append(element)
        self.emit(element)

    def flush(self) -> None:
        for payload, time, _ in self._held:
            self.emit((payload, time + self._size, NEGATIVE))
        self._held.clear()

    def state(self) -> int:
        return len(self._held)


class CountWindow(Operator):
    """An element is emitted at once, and its negative when its N-th successor comes."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = rows
        self._held: deque[Element] = deque()

    def process(self, element: Element) -> None:
        if len(self._held) == self._rows:
            self.emit((self._held.popleft()[0], element[1], NEGATIVE))
        self._held.append(element)
        self.emit(element)

    def state(self) -> int:
        return len(self._held)


class Join(Operator):
    """Both inputs are merged in their order, then joined; negatives look for partners, too."""

    sides = 2

    def __init__(
        self,
        buckets: tuple[Buckets, Buckets],
        keys: tuple[Callable[[Any], Hashable], Callable[[Any], Hashable]],
        combine: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__()
        self._buckets = buckets
        self._keys = keys
        self._combine = combine
        self._progress = [BEFORE, BEFORE]
        self._queue: list[tuple[int, int, int, Element]] = []
        self._number = 0

    def arrive(self, side: int, element: Element) -> None:
        place = 3 * element[1] + element[2]
        queue = self._queue
        self._number += 1
        heappush(queue, (place, self._number, side, element))
        self._progress[side] = place
        limit = min(self._progress)
        while queue and queue[0][0] <= limit:
            _, _, its_side, first = heappop(queue)
            self._join(its_side, first)

    def _join(self, side: int, element: Element) -> None:
        payload, time, sign = element
        key = self._keys[side](payload)
        if sign > 0:
            self._buckets[side].add(key, payload)
        else:
            self._buckets[side].remove(key, payload)
        for other in self._buckets[1 - side].probe(key):
            pair = self._combine(other, payload) if side else self._combine(payload, other)
            self.emit((pair, time, sign))

    def ended(self, side: int) -> None:
        self._progress[side] = 4 * NEVER
        limit = min(self._progress)
        while self._queue and self._queue[0][0] <= limit:
            _, _, its_side, first = heappop(self._queue)
            self._join(its_side, first)

    def state(self) -> int:
        return sum(each.size() for each in self._buckets) + len(self._queue)


class Distinct(Operator):
    """A counter per payload; the first positive and the last negative pass."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[Any, int] = {}

    def process(self, element: Element) -> None:
        payload, _, sign = element
        count = self._counts.get(payload, 0)
        self._counts[payload] = count + sign
        if count + sign == 0:
            del self._counts[payload]
        if (count, sign) in ((0, POSITIVE), (1, NEGATIVE)):
            self.emit(element)

    def state(self) -> int:
        return len(self._counts)


class Difference(Operator):
    """Two counters per payload; what an instant changes leaves when time has passed it."""

    sides = 2

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[Any, list[int]] = {}
        self._before: dict[Any, int] = {}
        self._now = BEFORE
        self._progress = [BEFORE, BEFORE]
        self._queue: list[tuple[int, int, int, Element]] = []
        self._number = 0

    def arrive(self, side: int, element: Element) -> None:
        place = 3 * element[1] + element[2]
        self._number += 1
        heappush(self._queue, (place, self._number, side, element))
        self._progress[side] = place
        self._take()

    def _take(self) -> None:
        limit = min(self._progress)
        while self._queue and self._queue[0][0] <= limit:
            _, _, side, (payload, time, sign) = heappop(self._queue)
            if time > self._now:
                self._publish()
                self._now = time
            counts = self._counts.setdefault(payload, [0, 0])
            self._before.setdefault(payload, max(counts[0] - counts[1], 0))
            counts[side] += sign

    def _publish(self) -> None:
        changes = [
            (payload, max(self._counts[payload][0] - self._counts[payload][1], 0) - before)
            for payload, before in self._before.items()
        ]
        for sign in (NEGATIVE, POSITIVE):
            for payload, change in changes:
                for _ in range(change * sign):
                    self.emit((payload, self._now, sign))
        for payload in self._before:
            if self._counts[payload] == [0, 0]:
                del self._counts[payload]
        self._before.clear()

    def ended(self, side: int) -> None:
        self._progress[side] = 4 * NEVER
        self._take()

    def flush(self) -> None:
        self._publish()

    def state(self) -> int:
        return sum(map(sum, self._counts.values())) + len(self._queue)


class SortedMaximum:
    """All live values in a sorted list: the largest is the last."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        insort(self._values, value)

    def remove(self, value: Any) -> None:
        del self._values[bisect_left(self._values, value)]

    def current(self) -> Any:
        return self._values[-1]

    def size(self) -> int:
        return len(self._values)


class RecomputedMaximum:
    """All live values in a hash table, which is scanned for every negative."""

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        self._largest: Any = None

    def add(self, value: Any) -> None:
        if not self._counts or value > self._largest:
            self._largest = value
        self._counts[value] = self._counts.get(value, 0) + 1

    def remove(self, value: Any) -> None:
        if self._counts[value] == 1:
            del self._counts[value]
        else:
            self._counts[value] -= 1
        largest = None
        for each in self._counts:
            if largest is None or each > largest:
                largest = each
        self._largest = largest

    def current(self) -> Any:
        return self._largest

    def size(self) -> int:
        return sum(self._counts.values())


class Aggregate(Operator):
    """The old value ends and the new one begins at every instant that changes the state.

    With `only_changes` it does so only where the two differ.
    """

    def __init__(
        self,
        maximum: SortedMaximum | RecomputedMaximum,
        value: Callable[[Any], Any],
        *,
        only_changes: bool = False,
    ) -> None:
        super().__init__()
        self._maximum = maximum
        self._value = value
        self._only_changes = only_changes
        self._published: list[Any] = []
        self._now = BEFORE

    def process(self, element: Element) -> None:
        payload, time, sign = element
        if time > self._now:
            # Several elements may share an instant, so its value is known only afterwards.
            self._publish()
            self._now = time
        if sign > 0:
            self._maximum.add(self._value(payload))
        else:
            self._maximum.remove(self._value(payload))

    def _publish(self) -> None:
        values = [self._maximum.current()] if self._maximum.size() else []
        if self._only_changes and values == self._published:
            return
        for old in self._published:
            self.emit((old, self._now, NEGATIVE))
        for new in values:
            self.emit((new, self._now, POSITIVE))
        self._published = values

    def flush(self) -> None:
        self._publish()

    def state(self) -> int:
        return self._maximum.size()


class Group(Operator):
    """A maximum per group; groups that an instant touches are published afterwards."""

    def __init__(
        self,
        group: Callable[[Any], Any],
        value: Callable[[Any], Any],
        result: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__()
        self._group = group
        self._value = value
        self._result = result
        self._groups: dict[Any, SortedMaximum] = {}
        self._published: dict[Any, Any] = {}
        self._touched: dict[Any, None] = {}
        self._now = BEFORE

    def process(self, element: Element) -> None:
        payload, time, sign = element
        if time > self._now:
            self._publish()
            self._now = time
        group = self._group(payload)
        self._touched[group] = None
        if sign > 0:
            held = self._groups.get(group)
            if held is None:
                held = self._groups[group] = SortedMaximum()
            held.add(self._value(payload))
        else:
            self._groups[group].remove(self._value(payload))

    def _publish(self) -> None:
        for group in self._touched:
            if group in self._published:
                old = self._published.pop(group)
                self.emit((self._result(group, old), self._now, NEGATIVE))
        for group in self._touched:
            held = self._groups[group]
            if held.size():
                new = self._published[group] = held.current()
                self.emit((self._result(group, new), self._now, POSITIVE))
            else:
                del self._groups[group]
        self._touched.clear()

    def flush(self) -> None:
        self._publish()

    def state(self) -> int:
        return sum(held.size() for held in self._groups.values())


class ToSigned(Operator):
    """Lifetimes as a positive where they begin and a negative where they end."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[Entry] = []
        self._number = 0

    def process(self, element: Element) -> None:
        payload, start, end = element
        self._release(start)
        self.emit((payload, start, POSITIVE))
        self._number += 1
        heappush(self._ends, (end, self._number, element))

    def _release(self, time: int) -> None:
        while self._ends and self._ends[0][0] <= time and self._ends[0][0] < NEVER:
            payload, _, end = heappop(self._ends)[2]
            self.emit((payload, end, NEGATIVE))

    def flush(self) -> None:
        self._release(NEVER)

    def state(self) -> int:
        return len(self._ends)
