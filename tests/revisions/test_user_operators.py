"""Windows of the time axis, and others whose state is exchanged, after odd late batches."""

from __future__ import annotations

from typing import Final

import pytest

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import AxisWindow, Hopping, Session, Snapshot
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Insert, batch_of
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from tests.kernels.modules import EACH
from tests.kernels.plans import SCHEMA, SOURCE, aggregate
from tests.kernels.test_apply_operator import POINTS, call
from tests.revisions.histories import assert_revised

ROW: Final = (None, None, None)


def rows(*elements: Insert | Adjust, stable: int) -> dict[str, EventBatch]:
    return {"S": batch_of(elements, SCHEMA).with_stable(Time(stable))}


@pytest.mark.parametrize("window", [Snapshot(), Hopping(Duration(1), Duration(1))])
@pytest.mark.parametrize("at", [9, FOREVER - 6])
def test_a_row_that_came_and_went_leaves_no_trace_in_exchanged_state(
    window: AxisWindow, at: int
) -> None:
    """Windows are shown as far as rows have come: replay does not know of the one that is gone."""
    node = ApplyOperator(input=POINTS, window=window, calls=(call(EACH, 0, POINTS),))
    came = (Insert(ROW, -5, -4), Insert(ROW, 0, 1))
    gone = (Insert(ROW, at, at + 1), Adjust(ROW, at, at + 1, at))
    assert_revised(node, [rows(stable=0), rows(*came, *gone, stable=0), rows(stable=FOREVER)])


@pytest.mark.parametrize(
    "node",
    [
        ApplyOperator(input=SOURCE, window=Snapshot(), calls=(call(EACH),)),
        Shift(input=aggregate(SOURCE, ("k",), "n"), by=Duration(-3)),
    ],
)
@pytest.mark.parametrize("to", [20, 25])
@pytest.mark.parametrize("tasks", [1, 2])
def test_an_adjust_in_time_waits_for_its_late_event(node: Node, to: int, tasks: int) -> None:
    """Also where one task reads the event and another one the adjust."""
    late = rows(Insert(ROW, 5, 30), Adjust(ROW, 5, 30, to), Insert(ROW, 5, 28), stable=20)
    assert_revised(node, [rows(stable=20), late, rows(stable=40), rows(stable=50)], tasks=tasks)


@pytest.mark.parametrize("patience", [0, 1, 2, 3])
def test_events_that_wait_for_an_exchange_are_moved_meanwhile(patience: int) -> None:
    """The query runs on while its past is replayed, and does not know [5, 30) yet."""
    node = ApplyOperator(input=SOURCE, window=Snapshot(), calls=(call(EACH),))
    steps = [
        rows(Insert(ROW, 0, 40), stable=20),
        rows(Insert(ROW, 5, 30), Insert(ROW, 22, 23), stable=20),
        rows(Adjust(ROW, 5, 30, 25), Insert(ROW, 24, 33), stable=22),
        rows(Adjust(ROW, 5, 25, 24), Adjust(ROW, 24, 33, 31), Insert(ROW, 7, 35), stable=24),
        rows(Adjust(ROW, 7, 35, 28), stable=26),
        rows(stable=50),
    ]
    assert_revised(node, steps, patience=[patience])


def test_a_late_point_may_open_a_window_that_has_not_ended() -> None:
    node = ApplyOperator(input=POINTS, window=Snapshot(), calls=(call(EACH, 0, POINTS),))
    late = rows(*(Insert(ROW, -7, -6) for _ in range(4)), Insert(ROW, 0, 1), stable=0)
    assert_revised(node, [rows(stable=0), late])
    assert_revised(node, [rows(stable=0), late, rows(stable=9), rows(stable=9)])


def test_a_bound_at_the_stable_point_moves() -> None:
    """The window [4, 5) is shown when the stable point is 5: there another event begins.

    Then that event is withdrawn, and the window is [4, 6). The running query goes on from what it
    has shown. A replay has never seen the event, so it holds the window back until it has ended,
    and shows [4, 5) once more.
    """
    node = ApplyOperator(input=SOURCE, window=Snapshot(), calls=(call(EACH),))
    first = rows(Insert(ROW, 5, 6), Insert(ROW, 0, 1), Insert(ROW, 4, 6), stable=5)
    late = rows(Insert(ROW, 0, 1), Adjust(ROW, 5, 6, 5), stable=5)
    end = rows(stable=FOREVER)
    assert_revised(node, [first, late, end, end])


def test_a_window_that_waits_may_grow_to_the_end_of_time() -> None:
    node = ApplyOperator(input=SOURCE, window=Session(Duration(1)), calls=(call(EACH),))
    at = FOREVER - 6
    first = rows(Insert(ROW, at, FOREVER - 1), stable=BEGINNING)
    more = rows(Insert(ROW, at, at + 1), Insert(ROW, at, FOREVER), stable=BEGINNING)
    assert_revised(node, [first, more, rows(stable=FOREVER)])
