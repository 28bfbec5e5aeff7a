"""Compiled loops of order statistics, compared with sorted lists; and when they are loaded."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.codes import code_of
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace import ranked_events
from anabranch.kernels.trace.ranked_events import Asked, ranked_rows, walk

EVENTS = st.lists(
    st.tuples(
        st.sampled_from([3, 2**63, 2**64 - 1]),
        st.sampled_from([-(2**63), -1, 0, 1, 2, 5, 2**63 - 2]),
        st.integers(0, 5),
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=40,
)


def runs_of(events: list[tuple[int, int, int, int]], parts: int) -> list[SortedRun]:
    """Events in several runs; the last one takes an event back and puts it in again."""
    found = []
    for number in range(parts):
        keys, codes, begins, lengths = zip(*(events[number::parts] or events[:1]))
        ids, start, length = np.array(keys, np.uint64), np.array(begins), np.array(lengths)
        rows = ranked_rows(ids, pa.array(codes, pa.int64()), start, start, start + length)
        found.append(SortedRun(rows))
    key, code, begin, lasts = events[0]
    at, end = np.array([begin] * 2), np.array([begin, begin + lasts])
    moves = (end[::-1].copy(), end)
    back = ranked_rows(np.array([key] * 2, np.uint64), pa.array([code] * 2, pa.int64()), at, *moves)
    return [*found, SortedRun(back)]


@pytest.mark.parametrize("steps", [None, 1, 3, 64])
@given(EVENTS, st.integers(1, 9), st.data())
def test_a_walk_finds_what_a_sorted_list_has(
    steps: int | None, events: list[tuple[int, int, int, int]], parts: int, data: st.DataObject
) -> None:
    runs = runs_of(events, parts)
    told = [event for number in range(parts) for event in events[number::parts] or events[:1]]
    questions = []
    for key in sorted({key for key, _, _, _ in events}):
        for time in range(0, 11, 2):
            alive = sorted(c for k, c, s, n in told if k == key and s <= time < s + n)
            for index in range(len(alive)):
                cut = data.draw(st.sampled_from([*alive, -(2**63), 2**63 - 1]))
                smaller, answer = sum(code < cut for code in alive), alive[index]
                below, upto = sum(c < answer for c in alive), sum(c <= answer for c in alive)
                asked = (key, time, index, cut, smaller, index >= smaller)
                questions.append((*asked, answer, below, upto))
    if not questions:
        return
    keys, *rest = zip(*questions)
    times, places, cuts, base, up, *expected = map(np.array, rest)
    with pytest.MonkeyPatch.context() as patch:
        if steps is None:
            patch.setattr(columns, "_is_loaded", lambda: False)
        else:
            patch.setattr(columns, "COMPILE_FROM_ROWS", 0)
            patch.setattr(ranked_events, "STEP_ROWS", steps)
        found = walk(runs, Asked(np.array(keys, np.uint64), times, places, cuts, base, up))
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


LOADING = """
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.families import LoopFamily

family = LoopFamily("compiled_statistics")
many = columns.COMPILE_FROM_ROWS
assert family.loops(100) is None and family.loops(many - 1) is None  # no shared loops yet
columns.native()
assert family.loops(many // 2) is None  # not earned yet
assert family.loops(many // 2) is not None and family.loops(1) is not None
beside = LoopFamily("compiled_top")
columns.load_beside()
assert beside.loops(many) is None  # nobody waits for them
beside._beside.join()
assert beside.loops(1) is not None
print("loaded")
"""


def test_a_family_of_loops_is_loaded_when_its_rows_have_earned_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("loaded\n", "")


def test_numbers_of_decimals_are_side_by_side_as_compiled_loops_want_them() -> None:
    values = pa.array([Decimal("1.25"), None, Decimal("-3.50")], pa.decimal128(12, 2))
    for some in (values, values.slice(2)):
        codes = code_of(some, some.type)
        assert codes.flags.c_contiguous
        assert codes.flags.writeable
    assert code_of(values, values.type).tolist() == [125, 0, -350]
