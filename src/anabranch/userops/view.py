"""Events as a user operator sees them: values of its types, without NULLs, perhaps with times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, final

import pyarrow as pa

from anabranch.algebra.modules.user_operator import Event, Row, Window
from anabranch.userops.declaration import EventForm
from anabranch.userops.types import conversion

Times = tuple[list[int], list[int]]


@final
@dataclass(frozen=True, slots=True)
class EventView:
    """Events as one module sees them.

    Attributes:
        seen: What its author declared.
        required: The columns in which NULLs do not count: events with one are left out.
        conversions: What widens the values of a column.
    """

    seen: EventForm
    required: tuple[int, ...]
    conversions: tuple[tuple[int, Callable[[Any], Any]], ...]

    @staticmethod
    def of(
        seen: EventForm, actual: Sequence[pa.DataType], wanted: Sequence[pa.DataType]
    ) -> EventView:
        """What is shown where columns have some types and the module wants others."""
        found = ((index, conversion(*kinds)) for index, kinds in enumerate(zip(actual, wanted)))
        return EventView(
            seen,
            tuple(index for index, each in enumerate(seen.arguments) if not each.nullable),
            tuple((index, convert) for index, convert in found if convert is not None),
        )

    def counted(self, columns: Sequence[list[Any]], times: Times) -> tuple[list[list[Any]], Times]:
        """The events that count, with converted values."""
        made = list(columns)
        nulls = [index for index in self.required if None in made[index]]
        if nulls:
            keep = [None not in row for row in zip(*(made[index] for index in nulls))]
            made = [list(compress(column, keep)) for column in made]
            times = list(compress(times[0], keep)), list(compress(times[1], keep))
        for index, convert in self.conversions:
            made[index] = [None if each is None else convert(each) for each in made[index]]
        return made, times

    def shown(
        self, columns: Sequence[list[Any]], times: Times, window: Window
    ) -> tuple[list[Any], Mapping[str, Any]]:
        """What a function that gets all events of a window is called with."""
        given: list[Any] = list(columns)
        if self.seen.events:
            values = zip(*columns) if self.seen.tupled else columns[0]
            given = [[Event(*each) for each in zip(values, *times)]]
        if isinstance(self.seen.window, int):
            given.insert(self.seen.window, window)
        return given, {self.seen.window: window} if isinstance(self.seen.window, str) else {}

    def shown_all(self, columns: Sequence[list[Any]], times: Times) -> list[list[Any]]:
        """What a function that gets one event is called with, for many: a list per argument."""
        columns, times = self.counted(columns, times)
        if not self.seen.events:
            return columns
        values = zip(*columns) if self.seen.tupled else columns[0]
        return [[Event(*each) for each in zip(values, *times)]]

    def shown_one(self, values: Row, start: int, end: int) -> Sequence[Any] | None:
        """What a function that gets one event is called with; None if the event does not count."""
        for index in self.required:
            if values[index] is None:
                return None
        if self.conversions:
            made = list(values)
            for index, convert in self.conversions:
                made[index] = None if made[index] is None else convert(made[index])
            values = tuple(made)
        if self.seen.events:
            return (Event(values if self.seen.tupled else values[0], start, end),)
        return values
