"""Shards of copies let go each in an order of its own, and their merge by order loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.merge.physical_copies import events_of, physical_copy, thrown_events

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.merge import Merge
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing.physical import PhysicalStream

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
EVENTS = 20


def swapped(node: Node) -> Map:
    """Its rows have another hash, so that they meet in another shard."""
    columns = tuple((name, Expression.parse(name, SCHEMA)) for name in ("v", "k"))
    return Map(input=node, columns=columns)


def batch(rows: list[tuple[int, int, int]], stable: int) -> EventBatch:
    payload = pa.RecordBatch.from_pydict(
        {"k": [k for k, _, _ in rows], "v": [0] * len(rows)}, schema=SCHEMA
    )
    start, end = (np.array([row[place] for row in rows], np.int64) for place in (1, 2))
    return EventBatch(payload, start, start, end, Time(stable))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("moved", [False, True])
def test_what_one_shard_lets_go_early_does_not_hide_what_another_holds(
    sharded: Callable[..., Any], moved: bool, seed: int
) -> None:
    def copy(name: str) -> Node:
        whole = Coalesce(input=Distinct(input=Source(name=name, schema=SCHEMA)))
        released = Cleanse(input=whole, cut=False)
        return swapped(released) if moved else released

    merge = Merge(inputs=(copy("a"), copy("b")), names=("a", "b"))
    assert merge.chosen == "r2"
    dice = Random(seed)
    rows = [(at, at, at + dice.choice([1, 2, 30])) for at in range(EVENTS)]
    given = [batch(rows, 25), batch([], 40), batch([], int(FOREVER))]
    runner = sharded(merge, shards=4, seed=seed)
    found = [runner.step({"a": [each], "b": [each]}) for each in given]
    wanted = LogicalStream.of_batches(given)
    wanted = swapped(Source(name="a", schema=SCHEMA)).denote(wanted) if moved else wanted
    assert LogicalStream.of_batches(found).difference(wanted) == ""
    assert sum(map(len, found)) == EVENTS


FORMS: dict[str, Callable[[Node], Node]] = {
    "as its source says": lambda node: Cleanse(input=node, cut=False),
    "the longest lifetimes": lambda node: Cleanse(input=Coalesce(input=node), cut=False),
    "moved to other shards": lambda node: swapped(Cleanse(input=Coalesce(input=node), cut=False)),
    "fewer columns": lambda node: Map(
        input=Cleanse(input=node, cut=False), columns=(("k", Expression.parse("k", SCHEMA)),)
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_ties_and_equal_events_pass_once(sharded: Callable[..., Any], form: str, seed: int) -> None:
    """As r1, chosen by itself: after every batch what is settled is what every copy means."""
    dice = Random(f"{form} {seed}")
    events = thrown_events(dice, 24)
    names = ["a", "b", "c"][: dice.choice([2, 3])]
    copies = {name: FORMS[form](Source(name=name, schema=SCHEMA)) for name in names}
    merge = Merge(inputs=tuple(copies.values()), names=tuple(names))
    assert merge.chosen == "r1"
    assert not merge.is_asserted
    runner = sharded(merge, shards=dice.choice([1, 2, 4]), seed=seed)
    left = {
        name: PhysicalStream(SCHEMA, tuple(elements)).batches(
            *sorted(dice.randrange(len(elements)) for _ in range(dice.choice([1, 4, 9])))
        )
        for name in names
        for elements in [physical_copy(events, dice)]
    }
    # Only the last map changes what is said.
    meant = copies["a"].denote(LogicalStream.of(events))
    told: list[EventBatch] = []
    reached = int(BEGINNING)
    while any(left.values()):
        # One copy may be far behind the others, and is not waited for.
        name = dice.choice([each for each in names if left[each]])
        told.append(runner.step({name: [left[name].pop(0)]}))
        assert (told[-1].start >= reached).all()
        reached = int(told[-1].stable)
        so_far = LogicalStream.of_batches(told)
        assert so_far.difference(meant, before=told[-1].stable) == ""
    alone = LocalRunner(copies["a"])
    (only,) = PhysicalStream(SCHEMA, tuple(physical_copy(events, dice))).batches()
    assert events_of(told) == events_of([alone.step({"a": only})])
