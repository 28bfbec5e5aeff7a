"""The view that one copy of a stream has of an event, and how much of it is final."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from anabranch.model.payload import Payload, sort_key
from anabranch.model.time import BEGINNING, format_time
from anabranch.testing.physical import Element, KitStable

Key: TypeAlias = tuple[Payload, int]
"""Payload and start of an event."""


@final
@dataclass(slots=True, kw_only=True, eq=False)
class ReplicaView:
    """The events of one copy of a stream, by payload and start.

    Attributes:
        name: For people.
        from_time: The copy stands only for events that end then or later.
        stable: Its promise.
        ends: The ends of the events with this payload and start, in order.
    """

    name: str
    from_time: int = BEGINNING
    stable: int = BEGINNING
    ends: dict[Key, list[int]] = field(default_factory=dict)

    def take(self, element: Element, *, keyed: bool) -> None:
        """Apply an element.

        A copy that missed something may adjust what it never inserted; then that is its opinion.
        With `keyed` there is one event of a payload and start, and what is said last holds.
        """
        if isinstance(element, KitStable):
            self.stable = max(self.stable, element.time)
            return
        key = (element.payload, element.start)
        held = [] if keyed else list(self.ends.get(key, ()))
        if element.end in held:
            held.remove(element.end)
        if element.new_end > element.start:
            insort(held, element.new_end)
        self.ends[key] = held
        if not held:
            del self.ends[key]

    def ends_of(self, key: Key) -> Sequence[int]:
        """The ends of all its events with this payload and start."""
        return self.ends.get(key, ())

    def reaching(self, key: Key, time: int) -> int:
        """How many of them end at a time or later."""
        ends = self.ends_of(key)
        return len(ends) - bisect_left(ends, time)

    def frozen(self, key: Key) -> list[int]:
        """The ends that are facts: before the promise, and such as the copy stands for."""
        return [end for end in self.ends_of(key) if self.from_time <= end < self.stable]

    def half_frozen(self, key: Key) -> int:
        """How many events are there for good, and end at the promise or later.

        Before its promise has reached the time it stands for, such an event may still get an end
        that the copy does not stand for.
        """
        if not (key[1] < self.stable and self.from_time <= self.stable):
            return 0
        return self.reaching(key, self.stable)

    def promise(self) -> str:
        """Its name and promise, for people."""
        since = "" if self.from_time == BEGINNING else f" (from {format_time(self.from_time)})"
        return f"{self.name}{since} at {format_time(self.stable)}"

    def opinion(self, key: Key) -> str:
        """Its events with this payload and start, for people."""
        start, now = key[1], format_time(self.stable)
        shown = ", ".join(
            f"[{start}, {format_time(end)}) {self._state(start, end)}" for end in self.ends_of(key)
        )
        since = "" if self.from_time == BEGINNING else f" (from {format_time(self.from_time)})"
        return f"{self.name}{since} has {shown or 'nothing'} at {now}"

    def _state(self, start: int, end: int) -> str:
        if end < self.stable:
            return "frozen"
        return "half frozen" if start < self.stable else "unfrozen"


def in_order(keys: Iterable[Key]) -> list[Key]:
    """By start, then by payload."""
    return sorted(keys, key=lambda key: (key[1], sort_key(key[0])))
