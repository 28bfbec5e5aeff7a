"""Events that are paired and move on both sides in one batch: each pair moves once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.source import Source
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.join import join as join_kernel
from anabranch.kernels.join import pairs
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.trace import runs
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.testing import assert_agrees

LEFT = Source(name="L", schema=pa.schema([("k", pa.int64()), ("v", pa.float64())]))
RIGHT = Source(name="R", schema=pa.schema([("j", pa.int64()), ("w", pa.int32())]))
SOURCES = (LEFT, RIGHT)
Event = tuple[int, int, int]
"""Key, value and start."""

Step = dict[str, EventBatch]


def join(kind: JoinKind = "inner", text: str = "k = j") -> Join:
    both = pa.schema([*LEFT.schema, *RIGHT.schema])
    predicate = Expression.parse(text, both)
    return Join(kind=kind, left=LEFT, right=RIGHT, predicate=predicate)


def batch(source: Source, moves: list[tuple[Event, int, int]]) -> EventBatch:
    """Moves of events from one end to another."""
    key, value, start = zip(*(event for event, _, _ in moves), strict=True) if moves else ((),) * 3
    kinds = source.schema.types
    arrays = [pa.array(key, pa.int64()).cast(kinds[0]), pa.array(value, pa.int64()).cast(kinds[1])]
    payload = pa.RecordBatch.from_arrays(arrays, schema=source.schema)
    end, new_end = (np.array([move[side] for move in moves], np.int64) for side in (1, 2))
    return EventBatch(payload, np.array(start, np.int64), end, new_end)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Batches of both sides in which most events move again and again, and some are alike."""
    lengths = st.integers(0, 5)
    alive: dict[str, list[tuple[Event, int]]] = {"L": [], "R": []}
    result = []
    for _ in range(draw(st.integers(1, 5))):
        step = {}
        for source in SOURCES:
            moves, left = [], []
            for event, end in alive[source.name]:
                new = event[2] + draw(lengths) if draw(st.booleans()) else end
                if new != end:
                    moves.append((event, end, new))
                if new > event[2]:
                    left.append((event, new))
            keys, values, starts = st.integers(0, 1), st.integers(0, 1), st.integers(0, 4)
            for event in draw(st.lists(st.tuples(keys, values, starts), max_size=4)):
                new = event[2] + 1 + draw(lengths)
                moves.append((event, event[2], new))
                left.append((event, new))
            alive[source.name] = left
            step[source.name] = batch(source, draw(st.permutations(moves)))
        result.append(step)
    return result


@pytest.fixture(params=["one run", "many runs"], autouse=True)
def eager_merges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many runs":
        monkeypatch.setattr(runs, "MERGE_ALL_UP_TO_ROWS", 0)


def rows_of(moved: EventBatch) -> list[tuple[Any, ...]]:
    times = (moved.start, moved.end, moved.new_end)
    columns = (*(column.to_pylist() for column in moved.payload.columns), *map(list, times))
    return sorted(zip(*columns, strict=True), key=repr)


def outputs(node: Join, came: list[Step], *, compiled: bool) -> Iterator[EventBatch]:
    runner = LocalRunner(node)
    for step in came:
        with patch.object(columns, "is_compiled", lambda rows: compiled and rows > 0):
            yield runner.step(step)


@pytest.mark.parametrize("kind", get_args(JoinKind))
@given(came=steps(), text=st.sampled_from(["k = j", "k = j AND v < w + 1", "w = v AND k = j"]))
def test_pairs_move_alike(kind: JoinKind, came: list[Step], text: str) -> None:
    """By compiled loops, which know such pairs by their events, and by numpy, which adds up."""
    node = join(kind, text)
    assert_agrees(node, batches=came)
    both = [outputs(node, came, compiled=by) for by in (False, True)]
    for plain, other in zip(*both, strict=True):
        assert rows_of(net(plain)) == rows_of(net(other))


CASES = {
    "an event comes, its partner gets shorter": ((5, 9), (8, 7), [(5, 5, 7)]),
    "an event comes, its partner gets longer": ((5, 9), (6, 12), [(5, 5, 9)]),
    "an event comes, its partner goes": ((5, 9), (8, 2), []),
    "both get shorter": ((9, 8), (9, 7), [(5, 9, 7)]),
    "one gets shorter, one longer": ((9, 7), (8, 9), [(5, 8, 7)]),
    "both get longer": ((6, 9), (7, 8), [(5, 6, 8)]),
    "one gets shorter, the other one goes": ((9, 7), (8, 2), [(5, 8, 5)]),
    "both go": ((9, 5), (8, 2), [(5, 8, 5)]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pair_moves_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Netting by hashes of payloads is not needed."""
    mine, theirs, wanted = CASES[name]
    one, other = (1, 1, 5), (1, 2, 2)
    there = [] if mine[0] == 5 else [(one, 5, mine[0])]
    before = {"L": batch(LEFT, there), "R": batch(RIGHT, [(other, 2, theirs[0])])}
    now = {"L": batch(LEFT, [(one, *mine)]), "R": batch(RIGHT, [(other, *theirs)])}

    def refused(*_: Any) -> None:
        raise AssertionError("pairs were compared")

    monkeypatch.setattr(join_kernel, "netted", refused)
    _, last = outputs(join(), [before, now], compiled=True)
    times = zip(last.start.tolist(), last.end.tolist(), last.new_end.tolist(), strict=True)
    assert list(times) == wanted


def test_partners_that_are_alike_are_told_by_their_payloads() -> None:
    one, others = (1, 1, 5), [(1, w, 2) for w in (1, 2)]
    before = {"L": batch(LEFT, []), "R": batch(RIGHT, [(other, 2, 8) for other in others])}
    now = {"L": batch(LEFT, [(one, 5, 9)]), "R": batch(RIGHT, [(others[1], 8, 7)])}
    _, last = outputs(join(), [before, now], compiled=True)
    assert rows_of(last) == [(1, 1.0, 1, 1, 5, 5, 8), (1, 1.0, 1, 2, 5, 5, 7)]


def test_pairs_without_corrections_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "linked_moves", None)
    came = [
        {"L": batch(LEFT, [((1, n, n), n, n + 3)]), "R": batch(RIGHT, [((1, n, n), n, n + 2)])}
        for n in range(4)
    ]
    for compiled in (False, True):
        assert sum(len(each) for each in outputs(join(), came, compiled=compiled)) == 12


@pytest.mark.parametrize("compiled", [False, True])
def test_a_withdrawal_of_another_payload_is_refused(compiled: bool) -> None:
    """Also where one event of the key has the same lifetime."""
    came = [
        {"L": batch(LEFT, []), "R": batch(RIGHT, [((1, 1, 2), 2, 8)])},
        {"L": batch(LEFT, []), "R": batch(RIGHT, [((1, 7, 2), 8, 2)])},
        {"L": batch(LEFT, [((1, 1, 5), 5, 9)]), "R": batch(RIGHT, [])},
    ]
    with pytest.raises(StreamError, match="never inserted"):
        list(outputs(join(), came, compiled=compiled))
