"""From which input answers came is kept as one stretch per source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.analysis.spans import Span, hull
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.expressions.expression import Expression
from anabranch.model.batch import EventBatch
from anabranch.model.lifetimes import lifetimes_of
from anabranch.model.time import Duration, Time
from anabranch.runtime.revisions.lineage import (
    FILES_PER_LEVEL,
    LineageFolder,
    LineageInMemory,
    input_of,
    lineage_rows,
)
from anabranch.runtime.store.folder import Folder
from anabranch.testing.physical import PhysicalStream
from anabranch.testing.strategies import streams
from tests.kernels.operators import BOTH, RENAMED
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

LATEST: Node = aggregate(
    TimeWindow(input=SOURCE, size=Duration(10), slide=Duration(10)), ("k",), "s"
)
JOINED: Node = Join(
    kind="inner",
    left=TimeWindow(input=SOURCE, size=Duration(5)),
    right=RENAMED,
    predicate=Expression.parse("k = k2", BOTH),
)

spans = st.tuples(st.integers(0, 40), st.integers(1, 10)).map(
    lambda drawn: (Time(drawn[0]), Time(sum(drawn)))
)


def span(first: int, last: int) -> Span:
    return Time(first), Time(last)


def test_answers_of_a_window_come_from_what_is_in_it() -> None:
    rows = lineage_rows([LATEST], [[(19, 29), (29, 39)]])
    assert len(rows) == 2
    assert input_of(rows, "S", span(12, 13)) == {"S": (10, 20)}
    assert input_of(rows, "S", span(12, 23)) == {"S": (10, 30)}
    assert input_of(rows, "S", span(50, 60)) == {}


def test_a_join_comes_from_both_sides() -> None:
    rows = lineage_rows([JOINED], [[(20, 22)]])
    assert input_of(rows, "T", span(21, 22)) == {"S": (16, 22), "T": (20, 22)}
    assert input_of(rows, "S", span(16, 17)) == {"S": (16, 22), "T": (20, 22)}


def test_answers_with_one_lifetime_are_noted_once() -> None:
    assert len(lineage_rows([LATEST], [[(19, 29)] * 1000])) == 1


@given(streams(SCHEMA), st.integers(1, 5))
def test_lifetimes_of_a_batch_are_covered_however_few_are_told(
    stream: PhysicalStream, most: int
) -> None:
    batch = EventBatch.concat([EventBatch.empty(SCHEMA), *stream.batches()])
    told = lifetimes_of(batch, most)
    assert len(told) <= most
    assert list(told) == sorted(told)
    ends = np.maximum(batch.end, batch.new_end)
    for start, end in zip(batch.start.tolist(), ends.tolist(), strict=True):
        assert any(first <= start and end <= last for first, last in told)


@pytest.mark.parametrize("again", [False, True])
def test_files_are_merged_and_say_the_same(tmp_path: Path, *, again: bool) -> None:
    kept = LineageFolder(Folder.at(str(tmp_path)), (LATEST,))
    in_memory = LineageInMemory([LATEST])
    batches = FILES_PER_LEVEL**2 + 3
    for batch in range(batches):
        lifetimes = [[(10 * batch + 9, 10 * batch + 19)]]
        kept.add(batch, lifetimes)
        if again:
            kept.add(batch, lifetimes)
        in_memory.add(lifetimes)
    assert len(kept.folder.names()) < 2 * FILES_PER_LEVEL
    for first in range(0, 10 * batches, 37):
        wanted = in_memory.covering("S", span(first, first + 15))
        assert wanted
        assert kept.covering("S", span(first, first + 15)) == wanted


def test_a_merge_that_was_interrupted_counts_once(tmp_path: Path) -> None:
    folder = Folder.at(str(tmp_path))
    kept = LineageFolder(folder, (LATEST,))
    for batch in range(FILES_PER_LEVEL):
        kept.add(batch, [[(10 * batch + 9, 10 * batch + 19)]])
    old = {name: folder.read(name) for name in folder.names()}
    kept.add(FILES_PER_LEVEL, [[(999, 1009)]])
    for name, content in old.items():
        assert content is not None
        folder.write(name, content)
    assert kept.covering("S", span(0, 40)) == {"S": (0, 40)}


def test_what_is_no_longer_archived_is_forgotten(tmp_path: Path) -> None:
    kept = LineageFolder(Folder.at(str(tmp_path)), (LATEST,))
    for batch in range(4):
        kept.add(batch, [[(10 * batch + 9, 10 * batch + 19)]])
    kept.cut({"S": Time(20)})
    assert len(kept.folder.names()) == 2
    assert kept.covering("S", span(0, 40)) == {"S": (20, 40)}


@given(st.lists(spans, max_size=20), spans)
def test_all_answers_that_come_from_a_span_are_found(answers: list[Span], over: Span) -> None:
    rows = lineage_rows([JOINED], [answers])
    single = [lineage_rows([JOINED], [[one]]) for one in answers]
    for name in ("S", "T"):
        found = [input_of(one, "S", over).get(name) for one in single]
        there = [each for each in found if each is not None]
        assert input_of(rows, "S", over).get(name) == (hull(there) if there else None)
