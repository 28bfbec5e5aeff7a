"""What a stream means: a multiset of payloads at every instant."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import final

import numpy as np

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.payload import Payload, freeze, payloads, show_payload, sort_key
from anabranch.model.time import BEGINNING, FOREVER, Time, format_time

__all__ = ["LogicalStream", "Payload", "Steps", "freeze"]

Steps = tuple[tuple[int, int], ...]
"""A multiplicity over time: `(instant, multiplicity from there on)`, instants ascending."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class LogicalStream:
    """For every payload, how many of it hold at every instant; equal when all snapshots are.

    Multiplicities are step functions, so lifetimes may be as long as time itself.

    >>> stream = LogicalStream.of([(("a",), 1, 4), (("a",), 2, 3), (("b",), 3, FOREVER)])
    >>> stream.snapshot(2)
    Counter({('a',): 2})
    >>> stream == LogicalStream.of([(("a",), 1, 3), (("a",), 2, 4), (("b",), 3, FOREVER)])
    True
    """

    steps: Mapping[Payload, Steps] = field(default_factory=dict)

    @staticmethod
    def of(events: Iterable[tuple[Payload, int, int]]) -> LogicalStream:
        """The meaning of lifetimes `(payload, start, end)`: +1 at the start, -1 at the end."""
        return LogicalStream.of_changes(
            change
            for payload, start, end in events
            for change in ((payload, start, 1), (payload, end, -1))
        )

    @staticmethod
    def of_batches(batches: Iterable[EventBatch]) -> LogicalStream:
        """The meaning of all moves so far: each adds one from its old end to its new one."""

        def changes() -> Iterator[tuple[Payload, int, int]]:
            for batch in batches:
                rows = payloads(batch.payload, len(batch))
                # Where something moves only; moves that change nothing add up to nothing.
                for row in np.flatnonzero(batch.end != batch.new_end).tolist():
                    yield rows[row], int(batch.end[row]), 1
                    yield rows[row], int(batch.new_end[row]), -1

        return LogicalStream.of_changes(changes())

    @staticmethod
    def of_changes(changes: Iterable[tuple[Payload, int, int]]) -> LogicalStream:
        """From `(payload, instant, change of multiplicity from there on)` in any order."""
        by_payload: dict[Payload, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for payload, instant, change in changes:
            # FOREVER is no instant: what ends there never ends.
            if instant < FOREVER:
                by_payload[freeze(payload)][instant] += change
        steps = {payload: _add_up(payload, there) for payload, there in by_payload.items()}
        return LogicalStream({payload: there for payload, there in steps.items() if there})

    @staticmethod
    def of_steps(steps: Mapping[Payload, Iterable[tuple[int, int]]]) -> LogicalStream:
        """From multiplicities over time, `(instant, multiplicity from there on)` ascending."""

        def changes() -> Iterator[tuple[Payload, int, int]]:
            for payload, there in steps.items():
                before = 0
                for instant, count in there:
                    yield payload, instant, count - before
                    before = count

        return LogicalStream.of_changes(changes())

    def snapshot(self, instant: int) -> Counter[Payload]:
        """The multiset of payloads that hold at an instant."""
        counts = {payload: _value_at(there, instant) for payload, there in self.steps.items()}
        return Counter({payload: count for payload, count in counts.items() if count})

    def change_points(self) -> list[int]:
        """The instants at which the snapshot becomes another one, ascending."""
        return sorted({instant for there in self.steps.values() for instant, _ in there})

    def segments(self) -> Iterator[tuple[int, int, Counter[Payload]]]:
        """The longest spans `(start, end, snapshot)` of one snapshot each, without empty ones."""
        instants = self.change_points()
        arriving = self._by_instant()
        now: Counter[Payload] = Counter()
        for start, end in zip(instants, [*instants[1:], int(FOREVER)]):
            for payload, count in arriving[start]:
                now[payload] = count
                if not count:
                    del now[payload]
            if now:
                yield start, end, now.copy()

    def events(self) -> list[tuple[Payload, int, int]]:
        """The canonical form: per payload and level k, the longest lifetimes with at least k.

        Sorted by start, end and payload; two streams are equal exactly when these lists are.
        """
        found: list[tuple[Payload, int, int]] = []
        for payload, there in self.steps.items():
            open_since: list[int] = []
            for instant, count in there:
                while len(open_since) > count:
                    found.append((payload, open_since.pop(), instant))
                open_since.extend([instant] * (count - len(open_since)))
            found.extend((payload, start, int(FOREVER)) for start in open_since)
        return sorted(found, key=lambda event: (event[1], event[2], sort_key(event[0])))

    def union(self, *others: LogicalStream) -> LogicalStream:
        """Multiplicities added up."""
        streams = (self, *others)
        return LogicalStream.of_changes(change for one in streams for change in one._changes())

    def combine(self, other: LogicalStream, function: Callable[[int, int], int]) -> LogicalStream:
        """A function of both multiplicities, for every payload at every instant."""
        every = self.steps.keys() | other.steps.keys()
        return LogicalStream.of_steps(
            {
                payload: combine_steps(
                    self.steps.get(payload, ()), other.steps.get(payload, ()), function
                )
                for payload in every
            }
        )

    def where(self, keep: Callable[[Payload], bool]) -> LogicalStream:
        """Only the payloads a predicate keeps."""
        return LogicalStream({row: there for row, there in self.steps.items() if keep(row)})

    def map(self, function: Callable[[Payload], Payload]) -> LogicalStream:
        """Every payload replaced by its image; payloads with one image add up."""
        return LogicalStream.of_changes(
            (function(payload), instant, change) for payload, instant, change in self._changes()
        )

    def group(self, key: Callable[[Payload], Payload]) -> dict[Payload, LogicalStream]:
        """The disjoint parts whose payloads share a key."""
        parts: dict[Payload, dict[Payload, Steps]] = defaultdict(dict)
        for payload, there in self.steps.items():
            parts[freeze(key(payload))][payload] = there
        return {value: LogicalStream(part) for value, part in parts.items()}

    def before(self, instant: int) -> LogicalStream:
        """The same snapshots before an instant, empty ones from there on."""
        return LogicalStream.of(
            (payload, start, min(end, instant))
            for payload, start, end in self.events()
            if start < instant
        )

    def agrees_with(self, other: LogicalStream, before: int = FOREVER) -> Time | None:
        """The first instant before `before` at which the snapshots differ, or None."""
        if self == other:
            return None
        surplus: Counter[Payload] = Counter()
        changes = [
            (instant, payload, sign * change)
            for stream, sign in ((self, 1), (other, -1))
            for payload, instant, change in stream._changes()
            if instant < before
        ]
        changes.sort(key=itemgetter(0))
        last = len(changes) - 1
        for position, (instant, payload, change) in enumerate(changes):
            surplus[payload] += change
            if not surplus[payload]:
                del surplus[payload]
            if surplus and (position == last or changes[position + 1][0] > instant):
                return Time(instant)
        return None

    def difference(self, other: LogicalStream, before: int = FOREVER) -> str:
        """Where and how this stream first differs from another one, empty where it does not.

        >>> one = LogicalStream.of([(("a",), 1, 4), (("b",), 2, 4)])
        >>> print(one.difference(LogicalStream.of([(("a",), 1, 4), (("a",), 3, 4)])))
        the snapshots differ from instant 2 on
          this stream:  ('a'), ('b')
          the other:    ('a')
          only this:    ('b')
        """
        instant = self.agrees_with(other, before)
        if instant is None:
            return ""
        mine, theirs = self.snapshot(instant), other.snapshot(instant)
        lines = [
            f"the snapshots differ from instant {format_time(instant)} on",
            f"  this stream:  {_show_snapshot(mine)}",
            f"  the other:    {_show_snapshot(theirs)}",
        ]
        if mine - theirs:
            lines.append(f"  only this:    {_show_snapshot(mine - theirs)}")
        if theirs - mine:
            lines.append(f"  only other:   {_show_snapshot(theirs - mine)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """One line per span with one snapshot."""
        lines = [
            f"  [{format_time(start)}, {format_time(end)}) {_show_snapshot(snapshot)}"
            for start, end, snapshot in self.segments()
        ]
        return "\n".join(["LogicalStream", *(lines or ["  empty at every instant"])])

    def _changes(self) -> Iterator[tuple[Payload, int, int]]:
        for payload, there in self.steps.items():
            before = 0
            for instant, count in there:
                yield payload, instant, count - before
                before = count

    def _by_instant(self) -> dict[int, list[tuple[Payload, int]]]:
        arriving: dict[int, list[tuple[Payload, int]]] = defaultdict(list)
        for payload, there in self.steps.items():
            for instant, count in there:
                arriving[instant].append((payload, count))
        return arriving


def combine_steps(
    first: Steps, second: Steps, function: Callable[[int, int], int]
) -> Iterator[tuple[int, int]]:
    """A function of two multiplicities over time; it must give 0 for (0, 0)."""
    for instant in sorted({time for time, _ in (*first, *second)}):
        yield instant, function(_value_at(first, instant), _value_at(second, instant))


def _add_up(payload: Payload, changes: Mapping[int, int]) -> Steps:
    steps: list[tuple[int, int]] = []
    count = 0
    for instant in sorted(changes):
        if not changes[instant]:
            continue
        count += changes[instant]
        if count < 0:
            raise StreamError(
                f"a payload holds {count} times",
                where=f"payload {show_payload(payload)} from instant {format_time(instant)} on",
                hint="an adjust must name a lifetime that was announced before",
            )
        assert BEGINNING <= instant < FOREVER
        steps.append((instant, count))
    return tuple(steps)


def _value_at(there: Steps, instant: int) -> int:
    position = bisect_right(there, instant, key=itemgetter(0))
    return there[position - 1][1] if position else 0


def _show_snapshot(snapshot: Counter[Payload]) -> str:
    ordered = sorted(snapshot.items(), key=lambda item: sort_key(item[0]))
    parts = [
        show_payload(payload) + (f" x{count}" if count > 1 else "") for payload, count in ordered
    ]
    return ", ".join(parts) or "nothing"
