"""Runs of timelines: however they are merged and trimmed, they mean the same from then on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.contract.column_names import ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.runs import with_times
from anabranch.kernels.trace.timeline import Lanes
from anabranch.kernels.trace.timeline_rows import COUNT, REMOVED, fetch, live_rows, merger, trimmer
from anabranch.model.time import FOREVER, Time

SCHEMA = Lanes().schema()
Rows = dict[tuple[int, int], int]
"""Counts by key and time."""


def run_of(rows: Rows) -> SortedRun:
    keys = sorted(rows)
    arrays = [
        pa.array([key for key, _ in keys], pa.uint64()),
        pa.array([time for _, time in keys], pa.int64()),
        pa.array([rows[key] for key in keys], pa.int64()),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return SortedRun(with_times(batch, batch.column(TIME).to_numpy()))


def rows_of(batch: pa.RecordBatch) -> Rows:
    ids, times, counts = (batch.column(name).to_pylist() for name in (ID, TIME, COUNT))
    return {(key, time): count for key, time, count in zip(ids, times, counts, strict=True)}


def standing(runs: list[SortedRun]) -> Rows:
    """What all runs together say: the newest row of a key and time counts."""
    every: Rows = {}
    for run in runs:
        every |= rows_of(run.rows)
    return {key: count for key, count in every.items() if count != REMOVED}


def meaning(runs: list[SortedRun], stable: int) -> dict[int, list[tuple[int, int]]]:
    """Per key what holds at the stable point, since when, and what follows."""
    found: dict[int, list[tuple[int, int]]] = {}
    for (key, time), count in sorted(standing(runs).items()):
        of_key = found.setdefault(key, [])
        if time < stable:
            of_key.clear()
        if count or of_key:
            of_key.append((time, count))
    return {key: rows for key, rows in found.items() if rows}


# Few keys, one of them the largest there is; few instants, so that rows meet.
ROWS = st.dictionaries(
    st.tuples(st.sampled_from([0, 3, 2**63, 2**64 - 1]), st.integers(0, 9)),
    st.sampled_from([REMOVED, 0, 0, 1, 2]),
    min_size=1,
    max_size=12,
)
RUNS = st.lists(ROWS.map(run_of), min_size=1, max_size=4)


@given(RUNS, st.integers(0, 10))
def test_a_run_that_is_trimmed_means_the_same_from_the_stable_point_on(
    runs: list[SortedRun], stable: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "COMPILE_FROM_ROWS", 0)
        kept = list(runs)
        for place in range(len(runs)):
            kept[place] = SortedRun(trimmer(Time(stable))(kept, place))
    assert meaning(kept, stable) == meaning(runs, stable)


@given(st.dictionaries(st.integers(0, 5), st.integers(0, 4), min_size=1))
def test_what_is_over_is_trimmed_away(ends: dict[int, int]) -> None:
    rows = {(key, time): int(time < end) for key, end in ends.items() for time in range(end + 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "COMPILE_FROM_ROWS", 0)
        rest = trimmer(Time(5))([run_of(rows)], 0)
        assert rest.num_rows == 0
        # Of what lasts, one row tells since when.
        lasting = {(key, time): count + 1 for (key, time), count in rows.items()}
        rest = trimmer(Time(5))([run_of(lasting)], 0)
        assert rows_of(rest) == dict.fromkeys(ends.items(), 1)


@given(RUNS, st.integers(0, 10), st.integers(0, 3))
def test_runs_that_are_merged_mean_the_same_from_the_stable_point_on(
    runs: list[SortedRun], stable: int, keep: int
) -> None:
    keep = min(keep, len(runs) - 1)
    results = []
    for many in (0, 20_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "COMPILE_FROM_ROWS", many)
            merged = merger(Time(stable))(runs[keep:], keep == 0)
        results.append(rows_of(merged))
        assert meaning([*runs[:keep], SortedRun(merged)], stable) == meaning(runs, stable)
    assert results[0] == results[1]


@given(RUNS, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=3))
def test_an_island_is_fetched_with_its_nearest_neighbours(
    runs: list[SortedRun], stretches: list[tuple[int, int]]
) -> None:
    islands: list[tuple[int, int, int]] = []
    for key in (0, 3, 2**63, 2**64 - 1):
        free = -1
        for first, length in sorted(stretches):
            if first > free:
                free = first + length if length < 4 else int(FOREVER)
                islands.append((key, first, free))
    ids = np.array([key for key, _, _ in islands], np.uint64)
    low, high = (np.array([part[place] for part in islands], np.int64) for place in (1, 2))
    rows = standing(runs)
    expected: dict[tuple[int, int], tuple[int, bool, bool]] = {}
    for key, first, last in islands:
        times = sorted(time for of, time in rows if of == key)
        before = [time for time in times if time < first][-1:]
        after = [time for time in times if time > last][:1]
        for time in [*before, *(t for t in times if first <= t <= last), *after]:
            _, was_before, was_inside = expected.get((key, time), (0, False, False))
            expected[key, time] = (
                rows[key, time],
                was_before or time in before,
                was_inside or first <= time <= last,
            )
    for many in (0, 20_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "COMPILE_FROM_ROWS", many)
            found, is_before, is_inside = fetch(runs, SCHEMA, ids, low, high)
        got = [
            ((key, time), (count, bool(was), bool(inside)))
            for ((key, time), count), was, inside in zip(
                rows_of(found).items(), is_before, is_inside, strict=True
            )
        ]
        assert got == sorted(expected.items())


@given(RUNS)
def test_rows_that_stand_are_counted(runs: list[SortedRun]) -> None:
    assert live_rows(runs) == len(standing(runs))
