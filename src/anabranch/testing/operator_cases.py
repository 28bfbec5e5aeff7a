"""Windows with events to ask a module about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.algebra.modules.results import Clip, clipped
from anabranch.algebra.modules.user_operator import Event, Row, Window
from anabranch.model.time import FOREVER
from anabranch.testing.strategies import TODAY, values

Events: TypeAlias = tuple["Event[Row]", ...]
"""Events whose values are tuples, also for one column."""


@final
@dataclass(frozen=True, slots=True)
class CheckCase:
    """A window, the events that are in it, and some that come and go.

    Attributes:
        window: The window.
        events: What is in it, in the order in which a module sees it.
        permuted: The same in another order.
        more: What is in it for a while.
    """

    window: Window
    events: Events
    permuted: Events
    more: Events

    def __repr__(self) -> str:
        return f"{show_events(self.events)} in {show_window(self.window)}"


def show_events(events: Events) -> str:
    """As a user would write them."""
    shown = []
    for each in events:
        value = each.value[0] if len(each.value) == 1 else each.value
        shown.append(f"Event({value!r}, {each.start}, {_time(each.end)})")
    return f"[{', '.join(shown)}]"


def show_window(window: Window) -> str:
    """`Window(0, 5)`."""
    return f"Window({window.start}, {_time(window.end)})"


def _time(time: int) -> str:
    return str(time) if time < FOREVER else "FOREVER"


def drawn_cases(
    types: Sequence[pa.DataType], clip: Clip, *, odd_floats: bool
) -> st.SearchStrategy[CheckCase]:
    """Windows with few events of some types, with ties, NULLs, and lifetimes that reach out."""
    rows = st.tuples(*(values(kind, odd_floats=odd_floats) for kind in types))
    return _cases(rows, clip)


@st.composite
def _cases(draw: st.DrawFn, rows: st.SearchStrategy[Row], clip: Clip) -> CheckCase:
    start = draw(st.sampled_from([0, 0, 0, -7, TODAY]))
    window = Window(start, start + draw(st.integers(1, 12)))
    events = draw(st.lists(_events(rows, window), max_size=6))
    more = draw(st.lists(_events(rows, window), max_size=3))
    return _case(draw, window, events, more, clip)


@st.composite
def _events(draw: st.DrawFn, rows: st.SearchStrategy[Row], window: Window) -> Event[Row]:
    start = draw(st.integers(window.start - 3, window.end - 1))
    first = max(start, window.start) + 1
    usual = st.integers(first, window.end + 4)
    end = draw(st.one_of(st.just(first), usual, usual, st.just(int(FOREVER))))
    return Event(draw(rows), start, end)


@st.composite
def cases_of(draw: st.DrawFn, lists: st.SearchStrategy[Any], arity: int, clip: Clip) -> CheckCase:
    """Windows over events that a user draws."""
    events = as_events(draw(lists), arity)
    keep = draw(st.integers(0, min(3, len(events))))
    return _case(draw, window_over(events), events[keep:], events[:keep], clip)


def _case(
    draw: st.DrawFn,
    window: Window,
    events: Sequence[Event[Row]],
    more: Sequence[Event[Row]],
    clip: Clip,
) -> CheckCase:
    ordered = in_order(events, window, clip)
    permuted = tuple(draw(st.permutations(ordered)))
    return CheckCase(window, ordered, permuted, in_order(more, window, clip))


def certain_cases(events: Sequence[Event[Row]], clip: Clip) -> list[CheckCase]:
    """Some windows over certain events: all of them, none, and all but the first."""
    window = window_over(events)
    found = []
    for keep in {0, len(events), min(1, len(events))}:
        ordered = in_order(events[keep:], window, clip)
        more = in_order(events[:keep], window, clip)
        found.append(CheckCase(window, ordered, ordered[::-1], more))
    return found


def as_events(given: Iterable[Any], arity: int) -> list[Event[Row]]:
    """Events as a user writes them: a plain value is an event of its own instant."""
    found = []
    for index, each in enumerate(given):
        event = each if isinstance(each, Event) else Event(each, index, index + 1)
        row = event.value if arity != 1 else (event.value,)
        found.append(Event(tuple(row), event.start, event.end))
    return found


def window_over(events: Sequence[Event[Row]]) -> Window:
    """A window in which all of them are."""
    starts = [each.start for each in events] or [0]
    ends = [each.end for each in events if each.end < FOREVER]
    return Window(min(starts), max([*ends, max(starts) + 1]))


def in_order(events: Sequence[Event[Row]], window: Window, clip: Clip) -> Events:
    """What a module sees of events, in the order in which it sees them."""
    cut = (Event(each.value, *clipped(each.start, each.end, window, clip)) for each in events)
    return tuple(sorted(cut, key=lambda each: (each.start, each.end, repr(each.value))))
