"""Replay reads rows of the corrected keys only, and the answers are those over all rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration
from anabranch.runtime.query.options import ReplayChoice
from anabranch.runtime.revisions.choice import StrategyChoice
from anabranch.testing.strategies import streams
from tests.kernels.operators import OTHER
from tests.kernels.plans import SCHEMA, SOURCE, aggregate
from tests.revisions.histories import assert_revised, broken_promises

STRATEGIES: Final[list[ReplayChoice]] = ["auto", "RA", "RM", "RW"]


def sums(over: Node, size: int) -> Aggregation:
    return aggregate(TimeWindow(input=over, size=Duration(size)), ("k",), "s")


def with_others(left: Node, right: Node, predicate: str) -> Join:
    """A join whose right columns end in 2."""
    columns = tuple(
        (f"{name}2", Expression.parse(name, right.schema)) for name in right.schema.names
    )
    renamed = Map(input=right, columns=columns)
    both = pa.schema([*left.schema, *renamed.schema])
    return Join(kind="left", left=left, right=renamed, predicate=Expression.parse(predicate, both))


PLANS: Final[dict[str, Node]] = {
    "two windows of one stream joined by key": with_others(
        sums(SOURCE, 2), sums(SOURCE, 5), "k = k2 AND s < s2"
    ),
    "groups of two streams joined by key": with_others(sums(SOURCE, 3), sums(OTHER, 2), "k = k2"),
    "rows joined with all of another stream": with_others(SOURCE, sums(OTHER, 2), "v < s2"),
    "groups of a union": aggregate(Union(inputs=(SOURCE, OTHER)), ("k", "v"), "n"),
    "a group of some rows": aggregate(
        Filter(input=SOURCE, predicate=Expression.parse("v > 0", SCHEMA)), ("v",), "lo"
    ),
}


@pytest.mark.parametrize("name", PLANS)
@given(data=st.data())
def test_answers_are_those_over_all_rows(name: str, data: st.DataObject) -> None:
    stream = streams(SCHEMA, insert_only=data.draw(st.booleans()), longest=5)
    steps = data.draw(broken_promises(S=stream, T=stream))
    strategy: StrategyChoice = data.draw(st.sampled_from(STRATEGIES))
    assert_revised(PLANS[name], steps, strategy=strategy)


@pytest.mark.parametrize("replay", STRATEGIES)
def test_a_run_in_this_process_corrects_by_every_strategy(
    tmp_path: Path, replay: ReplayChoice
) -> None:
    on_time = [
        {"insert": {"k": k, "n": at}, "start": at, "end": at + 1} for at in range(40) for k in "ab"
    ]
    late = {"insert": {"k": "b", "n": 100}, "start": 12, "end": 13}
    source = tmp_path / "in"
    source.mkdir()
    for number, part in enumerate(([*on_time, {"stable": 40}], [late, {"stable": 50}])):
        lines = "".join(json.dumps(each) + "\n" for each in part)
        (source / f"{number}.jsonl").write_text(lines)
    engine = ab.Engine()
    stream = engine.stream(str(source / "*.jsonl"), name="S", late="revise")
    query = stream.window(10, slide=10).group_by("k").agg(s="sum(n)")
    run = query.run_local(replay=replay)
    assert run.snapshot(20).to_pylist() == [{"k": "a", "s": 145}, {"k": "b", "s": 245}]
    assert run.snapshot(30).to_pylist() == [{"k": "a", "s": 245}, {"k": "b", "s": 245}]
