"""Order statistics at many instants, compared with a list that is sorted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.columns.grouped import Ints
from anabranch.kernels.trace.coverage import Coverage

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(-3, 9),
        st.integers(0, 6),
        st.sampled_from([-(2**63), -5, 0, 1, 2, 3, 7, 2**63 - 1]),
        st.integers(1, 3),
    ),
    max_size=30,
)


def column(rows: list[tuple[int, ...]], place: int) -> Ints:
    return np.array([row[place] for row in rows], np.int64)


@given(
    EVENTS,
    st.lists(st.tuples(st.integers(0, 3), st.integers(-4, 16), st.integers(-6, 8)), max_size=12),
)
def test_counts_and_picks(
    events: list[tuple[int, ...]], questions: list[tuple[int, int, int]]
) -> None:
    owner, start, length, code, count = (column(events, place) for place in range(5))
    until = np.full(len(events), max((time for _, time, _ in questions), default=0))
    coverage = Coverage.of_events(owner, start, start + length, code, count, until)
    asked, times, limit = (column(list(questions), place) for place in range(3))
    spot = coverage.at(asked, times)
    alive = [
        sorted(
            value
            for key, begin, span, value, copies in events
            if key == whose and begin <= time < begin + span
            for _ in range(copies)
        )
        for whose, time, _ in questions
    ]
    assert coverage.total(spot).tolist() == [len(values) for values in alive]
    below, upto = coverage.below(spot, limit), coverage.below(spot, limit, or_equal=True)
    for number, (values, (_, _, most)) in enumerate(zip(alive, questions)):
        assert below[number] == sum(value < most for value in values)
        assert upto[number] == sum(value <= most for value in values)
    some = np.flatnonzero([len(values) > 0 for values in alive])
    for share in (0.0, 0.5, 1.0):
        index = np.array([int((len(alive[row]) - 1) * share) for row in some], np.int64)
        found, smaller, equal = coverage.pick(spot.take(some), index)
        for place, row in enumerate(some):
            value = alive[row][index[place]]
            assert found[place] == value
            assert smaller[place] == alive[row].index(value)
            assert equal[place] == alive[row].count(value)
