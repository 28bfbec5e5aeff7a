"""Shards of copies let go each in an order of its own, and their merge by order loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.merge import Merge
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Time

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
