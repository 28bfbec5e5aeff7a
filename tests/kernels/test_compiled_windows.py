"""Compiled loops over times say what the plain ones say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.kernels.columns import compiled_windows
from anabranch.kernels.columns.compiled_groups import group_rows
from anabranch.model.time import BEGINNING, FOREVER, add_saturating

TIMES = st.one_of(
    st.integers(-30, 30),
    st.integers(int(BEGINNING), int(BEGINNING) + 30),
    st.integers(int(FOREVER) - 30, int(FOREVER)),
)


def slide_up(times: np.ndarray, slide: int) -> np.ndarray:
    return add_saturating(times, (slide - 1) - np.mod(times, np.int64(slide)))


@given(
    st.lists(TIMES, max_size=12),
    st.one_of(st.integers(1, 25), st.just(int(FOREVER)), st.just(int(FOREVER) - 3)),
    st.integers(2, 12),
)
@example([int(BEGINNING), int(BEGINNING) + 1, int(FOREVER) - 1], 10, 5)
def test_points_are_held_between_slide_instants(times: list[int], size: int, slide: int) -> None:
    start = np.array(times, np.int64)
    begin, end, shown = compiled_windows.held_points(start, np.int64(size), np.int64(slide))
    last = np.full(len(start), np.int64(FOREVER))
    if size != FOREVER:
        last = add_saturating(start, size)
    wanted = slide_up(start, slide), slide_up(last, slide)
    assert (begin.tolist(), end.tolist()) == (wanted[0].tolist(), wanted[1].tolist())
    assert shown == bool(((begin < FOREVER) & (begin != end)).all())


@given(
    st.lists(st.tuples(TIMES, TIMES), max_size=12),
    TIMES,
    st.one_of(st.integers(0, 12), st.just(int(FOREVER))),
)
def test_one_pass_tells_whether_a_row_is_late(
    rows: list[tuple[int, int]], promised: int, delay: int
) -> None:
    start = np.array([row[0] for row in rows], np.int64)
    smaller = np.array([row[1] for row in rows], np.int64)
    latest, late = int(BEGINNING) + delay, False
    for first, least in rows:
        late |= least < max(promised, latest - delay)
        latest = max(latest, first)
    assert compiled_windows.any_late(start, smaller, promised, delay) == late


@pytest.mark.parametrize("groups", [1, 511, 512, 513, 3_000, 9_000])
def test_groups_are_those_of_their_keys_however_the_table_grows(groups: int) -> None:
    random = np.random.default_rng(groups)
    number = random.integers(0, groups, 10_000)
    keys = random.integers(0, 2**63, groups).astype(np.uint64)[number]
    end = (number % 7).astype(np.int64)
    group, first = group_rows(keys, keys, end, end + 1)
    _, wanted, of_row = np.unique(number, return_index=True, return_inverse=True)
    in_order = np.argsort(np.argsort(wanted))
    assert group.tolist() == in_order[of_row].tolist()
    assert first.tolist() == sorted(wanted.tolist())


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))),
    st.one_of(st.integers(1, 5), st.just(int(FOREVER))),
)
def test_ends_in_a_window_of_rows_move_as_the_plain_columns_say(
    drawn: list[tuple[int, int, int, int]], size: int
) -> None:
    rows = sorted({(chunk, time): (old, new) for chunk, time, old, new in drawn}.items())
    moved = []
    for (chunk_of, time), counts_of in rows:
        ends = []
        for kind in (0, 1):
            copies = [t for (c, t), n in rows if c == chunk_of for _ in range(min(n[kind], size))]
            first = copies.index(time) if time in copies else 0
            later = range(first + size, first + size + min(counts_of[kind], size))
            ends.append([copies[at] if at < len(copies) else int(FOREVER) for at in later])
        for copy in range(max(map(len, ends))):
            was, now = (each[copy] if copy < len(each) else time for each in ends)
            if was != now:
                moved.append((chunk_of, time, was, now))
    columns = [np.array(column, np.int64) for column in zip(*((c, t) for (c, t), _ in rows))]
    chunk, times = columns or (np.zeros(0, np.int64), np.zeros(0, np.int64))
    old, new = (np.array([n[kind] for _, n in rows], np.int64) for kind in (0, 1))
    found = compiled_windows.moved_ends(times, old, new, chunk, np.int64(size))
    element = found[0]
    got = zip(chunk[element], *(column for column in found[1:]), strict=True)
    assert [tuple(map(int, each)) for each in got] == moved
