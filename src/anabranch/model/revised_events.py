"""Lifetimes after revisions: where they are cut, and what is added."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Insert, elements_of, show_element
from anabranch.model.netting import net
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.revision import snapshot_changes
from anabranch.model.tally import Flags, Numbers
from anabranch.model.time import format_time

Span = tuple[int, int, int]
"""Start and end of a lifetime, and the row whose payload it has."""


def revised_events(events: EventBatch, changes: EventBatch) -> EventBatch:
    """Events with the snapshots that changes make of those of other events.

    What is withdrawn is cut out of a lifetime that holds there; of several the one that ends last,
    which leaves the fewest pieces. All other lifetimes stay as they are.

    Example: [15, 40) and a withdrawal of [20, 30) give [15, 20) and [30, 40).

    Args:
        events: Inserts only, the events as they were announced.
        changes: The changes of all revisions that count.

    Raises:
        StreamError: Something is withdrawn that does not hold.
    """
    changes = snapshot_changes(changes)
    if not len(changes):
        return events
    # Withdrawals that name an event, or begin with it, are done with here.
    moves = net(EventBatch.concat([events, changes]))
    low, high = np.minimum(moves.end, moves.new_end), np.maximum(moves.end, moves.new_end)
    is_gain = moves.new_end > moves.end
    if is_gain.all():
        return replace(moves, start=low, end=low, new_end=high)
    groups = _groups(moves, ~is_gain)
    found: list[Span] = []
    for group in groups:
        spans = list(zip(low[group].tolist(), high[group].tolist(), group.tolist()))
        gained = is_gain[group].tolist()
        held = [span for span, gain in zip(spans, gained) if gain]
        taken = [span for span, gain in zip(spans, gained) if not gain]
        try:
            found += _cut(held, taken)
        except _MissingError as missing:
            raise _not_there(moves, missing.row, missing.instant) from None
    start, end, row = np.array(found, np.int64).reshape(-1, 3).T
    kept = np.delete(np.arange(len(moves)), np.concatenate(groups))
    start, end = np.r_[low[kept], start], np.r_[high[kept], end]
    return replace(moves.take(np.r_[kept, row]), start=start, end=start, new_end=end)


def _groups(moves: EventBatch, marked: Flags) -> list[Numbers]:
    """The rows of every payload of which a row is marked."""
    first, second = (stable_hash(moves.payload.columns, len(moves), salt) for salt in (0, 1))
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    group = np.cumsum(begins) - 1
    concerned = np.zeros(int(group[-1]) + 1, np.bool_)
    concerned[group[marked[order]]] = True
    rows, group = order[concerned[group]], group[concerned[group]]
    return np.split(rows, np.flatnonzero(group[1:] != group[:-1]) + 1)


class _MissingError(Exception):
    """A row withdraws something that does not hold at an instant."""

    def __init__(self, row: int, instant: int) -> None:
        super().__init__()
        self.row = row
        self.instant = instant


def _cut(held: Sequence[Span], taken: Sequence[Span]) -> Iterator[Span]:
    """Lifetimes of one payload without what is taken away from them.

    As many lifetimes are hidden at an instant as withdrawals hold there. One that was hidden and is
    not any more goes on from there. Each lifetime is pushed and popped once per cut: n log n.
    """
    coming = sorted(held, reverse=True)
    # The lifetimes that have begun and are to be seen, that which ends last in front.
    seen: list[Span] = []
    hidden: list[tuple[int, int]] = []
    steps: dict[int, int] = {}
    for start, end, _ in taken:
        steps[start] = steps.get(start, 0) + 1
        steps[end] = steps.get(end, 0) - 1
    times = sorted(steps)
    heapify(times)
    wanted = 0
    while times:
        now = heappop(times)
        wanted += steps.pop(now, 0)
        while coming and coming[-1][0] <= now:
            start, end, row = coming.pop()
            heappush(seen, (-end, start, row))
        while hidden and hidden[0][0] <= now:
            hidden.pop(0)
        while len(hidden) > wanted:
            end, row = hidden.pop()
            heappush(seen, (-end, now, row))
        while len(hidden) < wanted:
            if not seen or -seen[0][0] <= now:
                raise _MissingError(taken[0][2], now)
            last, start, row = heappop(seen)
            if start < now:
                yield start, now, row
            insort(hidden, (-last, row))
            heappush(times, -last)
    yield from coming
    yield from ((start, -last, row) for last, start, row in seen)


def _not_there(moves: EventBatch, row: int, instant: int) -> StreamError:
    [element, *_] = elements_of(moves.take(np.array([row])))
    assert not isinstance(element, Insert)
    return StreamError(
        f"a revision withdraws what does not hold at {format_time(instant)}",
        where=show_element(element),
        hint="'anabranch check' finds the revision that breaks a promise",
    )
