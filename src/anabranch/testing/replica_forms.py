"""The ways in which one history of events can be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing.physical import Element, KitStable, Move

MergeCase: TypeAlias = Literal["R0", "R1", "R2", "R3", "R4"]
"""What is known of the copies of a stream, strongest first."""

MERGE_CASES: Final[tuple[MergeCase, ...]] = ("R0", "R1", "R2", "R3", "R4")

_ORIGINS: Final = (0, 0, 0, 0, 0, -6, FOREVER - 12, BEGINNING + 1)
_PAYLOADS: Final = (("a",), ("b",), ("c",))


def draw_history(case: MergeCase, below: Callable[[int], int], most: int) -> tuple[Move, ...]:
    """Events as inserts; those of R0 start one after the other, keys are unique in R2 and R3."""
    origin = _ORIGINS[below(len(_ORIGINS))]
    events: list[Move] = []
    for _ in range(below(most + 1)):
        if events and below(4) == 3:
            # The same again, or with another end; where that is not legal, it is left out below.
            old = events[below(len(events))]
            events.append(_event(old.payload, old.start, below))
        else:
            payload = _PAYLOADS[below(len(_PAYLOADS))]
            events.append(_event(payload, origin + below(10), below))
    events.sort(key=lambda event: event.start)
    if case in ("R1", "R4"):
        return tuple(events)
    unique = {
        event.start if case == "R0" else (event.payload, event.start): event for event in events
    }
    return tuple(unique.values())


def draw_replica(
    case: MergeCase, events: Sequence[Move], below: Callable[[int], int]
) -> list[Element]:
    """One physical form of these events: promises at any place, and all that the case allows."""
    if case in ("R3", "R4"):
        return _revised(case, events, below)
    order = list(events)
    if case == "R2":
        order.sort(key=lambda event: (event.start, below(8)))
    rarity = 1 << below(4)
    elements: list[Element] = []
    stable = int(BEGINNING)
    for number, event in enumerate([*order, None]):
        bound = FOREVER if event is None else event.start
        for _ in range(2):
            if below(rarity) == 0:
                promise = _promise(stable, bound, order[: number + 1], below)
                elements.append(KitStable(promise))
                stable = max(stable, promise)
        if event is not None:
            elements.append(event)
    return _ended(elements, below)


def _event(payload: tuple[object, ...], start: int, below: Callable[[int], int]) -> Move:
    return Move(payload, start, start, _end(start, below))


def _end(start: int, below: Callable[[int], int]) -> int:
    return FOREVER if below(6) == 5 else min(start + 1 + below(8), FOREVER)


def _promise(stable: int, bound: int, events: Sequence[Move], below: Callable[[int], int]) -> int:
    """A time up to the bound, most often at or right behind a start or an end."""
    if below(8) == 7:
        return stable - below(2) if stable > BEGINNING + 1 else stable
    times = {time for event in events for time in (event.start, event.new_end)}
    near = {time + 1 for time in times if time < FOREVER} | times | {bound}
    fitting = sorted(time for time in near if stable < time <= bound)
    return fitting[below(len(fitting))] if fitting else bound


def _ended(elements: list[Element], below: Callable[[int], int]) -> list[Element]:
    return elements if below(4) == 3 else [*elements, KitStable(FOREVER)]


def _revised(case: MergeCase, events: Sequence[Move], below: Callable[[int], int]) -> list[Element]:
    """In any order, with ends that come and go, and events that are taken back in time."""
    # Per event the ends it is said to have, one after the other; its start stands for nothing.
    plans = [_plan(event, below) for event in events]
    keys = {(event.payload, event.start) for event in events}
    for _ in range(below(3)):
        base = events[below(len(events))].start if events else 0
        start = max(min(base - 2 + below(5), FOREVER - 1), BEGINNING + 1)
        spurious = _event(_PAYLOADS[below(len(_PAYLOADS))], start, below)
        key = (spurious.payload, spurious.start)
        if case == "R4" or key not in keys:
            keys.add(key)
            plans.append([*_plan(spurious, below), Move(*key, spurious.new_end, start)])
    rarity = 1 + below(5)
    elements: list[Element] = []
    stable = int(BEGINNING)
    while True:
        plans = sorted((plan for plan in plans if plan), key=lambda plan: plan[0].start)
        if below(rarity) == 0:
            bound = min((_latest(move) for plan in plans for move in plan), default=FOREVER)
            promise = _promise(stable, bound, events, below)
            elements.append(KitStable(promise))
            stable = max(stable, promise)
        if not plans:
            return _ended(elements, below)
        elements.append(plans[below(min(3, len(plans)))].pop(0))


def _plan(event: Move, below: Callable[[int], int]) -> list[Move]:
    """The moves that lead to an event: at once, through other ends, or taken back in between."""
    ends = [event.start]
    for _ in range(max(0, below(5) - 2)):
        back = ends[-1] != event.start and below(4) == 3
        ends.append(event.start if back else _end(event.start, below))
    ends.append(event.new_end)
    return [
        Move(event.payload, event.start, old, new)
        for old, new in pairwise(ends)
        if (old, new) != (event.start, event.start)
    ]


def _latest(move: Move) -> int:
    """The largest promise that may come before a move."""
    if move.start in (move.end, move.new_end):
        return move.start
    return min(move.end, move.new_end)
