"""Rows that are added up before they are sent: the same by compiled loops and by Arrow."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.combining import Combined, combine

LEAST, MOST = -(2**63), 2**63 - 1
keys = st.tuples(
    st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    st.sampled_from([0, 7]),
    st.sampled_from([LEAST, -1, 0, 3, MOST]),
    st.sampled_from([LEAST, 0, MOST]),
)


@given(st.lists(st.tuples(keys, st.integers(-(2**40), 2**40)), max_size=40), st.booleans())
def test_equal_keys_are_added_up_in_the_order_of_their_first_rows(
    rows: list[tuple[tuple[int, int, int, int], int]], checked: bool
) -> None:
    ids, checks = (np.array([key[at] for key, _ in rows], np.uint64) for at in (0, 1))
    end, new_end = (np.array([key[at] for key, _ in rows], np.int64) for at in (2, 3))
    lanes = {"v": np.array([value for _, value in rows], np.int64)}

    def found(compiled: bool) -> Combined:
        with patch.object(columns, "is_compiled", lambda _: compiled):
            return combine(ids, checks if checked else None, end, new_end, lanes)

    expected: dict[tuple[int, ...], list[int]] = {}
    for position, (key, _) in enumerate(rows):
        expected.setdefault(key if checked else (key[0], *key[2:]), []).append(position)
    for each in (found(True), found(False)):
        assert each.first.tolist() == [positions[0] for positions in expected.values()]
        assert each.counts.tolist() == [len(positions) for positions in expected.values()]
        sums = [sum(rows[at][1] for at in positions) for positions in expected.values()]
        assert each.sums["v"].tolist() == sums
