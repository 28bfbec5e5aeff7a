"""Streams with many different values, from a seed: what is drawn by hand has few."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from anabranch.model.time import FOREVER
from anabranch.testing import Element, KitStable, Move, PhysicalStream
from tests.kernels.plans import SCHEMA

Live = list[tuple[tuple[Any, ...], int, int]]


def busy_streams(
    *, most: int = 40, insert_only: bool = False, texts: tuple[str | None, ...] = ()
) -> st.SearchStrategy[PhysicalStream]:
    """A legal stream over SCHEMA, perhaps with texts of one's own."""
    return st.integers(0, 2**32).map(lambda seed: _stream(seed, most, insert_only, texts))


def _stream(
    seed: int, most: int, insert_only: bool, texts: tuple[str | None, ...]
) -> PhysicalStream:
    chance = random.Random(seed)
    values = chance.choice([3, 20, 1000])
    keys: list[str | None] = list(texts) or chance.choice([["a"], ["a", "b", None]])
    span = chance.choice([3, 10, 30])
    kinds = ["insert"] * 6 + ["stable"]
    kinds += [] if insert_only else ["adjust"] * 2 + ["withdraw"]
    live: Live = []
    elements: list[Element] = []
    stable = 0
    for kind in chance.choices(kinds, k=chance.randrange(most)):
        if kind == "stable":
            stable += chance.randrange(4)
            elements.append(KitStable(stable))
            continue
        open_ = [event for event in live if event[2] >= stable]
        if kind == "withdraw":
            open_ = [event for event in open_ if event[1] >= stable]
        if kind == "insert" or not open_:
            start = max(stable, chance.randrange(span) + chance.choice([0, stable]))
            end = FOREVER if chance.random() < 0.03 else start + 1 + chance.randrange(span)
            number = chance.randrange(values) / 4
            payload: tuple[Any, ...] = (
                chance.choice(keys),
                None if chance.random() < 0.1 else chance.randrange(values),
                chance.choice([None, float("nan"), float("inf"), *[number] * 15]),
            )
            live.append((payload, start, end))
            elements.append(Move(payload, start, start, end))
            continue
        payload, start, end = event = chance.choice(open_)
        live.remove(event)
        new_end = start
        if kind == "adjust":
            new_end = max(stable, start + 1) + chance.randrange(span)
            live.append((payload, start, new_end))
        elements.append(Move(payload, start, end, new_end))
    return PhysicalStream(SCHEMA, tuple(elements))
