"""Streams as elements in order of arrival, to be read and to be cut into batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.model import elements as model
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload, freeze, payloads, rows_of, show_payload
from anabranch.model.time import BEGINNING, FOREVER, Time, format_time


@final
@dataclass(frozen=True, slots=True)
class Move:
    """An insert (`end == start`), an adjust, or a withdrawal (`new_end == start`)."""

    payload: Payload
    start: int
    end: int
    new_end: int

    def __repr__(self) -> str:
        """As papers write it: `insert('a')[1, 8)`."""
        ends = [format_time(end) for end in (self.start, self.end, self.new_end)]
        if self.end == self.start:
            return f"insert{show_payload(self.payload)}[{ends[0]}, {ends[2]})"
        change = "withdrawn" if self.new_end == self.start else f"-> {ends[2]}"
        return f"adjust{show_payload(self.payload)}[{ends[0]}, {ends[1]} {change})"


@final
@dataclass(frozen=True, slots=True)
class KitStable:
    """Nothing before this instant changes any more."""

    time: int

    def __repr__(self) -> str:
        """`stable(12)`."""
        return f"stable({format_time(self.time)})"


Element: TypeAlias = Move | KitStable

AnyElement: TypeAlias = Element | model.Element
"""An element of the kit, or one as in `model/elements.py`."""


def insert(*payload: object, start: int, end: int = FOREVER) -> Move:
    """A lifetime that begins: `insert("a", start=1, end=8)`."""
    return Move(freeze(payload), start, start, end)


def adjust(*payload: object, start: int, end: int, new_end: int) -> Move:
    """A lifetime that gets another end; `new_end == start` withdraws it."""
    return Move(freeze(payload), start, end, new_end)


def stable(time: int) -> KitStable:
    """A promise."""
    return KitStable(time)


def move_or_stable(element: AnyElement) -> Element:
    """An element in the form of the kit, with its payload frozen.

    >>> move_or_stable(model.Adjust({"itemID": 1}, 5, 9, 7))
    adjust(1)[5, 9 -> 7)
    """
    match element:
        case model.Stable(time):
            return KitStable(time)
        case model.Insert(payload, start, end):
            return Move(freeze(payload), start, start, end)
        case model.Adjust(payload, start, end, new_end):
            return Move(freeze(payload), start, end, new_end)
    return element


@final
@dataclass(frozen=True, slots=True)
class PhysicalStream:
    """Elements in the order they arrive in."""

    schema: pa.Schema
    elements: tuple[Element, ...]

    def __repr__(self) -> str:
        """The columns and all elements, one per line."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.schema)
        return "\n".join([f"stream ({columns})", *(f"  {each!r}" for each in self.elements)])

    def batches(self, *cuts: int) -> list[EventBatch]:
        """The stream cut before the elements at these positions, ascending; all without cuts."""
        borders = [0, *cuts, len(self.elements)]
        return [self._batch(self.elements[a:b]) for a, b in pairwise(borders)]

    def in_batches_of(self, size: int) -> list[EventBatch]:
        """The stream in batches of so many elements."""
        return self.batches(*range(size, len(self.elements), size))

    def meaning(self) -> LogicalStream:
        """The snapshots after all elements."""
        return LogicalStream.of_batches(self.batches())

    def _batch(self, elements: Sequence[Element]) -> EventBatch:
        moves = [each for each in elements if isinstance(each, Move)]
        promises = [each.time for each in elements if isinstance(each, KitStable)]
        return EventBatch(
            rows_of([move.payload for move in moves], self.schema),
            np.array([move.start for move in moves], np.int64),
            np.array([move.end for move in moves], np.int64),
            np.array([move.new_end for move in moves], np.int64),
            Time(max(promises, default=BEGINNING)),
        )


def elements_of(batch: EventBatch) -> list[Move]:
    """The rows of a batch, one by one."""
    rows = payloads(batch.payload, len(batch))
    times = (batch.start.tolist(), batch.end.tolist(), batch.new_end.tolist())
    return [Move(row, start, end, new_end) for row, start, end, new_end in zip(rows, *times)]


def violations(elements: Iterable[Element], state: PhysicalState | None = None) -> Iterator[str]:
    """What is wrong with a stream, in order of arrival; nothing if it is legal."""
    state = PhysicalState.empty() if state is None else state
    for element in elements:
        wrong = state.take(element)
        if wrong:
            yield f"{element!r}: {wrong}"


@final
@dataclass(slots=True)
class PhysicalState:
    """The events there are after some elements, and the largest promise so far."""

    events: Counter[tuple[Payload, int, int]]
    stable: int

    @staticmethod
    def empty() -> PhysicalState:
        """Nothing there, nothing promised."""
        return PhysicalState(Counter(), BEGINNING)

    def take(self, element: Element) -> str:
        """Apply one element; what is illegal about it, if anything."""
        if isinstance(element, KitStable):
            self.stable = max(self.stable, element.time)
            return ""
        payload, start, end, new_end = (
            element.payload,
            element.start,
            element.end,
            element.new_end,
        )
        before = (payload, start, end)
        is_insert = end == start
        wrong = ""
        if not BEGINNING < start < FOREVER or end < start or new_end < start:
            wrong = "this is not a lifetime"
        elif is_insert and new_end == start:
            wrong = "the lifetime is empty"
        elif is_insert and start < self.stable:
            wrong = f"starts before the stable point {format_time(self.stable)}"
        elif not is_insert and min(end, new_end) < self.stable:
            wrong = f"changes something before the stable point {format_time(self.stable)}"
        elif not is_insert and not self.events[before]:
            wrong = "there is no such event"
        if not is_insert:
            self.events[before] -= 1
            if not self.events[before]:
                del self.events[before]
        if new_end > start:
            self.events[payload, start, new_end] += 1
        return wrong
