"""The time-interval approach: elements carry their lifetimes (Kraemer 2007, sections 11.5-11.7)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

from tests.bench.areas import Area
from tests.bench.operators import BEFORE, NEVER, Element, Entry, Operator


class TimeWindow(Operator):
    """Stretch a point to the size of the window; no state."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def process(self, element: Element) -> None:
        payload, start, _ = element
        self.emit((payload, start, start + self._size))


class CountWindow(Operator):
    """An element is emitted when its N-th successor comes, which ends it."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = rows
        self._held: deque[Element] = deque()

    def process(self, element: Element) -> None:
        if len(self._held) == self._rows:
            payload, start, _ = self._held.popleft()
            self.emit((payload, start, element[1]))
        self._held.append(element)

    def flush(self) -> None:
        for payload, start, _ in self._held:
            self.emit((payload, start, NEVER))
        self._held.clear()

    def state(self) -> int:
        return len(self._held)


class Join(Operator):
    """Symmetric join; results are put in order by a priority queue at the output."""

    sides = 2

    def __init__(
        self,
        areas: tuple[Area, Area],
        keys: tuple[Callable[[Any], Hashable], Callable[[Any], Hashable]],
        combine: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__()
        self._areas = areas
        self._keys = keys
        self._combine = combine
        self._progress = [BEFORE, BEFORE]
        self.queue: list[Entry] = []
        self.queued = 0

    def arrive(self, side: int, element: Element) -> None:
        payload, start, end = element
        key = self._keys[side](payload)
        others = self._areas[1 - side]
        others.purge(start)
        self._areas[side].insert(key, element)
        queue = self.queue
        for other, its_start, its_end in others.probe(key):
            first = start if start > its_start else its_start
            last = end if end < its_end else its_end
            if first < last:
                pair = self._combine(other, payload) if side else self._combine(payload, other)
                self.queued += 1
                heappush(queue, (first, self.queued, (pair, first, last)))
        self._progress[side] = start
        limit = min(self._progress)
        while queue and queue[0][0] <= limit:
            self.emit(heappop(queue)[2])

    def ended(self, side: int) -> None:
        self._areas[1 - side].purge(NEVER)
        self._progress[side] = NEVER
        while self.queue and self.queue[0][0] <= min(self._progress):
            self.emit(heappop(self.queue)[2])

    def state(self) -> int:
        return sum(area.size() for area in self._areas) + len(self.queue)


class InputQueueJoin(Operator):
    """The same join with the priority queue at the input: elements are joined in their order."""

    sides = 2

    def __init__(
        self,
        areas: tuple[Area, Area],
        keys: tuple[Callable[[Any], Hashable], Callable[[Any], Hashable]],
        combine: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__()
        self._areas = areas
        self._keys = keys
        self._combine = combine
        self._progress = [BEFORE, BEFORE]
        self.queue: list[tuple[int, int, int, Element]] = []
        self.queued = 0

    def arrive(self, side: int, element: Element) -> None:
        queue = self.queue
        self.queued += 1
        heappush(queue, (element[1], self.queued, side, element))
        self._progress[side] = element[1]
        limit = min(self._progress)
        while queue and queue[0][0] <= limit:
            _, _, its_side, first = heappop(queue)
            self._join(its_side, first)

    def _join(self, side: int, element: Element) -> None:
        payload, start, end = element
        key = self._keys[side](payload)
        others = self._areas[1 - side]
        others.purge(start)
        self._areas[side].insert(key, element)
        for other, _, its_end in others.probe(key):
            # What is held began before and has not ended, so the pair begins now.
            last = end if end < its_end else its_end
            pair = self._combine(other, payload) if side else self._combine(payload, other)
            self.emit((pair, start, last))

    def ended(self, side: int) -> None:
        self._progress[side] = NEVER
        limit = min(self._progress)
        while self.queue and self.queue[0][0] <= limit:
            _, _, its_side, first = heappop(self.queue)
            self._join(its_side, first)
        if limit == NEVER:
            for area in self._areas:
                area.purge(NEVER)

    def state(self) -> int:
        return sum(area.size() for area in self._areas) + len(self.queue)


class Distinct(Operator):
    """Per payload the end of what is covered; what prolongs it waits until time gets there."""

    def __init__(self) -> None:
        super().__init__()
        self._cover: dict[Any, int] = {}
        self._ends: list[tuple[int, int, Any]] = []
        self._queue: list[Entry] = []
        self._number = 0

    def process(self, element: Element) -> None:
        payload, start, end = element
        cover, ends, queue = self._cover, self._ends, self._queue
        while ends and ends[0][0] <= start:
            last, _, old = heappop(ends)
            if cover.get(old) == last:
                del cover[old]
        while queue and queue[0][0] <= start:
            self.emit(heappop(queue)[2])
        covered = cover.get(payload)
        if covered is not None and covered >= end:
            return
        self._number += 1
        cover[payload] = end
        heappush(ends, (end, self._number, payload))
        if covered is None:
            self.emit(element)
        else:
            heappush(queue, (covered, self._number, (payload, covered, end)))

    def flush(self) -> None:
        self._cover.clear()
        while self._queue:
            self.emit(heappop(self._queue)[2])

    def state(self) -> int:
        return len(self._cover) + len(self._queue)


class Difference(Operator):
    """Bag difference: what overlaps on both sides is cancelled, the rest of the left leaves."""

    sides = 2

    def __init__(self) -> None:
        super().__init__()
        # Per payload the disjoint rest of a side, by start; both sides never overlap.
        self._held: tuple[dict[Any, list[Element]], dict[Any, list[Element]]] = ({}, {})
        self._starts: list[Entry] = []
        self._ends: list[Entry] = []
        self._number = 0
        self._progress = [BEFORE, BEFORE]

    def arrive(self, side: int, element: Element) -> None:
        self._progress[side] = element[1]
        self._cancel(side, element)
        self._release(min(self._progress))

    def _cancel(self, side: int, element: Element) -> None:
        mine = [element]
        theirs: list[Element] = []
        for held in self._held[1 - side].get(element[0], []):
            hit = next((part for part in mine if _overlap(part, held)), None)
            if hit is None:
                theirs.append(held)
            else:
                mine.remove(hit)
                mine += _subtract(hit, held)
                theirs += _subtract(held, hit)
        self._put(1 - side, element[0], theirs)
        self._put(side, element[0], [*self._held[side].get(element[0], []), *mine])

    def _put(self, side: int, payload: Any, parts: list[Element]) -> None:
        before = self._held[side].pop(payload, [])
        if parts:
            self._held[side][payload] = sorted(parts, key=lambda part: part[1:])
        for part in (Counter(parts) - Counter(before)).elements():
            self._number += 1
            place = part[2] if side else part[1]
            heappush(self._ends if side else self._starts, (place, self._number, part))

    def _release(self, limit: int) -> None:
        while self._ends and self._ends[0][0] <= limit:
            self._drop(1, heappop(self._ends)[2])
        # What begins first holds back all others.
        while self._starts:
            first = self._starts[0][2]
            if first not in self._held[0].get(first[0], []):
                heappop(self._starts)
            elif first[2] <= limit:
                heappop(self._starts)
                self._drop(0, first)
                self.emit(first)
            else:
                return

    def _drop(self, side: int, part: Element) -> None:
        held = self._held[side].get(part[0], [])
        if part in held:
            held.remove(part)
            if not held:
                del self._held[side][part[0]]

    def ended(self, side: int) -> None:
        self._progress[side] = NEVER
        self._release(min(self._progress))

    def state(self) -> int:
        return sum(len(parts) for held in self._held for parts in held.values())


def _overlap(one: Element, other: Element) -> bool:
    return max(one[1], other[1]) < min(one[2], other[2])


def _subtract(one: Element, other: Element) -> list[Element]:
    """The parts of an interval outside of one that overlaps it."""
    payload, start, end = one
    parts = [(payload, start, other[1]), (payload, other[2], end)]
    return [part for part in parts if part[1] < part[2]]


@dataclass(frozen=True)
class Function:
    """An aggregate: of the first value, of one value more, and what is shown."""

    init: Callable[[Any], Any]
    merge: Callable[[Any, Any], Any]
    evaluate: Callable[[Any], Any]


MAX: Final = Function(
    init=lambda value: value,
    merge=lambda partial, value: partial if partial >= value else value,
    evaluate=lambda partial: partial,
)


class Segments:
    """The partial aggregates of one group: disjoint, without gaps, by start."""

    __slots__ = ("function", "held")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.held: deque[list[Any]] = deque()

    def settle(self, start: int) -> list[Element]:
        """Cut at a start and give back what lies before it."""
        held, evaluate = self.held, self.function.evaluate
        final: list[Element] = []
        while held and held[0][1] <= start:
            first, last, partial = held.popleft()
            final.append((evaluate(partial), first, last))
        if held and held[0][0] < start:
            segment = held[0]
            final.append((evaluate(segment[2]), segment[0], start))
            segment[0] = start
        return final

    def add(self, value: Any, start: int, end: int) -> None:
        """Merge a value into all segments it overlaps; all held ones begin at `start` or later."""
        held, merge = self.held, self.function.merge
        if not held:
            held.append([start, end, self.function.init(value)])
            return
        if held[-1][1] <= end:
            last = held[-1][1]
            for segment in held:
                segment[2] = merge(segment[2], value)
            if last < end:
                held.append([last, end, self.function.init(value)])
            return
        for place, segment in enumerate(held):
            if segment[1] > end:
                if segment[0] < end:
                    held.insert(place, [segment[0], end, merge(segment[2], value)])
                    segment[0] = end
                return
            segment[2] = merge(segment[2], value)


class Aggregate(Operator):
    """One result per segment between two changes, once time has passed it."""

    def __init__(self, function: Function, value: Callable[[Any], Any]) -> None:
        super().__init__()
        self._segments = Segments(function)
        self._value = value

    def process(self, element: Element) -> None:
        payload, start, end = element
        for result in self._segments.settle(start):
            self.emit(result)
        self._segments.add(self._value(payload), start, end)

    def flush(self) -> None:
        for result in self._segments.settle(NEVER):
            self.emit(result)

    def state(self) -> int:
        return len(self._segments.held)


class Group(Operator):
    """The same per group; results of all groups leave in the order of their starts."""

    def __init__(
        self,
        function: Function,
        group: Callable[[Any], Any],
        value: Callable[[Any], Any],
        result: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__()
        self._function = function
        self._group = group
        self._value = value
        self._result = result
        self._groups: dict[Any, Segments] = {}
        # Groups by the end and by the start of their first segment; outdated entries are skipped.
        self._ends: list[tuple[int, int, Any]] = []
        self._starts: list[tuple[int, int, Any]] = []
        self._queue: list[Entry] = []
        self._number = 0

    def process(self, element: Element) -> None:
        payload, start, end = element
        self._settle(start)
        group = self._group(payload)
        segments = self._groups.get(group)
        if segments is None:
            segments = self._groups[group] = Segments(self._function)
        before = segments.held[0][:2] if segments.held else None
        self._put(group, segments.settle(start))
        segments.add(self._value(payload), start, end)
        if segments.held[0][:2] != before:
            self._register(group, segments)
        self._release(start)

    def _settle(self, start: int) -> None:
        """Take what is final out of every group that has such segments."""
        while self._ends and self._ends[0][0] <= start:
            end, _, group = heappop(self._ends)
            segments = self._groups.get(group)
            if segments is None or segments.held[0][1] != end:
                continue
            self._put(group, segments.settle(start))
            if segments.held:
                self._register(group, segments)
            else:
                del self._groups[group]

    def _put(self, group: Any, final: list[Element]) -> None:
        for value, start, end in final:
            self._number += 1
            entry = (start, self._number, (self._result(group, value), start, end))
            heappush(self._queue, entry)

    def _register(self, group: Any, segments: Segments) -> None:
        first, last, _ = segments.held[0]
        self._number += 1
        heappush(self._starts, (first, self._number, group))
        heappush(self._ends, (last, self._number, group))

    def _release(self, start: int) -> None:
        starts, queue = self._starts, self._queue
        while starts:
            segments = self._groups.get(starts[0][2])
            if segments is not None and segments.held[0][0] == starts[0][0]:
                break
            heappop(starts)
        limit = starts[0][0] if starts else start
        while queue and queue[0][0] <= limit:
            self.emit(heappop(queue)[2])

    def flush(self) -> None:
        self._settle(NEVER)
        self._release(NEVER)

    def state(self) -> int:
        return sum(len(one.held) for one in self._groups.values()) + len(self._queue)


class Coalesce(Operator):
    """Prolong a held element by one that begins where it ends, until it is long enough."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self._longest = longest
        self._held: deque[list[Any]] = deque()
        self._ending: dict[tuple[Any, int], list[list[Any]]] = {}

    def process(self, element: Element) -> None:
        payload, start, end = element
        held, ending = self._held, self._ending
        while held and (held[0][2] < start or held[0][2] - held[0][1] >= self._longest):
            self._leave(held.popleft())
        found = ending.get((payload, start))
        if found is None:
            longer = [payload, start, end]
            held.append(longer)
        elif len(found) == 1:
            longer = found[0]
            longer[2] = end
            del ending[payload, start]
        else:
            longer = found.pop(0)
            longer[2] = end
        same = ending.get((payload, end))
        if same is None:
            ending[payload, end] = [longer]
        else:
            same.append(longer)

    def _leave(self, element: list[Any]) -> None:
        payload, start, end = element
        same = self._ending[payload, end]
        if len(same) == 1:
            del self._ending[payload, end]
        else:
            # By identity: an equal element may be held as well.
            del same[next(place for place, each in enumerate(same) if each is element)]
        self.emit((payload, start, end))

    def flush(self) -> None:
        while self._held:
            self._leave(self._held.popleft())

    def state(self) -> int:
        return len(self._held)


class FromSigned(Operator):
    """Lifetimes out of signed elements; they leave in the order of their starts."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: dict[Any, deque[list[Any]]] = {}
        self._held: deque[list[Any]] = deque()

    def process(self, element: Element) -> None:
        payload, time, sign = element
        if sign > 0:
            begun = [payload, time, None]
            self._begun.setdefault(payload, deque()).append(begun)
            self._held.append(begun)
            return
        same = self._begun[payload]
        same.popleft()[2] = time
        if not same:
            del self._begun[payload]
        self._release()

    def _release(self) -> None:
        held = self._held
        while held and held[0][2] is not None:
            payload, start, end = held.popleft()
            if start < end:
                self.emit((payload, start, end))

    def flush(self) -> None:
        for begun in self._held:
            begun[2] = NEVER if begun[2] is None else begun[2]
        self._begun.clear()
        self._release()

    def state(self) -> int:
        return len(self._held)
