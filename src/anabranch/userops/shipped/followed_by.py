"""The pattern "A followed by B within some time"."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from anabranch.algebra.modules.user_operator import Event, Window
from anabranch.model.time import Duration
from anabranch.userops.decorators import udo

T = TypeVar("T")


class Followed(NamedTuple):
    """One match: how long it took."""

    waited: int


@udo
def followed_by(
    events: list[Event[T]], window: Window, *, first: T, then: T, within: Duration | None = None
) -> Iterator[Event[Followed]]:
    """For every `first` that begins in the window, the next `then` that begins after it.

    A match holds as long as the `then` that completes it. So a late event changes no match that
    was complete before it, and `timestamps => 'time_bound'` is a promise that it keeps. It looks
    at starts: leave lifetimes unclipped, or clip them right.

    >>> events = [Event("a", 1, 2), Event("b", 4, 9), Event("b", 5, 6)]
    >>> list(followed_by(events, Window(0, 10), first="a", then="b", within=5))
    [Event(value=Followed(waited=3), start=4, end=9)]
    """
    inside = [event for event in events if event.start >= window.start]
    # Of several that begin at once the one that holds longest is taken, whatever their order.
    nexts = {
        event.start: event
        for event in sorted(inside, key=lambda event: event.end)
        if event.value == then
    }
    starts = sorted(nexts)
    for event in inside:
        next_start = bisect_right(starts, event.start)
        if event.value != first or next_start == len(starts):
            continue
        match = nexts[starts[next_start]]
        waited = match.start - event.start
        if within is None or waited <= within:
            yield Event(Followed(waited), match.start, match.end)
