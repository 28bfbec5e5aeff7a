"""The worked examples of windows on the time axis (Ali et al., StreamInsight)."""

from __future__ import annotations

import pytest
from tests.kernels.module_told import assert_told
from tests.kernels.modules import PLAIN
from tests.kernels.plans import SOURCE
from tests.kernels.test_apply_operator import BOUNDS, call
from tests.kernels.test_module_failures import stream

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
    tumbling,
)
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.time import FOREVER, Duration

THREE = ((1, 1, 7), (2, 3, 9), (3, 9, 11))
TIES = ((1, 1, 9), (2, 4, 5), (3, 4, 7), (4, 6, 8))
CASES: dict[str, tuple[AxisWindow, tuple[tuple[int, int, int], ...], str]] = {
    "snapshots": (Snapshot(), THREE, "[1,3) 1 · [3,7) 1 2 · [7,9) 2 · [9,11) 3"),
    "count by start, with ties": (CountByStart(2), TIES, "[1,5) 1 2 3 · [4,7) 2 3 4"),
    "count by end": (CountByEnd(2), TIES, "[5,8) 2 3 · [7,9) 3 4 · [8,10) 1 4"),
    "sessions": (
        Session(Duration(3)),
        ((1, 1, 2), (2, 3, 5), (3, 7, 8)),
        "[1,7) 1 2 · [7,10) 3",
    ),
    "tumbling": (tumbling(Duration(5)), THREE, "[0,5) 1 2 · [5,10) 1 2 3 · [10,15) 3"),
    "hopping": (
        Hopping(Duration(10), Duration(5)),
        ((1, 3, 7), (2, 8, 9)),
        "[-5,5) 1 · [0,10) 1 2 · [5,15) 1 2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_windows_hold_what_the_table_says(case: str) -> None:
    window, events, wanted = CASES[case]
    node = ApplyOperator(input=SOURCE, window=window, calls=(call(PLAIN),), columns=BOUNDS)
    came = stream(*((value, start, start, end) for value, start, end in events), FOREVER)
    for size in (1, 2, 9):
        assert_told(node, came.in_batches_of(size))
    left = LocalRunner(node).step({"S": came.batches()[0]})
    rows = sorted(left.payload.to_pylist(), key=lambda row: row["window_start"])
    shown = (f"[{row['window_start']},{row['window_end']}) {row['said0']}" for row in rows)
    assert " · ".join(shown) == wanted


def test_an_event_that_is_cut_twice_has_the_history_of_the_table() -> None:
    came = stream((1, 1, 1, FOREVER), (1, 1, FOREVER, 10), (1, 1, 10, 5), (2, 4, 4, 9), FOREVER)
    node = ApplyOperator(input=SOURCE, window=Snapshot(), calls=(call(PLAIN),))
    assert_told(node, came.in_batches_of(1))
    left = LocalRunner(node).step({"S": came.batches()[0]})
    found = sorted(
        zip(left.start.tolist(), left.new_end.tolist(), left.payload["said0"].to_pylist())
    )
    assert found == [(1, 4, "1"), (4, 5, "1 2"), (5, 9, "2")]
