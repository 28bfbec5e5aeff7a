"""Values without codes: found in sorted runs, walked from, and merged."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.value_order import codes_of, merge_values
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace import ranked_events, ranked_values
from anabranch.kernels.trace.ranked_events import Asked, ranked_rows
from anabranch.kernels.trace.ranked_values import search_values, walk_values

LONG = "x" * 20
TEXTS = ["", "\0", "a", "a\0", "ab", "b", LONG, LONG + "a", LONG + "b", "é", "中"]
WAYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "texts": (pa.string(), TEXTS),
    "long texts": (pa.large_string(), TEXTS),
    "bytes": (pa.binary(), [text.encode() for text in TEXTS]),
    "decimals": (pa.decimal128(38, 0), [Decimal(n) * 10**30 for n in (-3, -1, 0, 1, 2, 5, 7)]),
}


def in_bytes(value: Any) -> Any:
    """Texts are in the order of their bytes."""
    return value.encode() if isinstance(value, str) else value


@given(st.data(), st.sampled_from([*WAYS]))
def test_a_search_finds_the_same_as_a_sorted_list(data: st.DataObject, way: str) -> None:
    kind, pool = WAYS[way]
    some = sorted(data.draw(st.lists(st.sampled_from(pool))), key=in_bytes)
    asked = data.draw(st.lists(st.tuples(st.sampled_from(pool), st.booleans()), min_size=1))
    wanted, after = zip(*asked)
    keys = [in_bytes(value) for value in some]
    count = len(asked)
    found = search_values(
        pa.array(some, kind),
        np.zeros(count, np.int64),
        np.full(count, len(some)),
        pa.array(wanted, kind),
        np.array(after),
    )
    expected = [
        sum(key < in_bytes(value) or (past and key == in_bytes(value)) for key in keys)
        for value, past in asked
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("compiled", [False, True])
@given(st.data(), st.sampled_from([*WAYS]))
def test_parts_are_merged_by_id_and_value(compiled: bool, data: st.DataObject, way: str) -> None:
    kind, pool = WAYS[way]
    row = st.tuples(st.sampled_from([3, 2**63, 2**64 - 1]), st.sampled_from(pool))

    def key(row: tuple[int, Any]) -> tuple[int, Any]:
        return row[0], in_bytes(row[1])

    parts = data.draw(st.lists(st.lists(row).map(lambda rows: sorted(rows, key=key)), min_size=1))
    every = [row for part in parts for row in part]
    ids = [np.array([own for own, _ in part], np.uint64) for part in parts]
    values = pa.array([None, *(value for _, value in every)], kind).slice(1)
    with pytest.MonkeyPatch.context() as patch:
        if compiled:
            patch.setattr(columns, "COMPILE_FROM_ROWS", 0)
        else:
            patch.setattr(columns, "_is_loaded", lambda: False)
        order, first = merge_values(ids, values)
    assert order.tolist() == sorted(range(len(every)), key=lambda row: key(every[row]))
    in_order = [every[row] for row in order]
    assert first.tolist() == [not n or in_order[n - 1] != row for n, row in enumerate(in_order)]


@pytest.mark.parametrize("steps", [None, 1, 64])
@pytest.mark.parametrize("width", [1, 8])
@given(st.data(), st.sampled_from([*WAYS]), st.integers(1, 9))
def test_a_walk_finds_what_a_sorted_list_has(
    steps: int | None, width: int, data: st.DataObject, way: str, parts: int
) -> None:
    kind, pool = WAYS[way]
    event = st.tuples(
        st.sampled_from([3, 2**64 - 1]), st.sampled_from(pool), st.integers(0, 5), st.integers(1, 6)
    )
    events = data.draw(st.lists(event, min_size=1, max_size=40))
    runs, questions = [], []
    for number in range(parts):
        ids, some, begins, lengths = zip(*(events[number::parts] or events[:1]))
        start = np.array(begins)
        end = start + np.array(lengths)
        rows = ranked_rows(np.array(ids, np.uint64), pa.array(some, kind), start, start, end)
        runs.append(SortedRun(rows))
    told = [event for number in range(parts) for event in events[number::parts] or events[:1]]
    cuts = pa.array(pool, kind)
    for key in sorted({key for key, _, _, _ in events}):
        for time in range(0, 11, 2):
            alive = [value for own, value, s, n in told if own == key and s <= time < s + n]
            alive.sort(key=in_bytes)
            for index, answer in enumerate(alive):
                cut = data.draw(st.integers(0, len(pool) - 1))
                smaller = sum(in_bytes(value) < in_bytes(pool[cut]) for value in alive)
                not_larger = smaller + alive.count(pool[cut])
                if smaller <= index < not_larger:
                    continue
                up = index >= not_larger
                below = sum(in_bytes(value) < in_bytes(answer) for value in alive)
                asked = (key, time, index, cut, not_larger if up else smaller, up)
                questions.append((*asked, answer, below, below + alive.count(answer)))
    if not questions:
        return
    keys, *rest, answers, below_, upto_ = zip(*questions)
    times, places, at, base, ups = map(np.array, rest)
    codes = codes_of(cuts)
    assert len(set(codes.tolist())) == len(pool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_values, "FIRST_VALUES", width)
        if steps is None:
            patch.setattr(columns, "_is_loaded", lambda: False)
        else:
            patch.setattr(columns, "COMPILE_FROM_ROWS", 0)
            patch.setattr(ranked_events, "STEP_ROWS", steps)
        asked_ = Asked(np.array(keys, np.uint64), times, places, at, base, ups)
        values, below_found, upto_found = walk_values(runs, asked_, cuts)
    assert values.to_pylist() == list(answers)
    assert below_found.tolist() == list(below_)
    assert upto_found.tolist() == list(upto_)
