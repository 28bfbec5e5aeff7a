from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.elements import Adjust, Element, Insert, Stable
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.runtime.sources.late import judge, reached
from anabranch.runtime.sources.spec import Promise

SCHEMA = pa.schema([("a", pa.int64())])


def came(*elements: Element) -> Arrivals:
    return Arrivals.of(elements, SCHEMA)


def moves(*elements: Element, late: Any, promised: int) -> list[tuple[int, int, int]]:
    promise = Promise(source="s", late=late)
    batch = judge(promise, Time(promised), came(*elements), where="f").batch
    return list(zip(batch.start.tolist(), batch.end.tolist(), batch.new_end.tolist()))


P = {"a": 1}


@pytest.mark.parametrize(
    ("element", "dropped", "adjusted"),
    [
        (Insert(P, 10, 20), [(10, 10, 20)], [(10, 10, 20)]),
        (Insert(P, 9, 20), [], [(10, 10, 20)]),
        (Insert(P, 3, 10), [], []),
        (Insert(P, 3), [], [(10, 10, FOREVER)]),
        (Adjust(P, 3, 10, 12), [(3, 10, 12)], [(3, 10, 12)]),
        (Adjust(P, 3, 12, 10), [(3, 12, 10)], [(3, 12, 10)]),
        (Adjust(P, 3, 9, 12), [], [(10, 10, 12)]),
        (Adjust(P, 3, 12, 9), [], [(3, 12, 10)]),
        (Adjust(P, 3, 12, 3), [], [(3, 12, 10)]),
        (Adjust(P, 3, 5, 8), [], []),
    ],
)
def test_a_row_is_late_when_it_changes_what_was_final(
    element: Element, dropped: object, adjusted: object
) -> None:
    assert moves(element, late="drop", promised=10) == dropped
    assert moves(element, late="adjust", promised=10) == adjusted
    if dropped:
        assert moves(element, late="fail", promised=10) == dropped
    else:
        with pytest.raises(StreamError, match="too late"):
            moves(element, late="fail", promised=10)


def test_promises_within_a_piece_count_for_the_rows_behind_them() -> None:
    piece: list[Element] = [Insert(P, 5, 9), Stable(8), Insert(P, 5, 9), Insert(P, 8, 9)]
    assert moves(*piece, late="drop", promised=0) == [(5, 5, 9), (8, 8, 9)]


@given(
    st.lists(
        st.one_of(
            st.builds(lambda s, n: Insert(P, s, s + n), st.integers(0, 9), st.integers(1, 9)),
            st.builds(Stable, st.integers(0, 9).map(Time)),
        ),
        max_size=9,
    ),
    st.integers(0, 9),
)
def test_a_row_is_late_by_the_stable_points_in_front_of_it(
    piece: list[Element], promised: int
) -> None:
    kept, bound = [], promised
    for element in piece:
        if isinstance(element, Stable):
            bound = max(bound, element.time)
        elif isinstance(element, Insert) and element.start >= bound:
            kept.append((element.start, element.start, element.end))
    assert moves(*piece, late="drop", promised=promised) == kept


def test_a_failure_says_which_row_broke_which_promise() -> None:
    promise = Promise(source="gps", late="fail", delay=Duration(5))
    with pytest.raises(StreamError) as raised:
        judge(promise, Time(10), came(Insert(P, 11, 12), Insert(P, 3, 7)), where="x.jsonl")
    assert raised.value.where == "source 'gps', x.jsonl, row 2: [3, 7), stable point 10"
    assert "raise its delay" in raised.value.hint


elements = st.one_of(
    st.builds(lambda s, n: Insert(P, s, s + n), st.integers(0, 20), st.integers(1, 9)),
    st.builds(
        lambda s, n, m: Adjust(P, s, s + n, s + m),
        st.integers(0, 20),
        st.integers(1, 9),
        st.integers(0, 9),
    ),
)


@given(st.lists(elements, max_size=8), st.integers(0, 25))
def test_adjusting_keeps_exactly_what_lies_after_the_promise(
    rows: list[Element], promised: int
) -> None:
    def effect(batch: Any) -> dict[int, int]:
        total: dict[int, int] = {}
        for end, new_end in zip(batch.end.tolist(), batch.new_end.tolist()):
            for time in range(min(end, new_end), max(end, new_end)):
                total[time] = total.get(time, 0) + (1 if end < new_end else -1)
        return {time: n for time, n in total.items() if n and time >= promised}

    promise = Promise(source="s", late="adjust")
    arrivals = came(*rows)
    judged = judge(promise, Time(promised), arrivals, where="f")
    assert effect(judged.batch) == effect(arrivals.batch)
    kept = judge(Promise(source="s", late="fail"), Time(promised), _again(judged.batch), where="f")
    assert len(kept.batch) == len(judged.batch)


def _again(batch: Any) -> Arrivals:
    return Arrivals(
        batch=batch,
        position=batch.start,
        is_adjust=batch.start != batch.end,
        stables=batch.start[:0],
        stable_positions=batch.start[:0],
    )


def test_progress_is_what_was_said_or_what_the_delay_implies() -> None:
    said = Promise(source="s")
    assert reached(said, came(Insert(P, 30, 31))) == BEGINNING
    assert reached(said, came(Stable(7), Stable(5))) == 7
    delayed = Promise(source="s", delay=Duration(10))
    assert reached(delayed, came(Insert(P, 30, 31), Insert(P, 12, 99))) == 20
    assert reached(delayed, came(Insert(P, 30, 31), Stable(25))) == 25
    assert reached(delayed, came()) == BEGINNING


def test_meaning_of_rows_in_time_is_untouched() -> None:
    batch = came(Insert(P, 1, 5), Adjust(P, 1, 5, 3)).batch
    judged = judge(Promise(source="s"), Time(1), _again(batch), where="f")
    assert LogicalStream.of_batches([judged.batch]) == LogicalStream.of([((1,), 1, 3)])
