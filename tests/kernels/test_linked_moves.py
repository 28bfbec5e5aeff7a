"""Moves that are added up: the same by compiled loops and by numpy, and as netting has it."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.compiled_matches import linked
from anabranch.kernels.columns.hash_filter import HashFilter, linked_moves
from anabranch.kernels.contract.column_names import CLASS, END, ID, JOIN_ROW_CHECK, ROW, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.join.interval_trace import interval_merger, interval_rows, overlapping
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.netting import net_moves
from anabranch.model.time import BEGINNING, Time

MOVES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 6), st.integers(0, 6)),
    max_size=30,
)
Move = tuple[int, int, int, int]


def columns_of(moves: list[Move]) -> tuple[np.ndarray, ...]:
    payload, start, end, new_end = np.array(moves, np.int64).reshape(-1, 4).T.copy()
    hashes = payload.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return hashes, start, start + end, start + new_end


@given(MOVES)
def test_no_linked_move_is_left_out(moves: list[Move]) -> None:
    payload, start, end, new_end = columns_of(moves)
    for compiled in (False, True):
        with patch.object(columns, "is_compiled", lambda rows, by=compiled: by and rows > 0):
            found = linked_moves(payload, start, end, new_end)
        assert found.tolist() == sorted(set(found.tolist()))
        events = list(zip(payload.tolist(), start.tolist(), strict=True))
        left = {(*event, e) for event, s, e in zip(events, start, end, strict=True) if e != s}
        reached = {(*event, e) for event, e in zip(events, new_end, strict=True)}
        for row, event in enumerate(events):
            leaves = end[row] != start[row] and (*event, end[row]) in reached
            reaches = (*event, new_end[row]) in left
            assert row in found or not (leaves or reaches)


@given(MOVES)
@example([(0, 5, 0, 3), (0, 5, 3, 2), (0, 5, 0, 4)])
def test_linked_moves_stay_within_their_array(moves: list[Move]) -> None:
    """As plain Python the loop raises where compiled code would write behind the end."""
    payload, start, end, new_end = columns_of(moves)
    found = columns.native().linked(payload, start, end, new_end)
    compiled: Any = linked
    assert compiled.py_func(payload, start, end, new_end).tolist() == found.tolist()


@given(MOVES)
def test_moves_are_added_up_alike(moves: list[Move]) -> None:
    payload, start, end, new_end = columns_of(moves)
    if not moves:
        return
    rows, old, new = net_moves(start, end, new_end, (payload, payload))
    group, first = columns.native().group_rows(payload, payload, start, start)
    others = columns.native().net_groups(group, len(first), start, end, new_end)
    is_single = np.bincount(group)[group] == 1

    def told(rows: np.ndarray, old: np.ndarray, new: np.ndarray) -> Counter[tuple[int, ...]]:
        columns = (payload[rows], start[rows], old, new)
        # A move that is alone stays as it is, also where it changes nothing.
        kept = ~is_single[rows] | (old != new)
        return Counter(zip(*(column[kept].tolist() for column in columns), strict=True))

    assert told(rows, old, new) == told(*others)
    assert len(set(rows.tolist())) == len(rows)


@given(st.lists(MOVES, min_size=1, max_size=4), st.integers(0, 1 << 62), st.booleans())
def test_a_merge_cancels_alike(runs: list[list[Move]], stable: int, hashed: bool) -> None:
    def merged() -> Counter[tuple[int, ...]]:
        parts = []
        for moves in runs:
            payload, start, end, new_end = columns_of(moves)
            row, check = pa.array(payload), pa.array(payload + np.uint64(1))
            values = [(ROW, row), (JOIN_ROW_CHECK, check)] if hashed else []
            ids = payload if not hashed else payload % np.uint64(2)
            parts.append(SortedRun(interval_rows(ids, start, end, new_end, values)))
        rows = interval_merger(Time(stable % 8))(parts, True)
        names = (ID, TIME, END, *([ROW] if hashed else []))
        total: Counter[tuple[int, ...]] = Counter()
        keys = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
        for key, count in zip(keys, rows.column(COUNT).to_pylist(), strict=True):
            assert count != 0
            total[key] += count
        return total

    wanted = None
    for compiled in (False, True):
        with patch.object(columns, "is_compiled", lambda rows, by=compiled: by and rows > 0):
            found = merged()
        wanted = found if wanted is None else wanted
        assert found == wanted


@given(
    st.lists(MOVES, min_size=1, max_size=4),
    MOVES,
    st.lists(st.booleans(), min_size=4),
    st.sampled_from([pa.array([""], pa.string()), pa.array([-0.0]), pa.array([None], pa.int8())]),
)
def test_lookups_net_alike(
    runs: list[list[Move]], probes: list[Move], hashed: list[bool], second: pa.Array
) -> None:
    """Also where some runs are of a version that stored hashes of payloads."""
    there = [(payload, start, 0, end) for moves in runs for payload, start, end, _ in moves]
    parts = []
    for moves, has_hashes in zip([there, *runs], [True, *hashed], strict=False):
        payload, start, end, new_end = columns_of(moves)
        ids = payload % np.uint64(2)
        values = [("key0", pa.array(payload)), ("key1", second.take(pa.array(ids * 0)))]
        if has_hashes:
            values = [(ROW, pa.array(payload)), (JOIN_ROW_CHECK, pa.array(payload)), *values]
        parts.append(SortedRun(interval_rows(ids, start, end, new_end, values)))
    wanted_ids, low, _, high = columns_of(sorted((*probe,) for probe in probes))
    ids = np.sort(wanted_ids % np.uint64(2))

    def found(held: list[SortedRun]) -> Counter[tuple[int, ...]]:
        total: Counter[tuple[int, ...]] = Counter()
        for some in overlapping(held, ids, low, np.maximum(high, low)):
            each = some.each()
            payload = each.rows.numbers("key0")
            rows = (each.owner, each.start, each.end, payload)
            total.update(zip(*(column.tolist() for column in rows), strict=True))
        return total

    every = []
    for compiled in (False, True):
        with patch.object(columns, "is_compiled", lambda rows, by=compiled: by and rows > 0):
            every.append(found(parts))
            merged = interval_merger(BEGINNING)(parts, True)
            every.append(found([SortedRun(merged)]))
    assert every[0] == every[2]
    assert every[1] == every[3]


@given(
    st.lists(
        st.tuples(st.integers(-(1 << 63), (1 << 63) - 2), st.integers(0, (1 << 63) - 1)),
        max_size=20,
    )
)
def test_lifetimes_have_one_class(times: list[tuple[int, int]]) -> None:
    start = np.array([each for each, _ in times], np.int64)
    later = [min(begin + length + 1, (1 << 63) - 1) for begin, length in times]
    end, ids = np.array(later, np.int64), np.zeros(len(times), np.uint64)
    classes = []
    for compiled in (False, True):
        with patch.object(columns, "is_compiled", lambda rows, by=compiled: by and rows > 0):
            rows = interval_rows(ids, start, start, end, [])
        classes.append([rows.column(name).to_pylist() for name in (CLASS, TIME)])
    assert classes[0] == classes[1]


def test_few_hashes_are_claimed_that_are_not_there() -> None:
    random = np.random.default_rng(3)
    hashes, others = random.integers(0, 1 << 64, (2, 10_000), np.uint64)
    some = HashFilter.of(hashes)
    assert some.may_have(hashes).all()
    assert some.may_have(others).mean() < 0.1
    assert not HashFilter.of(hashes[:0]).may_have(hashes).any()
