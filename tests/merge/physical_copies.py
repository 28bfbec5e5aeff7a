"""One logical stream as physical copies: other order, other ends on the way, other promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeAlias

from anabranch.model.batch import EventBatch
from anabranch.model.payload import Payload
from anabranch.model.time import FOREVER
from anabranch.testing import elements_of
from anabranch.testing.physical import Element, KitStable, Move

Event: TypeAlias = tuple[Payload, int, int]


def thrown_events(dice: Random, many: int) -> list[Event]:
    """Events with few payloads, many ties, some of them equal, and some that meet."""
    starts = [dice.randrange(12) for _ in range(many)]
    return [
        ((dice.randrange(3), dice.randrange(2)), start, start + dice.choice([1, 2, 3, 9]))
        for start in starts
    ]


def physical_copy(events: Sequence[Event], dice: Random) -> list[Element]:
    """A copy of them: shuffled, some with another end at first, and promises in between."""
    steps: list[list[Move]] = []
    for payload, start, end in dice.sample(list(events), len(events)):
        first = start + dice.choice([1, 4, 7]) if dice.random() < 0.4 else end
        moves = [Move(payload, start, start, first)]
        if first != end:
            moves.append(Move(payload, start, first, end))
        steps.append(moves)
    found: list[Element] = []
    stable = -1
    while steps:
        step = dice.choice(steps[:4])
        found.append(step.pop(0))
        steps = [each for each in steps if each]
        # A move is legal if its start or both of its ends are not settled.
        bounds = [max(m.start, min(m.end, m.new_end)) for each in steps for m in each]
        bounds += [each[0].start for each in steps if each[0].end == each[0].start]
        bound = min(bounds, default=20)
        if bound > stable and dice.random() < 0.5:
            stable = dice.randint(stable + 1, bound)
            found.append(KitStable(stable))
    return [*found, KitStable(FOREVER)]


def events_of(batches: Iterable[EventBatch]) -> Counter[Event]:
    """The events that there are after all moves."""
    there: Counter[Event] = Counter()
    for batch in batches:
        for move in elements_of(batch):
            if move.end > move.start:
                there[(move.payload, move.start, move.end)] -= 1
            if move.new_end > move.start:
                there[(move.payload, move.start, move.new_end)] += 1
    assert all(count >= 0 for count in there.values())
    return +there
