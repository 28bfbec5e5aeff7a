"""Where operators keep elements: hash tables for probing, lists and heaps for eviction.

The SweepAreas of Kraemer (2007, section 11.3). A key is what elements of a side are found by; for
nested loops it is the whole payload, and a predicate decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from typing import Any, TypeAlias

from tests.bench.operators import Element

Fits: TypeAlias = Callable[[Any, Any], bool]
"""Whether a stored payload joins with the payload that looks for it."""


class Buckets:
    """A hash table of lists: what both approaches keep elements in."""

    def __init__(self) -> None:
        self.lists: dict[Hashable, list[Any]] = {}

    def add(self, key: Hashable, item: Any) -> None:
        held = self.lists.get(key)
        if held is None:
            self.lists[key] = [item]
        else:
            held.append(item)

    def remove(self, key: Hashable, item: Any) -> None:
        held = self.lists[key]
        if len(held) == 1:
            del self.lists[key]
        else:
            held.remove(item)

    def probe(self, key: Hashable) -> Iterable[Any]:
        return self.lists.get(key, ())

    def size(self) -> int:
        return sum(map(len, self.lists.values()))


class CountingBuckets(Buckets):
    """Counts what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.added = 0
        self.removed = 0

    def add(self, key: Hashable, item: Any) -> None:
        self.added += 1
        super().add(key, item)

    def remove(self, key: Hashable, item: Any) -> None:
        self.removed += 1
        super().remove(key, item)


class ScannedBuckets(Buckets):
    """A hash table by payload, all of which is scanned for every probe (nested loops)."""

    def __init__(self, fits: Fits) -> None:
        super().__init__()
        self._fits = fits

    def probe(self, key: Hashable) -> Iterable[Any]:
        fits = self._fits
        return [item for held in self.lists.values() for item in held if fits(item, key)]


class Area(ABC):
    """One side of an interval join."""

    @abstractmethod
    def insert(self, key: Hashable, element: Element) -> None:
        """Add an element under its key."""

    @abstractmethod
    def probe(self, key: Hashable) -> Iterable[Element]:
        """The elements that join with a key, whether they are alive or not."""

    @abstractmethod
    def purge(self, start: int) -> None:
        """Drop everything that ends up to a start."""

    @abstractmethod
    def size(self) -> int:
        """How many elements are held."""


class ListedHash(Area):
    """Hash for probing, a list for eviction: right where ends come in ascending order."""

    def __init__(self, buckets: Buckets | None = None) -> None:
        self._buckets = buckets or Buckets()
        self._ends: deque[tuple[Hashable, Element]] = deque()

    def insert(self, key: Hashable, element: Element) -> None:
        self._buckets.add(key, element)
        self._ends.append((key, element))

    def probe(self, key: Hashable) -> Iterable[Element]:
        return self._buckets.probe(key)

    def purge(self, start: int) -> None:
        ends = self._ends
        while ends and ends[0][1][2] <= start:
            self._buckets.remove(*ends.popleft())

    def size(self) -> int:
        return len(self._ends)


class HeapedHash(Area):
    """Hash for probing, a priority queue for eviction: right for any order of ends."""

    def __init__(self, buckets: Buckets | None = None) -> None:
        self._buckets = buckets or Buckets()
        self._ends: list[tuple[int, int, Hashable, Element]] = []
        self._number = 0

    def insert(self, key: Hashable, element: Element) -> None:
        self._buckets.add(key, element)
        self._number += 1
        heappush(self._ends, (element[2], self._number, key, element))

    def probe(self, key: Hashable) -> Iterable[Element]:
        return self._buckets.probe(key)

    def purge(self, start: int) -> None:
        ends = self._ends
        while ends and ends[0][0] <= start:
            _, _, key, element = heappop(ends)
            self._buckets.remove(key, element)

    def size(self) -> int:
        return len(self._ends)


class EndList(Area):
    """A list in the order of ends, all of which is scanned for every probe (nested loops)."""

    def __init__(self, fits: Fits) -> None:
        self._fits = fits
        self._held: deque[Element] = deque()

    def insert(self, key: Hashable, element: Element) -> None:
        held, later = self._held, []
        while held and held[-1][2] > element[2]:
            later.append(held.pop())
        held.append(element)
        held.extend(reversed(later))

    def probe(self, key: Hashable) -> Iterable[Element]:
        fits = self._fits
        return [element for element in self._held if fits(element[0], key)]

    def purge(self, start: int) -> None:
        held = self._held
        while held and held[0][2] <= start:
            held.popleft()

    def size(self) -> int:
        return len(self._held)
