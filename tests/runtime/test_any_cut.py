"""However a stream is cut into batches, parts, pieces and shards, the answer is the same, bitwise.

All thresholds are 1, 2 or 3, so that a few rows cross each of them inside a batch and between
pieces, batches and shards.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SCHEMA, plans

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER
from anabranch.optimizer.driver import optimize
from anabranch.runtime.thresholds import thresholds
from anabranch.testing import (
    Element,
    KitStable,
    Move,
    PhysicalStream,
    assert_identical,
    meaning,
    sources_of,
)
from anabranch.testing.sql.cases import SqlCase, cases, plan_of

Make = Callable[..., Any]
EXAMPLES = max(40, settings.default.max_examples if settings.default else 0)
WAYS = 3
LARGE = 2**50


def stream_of(seed: int, source: Source) -> PhysicalStream:
    """A legal stream whose sums need more digits than a float has, and which ends."""
    chance = random.Random(seed)
    keys: list[str | None] = chance.choice([["a"], ["a", "b", None], [f"k{n}" for n in range(30)]])
    numbers: list[float | None] = [0.1, 0.2, 0.3, 1e16, -1e16, 1e-9, 1e308, -1e308]
    numbers += [float("inf"), float("nan"), None]
    span = chance.choice([3, 12])
    live: list[tuple[tuple[Any, ...], int, int]] = []
    elements: list[Element] = []
    stable = 0
    for _ in range(chance.randrange(30)):
        kind = chance.choice(["insert"] * 5 + ["stable", "adjust", "withdraw"])
        if source.only_points and kind == "adjust":
            kind = "withdraw"
        open_ = [each for each in live if (each[1] if kind == "withdraw" else each[2]) >= stable]
        if kind == "stable":
            stable += chance.randrange(4)
            elements.append(KitStable(stable))
        elif kind == "insert" or not open_ or source.insert_only:
            payload: tuple[Any, ...] = (
                chance.choice(keys),
                chance.choice([None, 0, 1, 2, 3, LARGE, -LARGE]),
                chance.choice(numbers[: chance.choice([3, 6, 8, 11])]),
            )
            start = stable + chance.randrange(span)
            end = start + 1 if source.only_points else start + 1 + chance.randrange(span)
            live.append((payload, start, end))
            elements.append(Move(payload, start, start, end))
        else:
            payload, start, end = event = chance.choice(open_)
            live.remove(event)
            new_end = start
            if kind == "adjust":
                new_end = max(stable, start + 1) + chance.randrange(span)
                live.append((payload, start, new_end))
            elements.append(Move(payload, start, end, new_end))
    return PhysicalStream(SCHEMA, (*elements, KitStable(FOREVER)))


def cut(chance: random.Random, stream: PhysicalStream) -> list[list[EventBatch]]:
    """Batches of parts; every part of a batch says how far the whole batch has come."""
    cuts = sorted(chance.randrange(len(stream.elements) + 1) for _ in range(chance.randrange(5)))
    found = []
    for batch in stream.batches(*cuts):
        part = np.array([chance.randrange(chance.choice([1, 4])) for _ in range(len(batch))], int)
        many = int(part.max(initial=0)) + 1
        found.append([batch.where(part == number) for number in range(many)])
    return found


def in_some_way(
    sharded: Make, node: Node, streams: Mapping[str, PhysicalStream], seed: int
) -> list[EventBatch]:
    chance = random.Random(seed)
    waiting = {name: cut(chance, stream) for name, stream in streams.items()}
    with thresholds(*(chance.randint(1, 3) for _ in range(7))):
        runner = sharded(
            node, shards=chance.randint(1, 4), seed=seed, pieces=chance.choice([1, 2, 5])
        )
        outputs = []
        while any(waiting.values()):
            ready = [name for name, left in waiting.items() if left]
            chosen = chance.sample(ready, chance.randint(1, len(ready)))
            outputs.append(runner.step({name: waiting[name].pop(0) for name in chosen}))
    assert outputs[-1].stable == FOREVER
    return outputs


def at_once(node: Node, streams: Mapping[str, PhysicalStream]) -> list[EventBatch]:
    """Everything in one batch, with the thresholds that the product has."""
    return [LocalRunner(node).step({name: s.batches()[0] for name, s in streams.items()})]


def check(sharded: Make, node: Node, seed: int) -> None:
    sources: Sequence[Source] = list(sources_of(node))
    streams = {each.name: stream_of(seed + n, each) for n, each in enumerate(sources)}
    expected = at_once(node, streams)
    said = {name: LogicalStream.of_batches(s.batches()) for name, s in streams.items()}
    difference = LogicalStream.of_batches(expected).agrees_with(meaning(node, said))
    assert difference is None
    for way in range(WAYS):
        assert_identical(expected, in_some_way(sharded, node, streams, seed * WAYS + way))


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    node=st.sampled_from(sorted(OPERATORS)).flatmap(OPERATORS.__getitem__),
    seed=st.integers(0, 2**32),
)
def test_an_operator_gives_the_same_however_its_input_is_cut(
    sharded: Make, node: Node, seed: int
) -> None:
    check(sharded, node, seed)


@settings(
    max_examples=EXAMPLES * 3 // 8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(node=plans(), seed=st.integers(0, 2**32))
def test_a_plan_gives_the_same_however_its_input_is_cut(
    sharded: Make, node: Node, seed: int
) -> None:
    check(sharded, node, seed)


@settings(max_examples=EXAMPLES * 3 // 10, suppress_health_check=list(HealthCheck))
@given(case=cases(), seed=st.integers(0, 2**32))
def test_a_drawn_query_gives_the_same_however_its_input_is_cut(
    sharded: Make, case: SqlCase, seed: int
) -> None:
    node = optimize(plan_of(case.script.text)).node
    streams = {each.name: case.streams[each.name] for each in sources_of(node)}
    expected = at_once(node, streams)
    for way in range(WAYS):
        assert_identical(expected, in_some_way(sharded, node, streams, seed * WAYS + way))
