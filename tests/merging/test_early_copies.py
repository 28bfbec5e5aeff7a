"""Logs whose writers let go early what is not settled, each shard in an order of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.algebra.filter import Filter
from anabranch.algebra.merge import Merge
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.elements import Element, Insert, Stable, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.runtime.sources.files.log_records import LogProperties
from tests.merging.test_weaker_copies import write
from tests.runtime.copies import SCHEMA

IN_ORDER = LogProperties(insert_only=True, keyed=True, order="start")
STRICT = LogProperties(insert_only=True, keyed=True, order="strict")


@pytest.mark.parametrize(("known", "case"), [(IN_ORDER, "r2"), (STRICT, "r0")])
def test_nothing_is_lost_that_comes_behind_a_later_start(
    tmp_path: Path, known: LogProperties, case: str
) -> None:
    early, held = Insert({"a": 1}, 5, 6), Insert({"a": 2}, 3, 40)
    batches: list[list[Element]] = [[early, Stable(2)], [held, Stable(50)]]
    for name in ("x", "y"):
        write(tmp_path / name, known, *batches)
    engine = ab.Engine()
    merged = ab.merge(*(engine.stream(str(tmp_path / name), name=name) for name in "xy")).node
    assert isinstance(merged, Merge)
    assert merged.chosen == case
    runner = LocalRunner(merged)
    rows = [batch_of(each, SCHEMA) for each in batches]
    found = [runner.step({"x": each, "y": each}) for each in rows]
    assert [len(each) for each in found] == [0, 2]
    wanted = LogicalStream.of_batches(rows)
    assert LogicalStream.of_batches(found).difference(wanted) == ""


def test_rows_that_come_as_they_are_do_not_wait() -> None:
    one, two = (
        Source(name=name, schema=SCHEMA, insert_only=True, keyed=True, order="start")
        for name in ("one", "two")
    )
    some = Filter(input=two, predicate=Expression.parse("a > 0", SCHEMA))
    runner = LocalRunner(Merge(inputs=(one, some), names=("one", "two")))
    rows = batch_of([Insert({"a": 1}, 5, 6), Stable(2)], SCHEMA)
    assert len(runner.step({"one": rows, "two": rows})) == 1
