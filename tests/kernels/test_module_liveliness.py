"""How far results are settled after a stable point, and what is still remembered then.

An event that ends where the promise stands counts as live: it may still end later.
"""

from __future__ import annotations

from typing import Any

import pytest

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
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.time import FOREVER, Duration
from tests.kernels.modules import (
    ADDING,
    LIFETIMES,
    PLAIN,
    STARTS,
    TIMED,
    TIMED_ADDING,
)
from tests.kernels.plans import SOURCE
from tests.kernels.test_apply_operator import call
from tests.kernels.test_module_failures import stream

TENS = tumbling(Duration(10))
OVERLAPPING = Hopping(Duration(10), Duration(4))
GAPS = Hopping(Duration(4), Duration(10))
LONG = ((1, 3, 3, 25),)
"""One event from 3 to 25."""
LISTS = ("events", "answers", "states", "waiting")
SHORT = ((1, 3, 3, 6),)


def after(
    of: UserOperator, window: AxisWindow, rows: Any, stable: int, **options: Any
) -> tuple[LocalRunner, int]:
    """What runs after a batch and a promise, and how far its output is settled."""
    node = ApplyOperator(input=SOURCE, window=window, calls=(call(of),), **options)
    runner = LocalRunner(node)
    runner.step({"S": stream(*rows).batches()[0]})
    return runner, int(runner.step({"S": stream(stable).batches()[0]}).stable)


def settled(of: UserOperator, window: AxisWindow, rows: Any, stable: int, **options: Any) -> int:
    return after(of, window, rows, stable, **options)[1]


def held(runner: LocalRunner, name: str) -> int:
    return sum(len(run) for trace in runner.traces for run in trace.runs.get(name, ()))


@pytest.mark.parametrize("of", [PLAIN, ADDING])
@pytest.mark.parametrize("clip", ["none", "left", "right", "full"])
@pytest.mark.parametrize(
    ("window", "rows", "stable", "wanted"),
    [
        (TENS, LONG, 9, 0),
        (TENS, LONG, 10, 10),
        (TENS, LONG, 17, 10),
        (OVERLAPPING, LONG, 12, 4),
        (OVERLAPPING, LONG, 14, 8),
        (GAPS, LONG, 3, 0),
        (GAPS, LONG, 7, 7),
        (Snapshot(), LONG, 24, 3),
        (Snapshot(), LONG, 25, 25),
        (Snapshot(), SHORT, 7, 7),
        (CountByStart(2), ((1, 3, 3, 6), (1, 5, 5, 6), (1, 8, 8, 9)), 4, 3),
        (CountByStart(2), ((1, 3, 3, 6), (1, 5, 5, 6), (1, 8, 8, 9)), 6, 5),
        (CountByStart(2), ((1, 3, 3, 6), (1, 5, 5, 6), (1, 8, 8, 9)), 20, 8),
        (CountByEnd(2), ((1, 3, 3, 6), (1, 5, 5, 7)), 7, 6),
        (CountByEnd(2), ((1, 3, 3, 6), (1, 5, 5, 7)), 8, 7),
        (Session(Duration(3)), SHORT, 7, 3),
        (Session(Duration(3)), SHORT, 8, 8),
    ],
)
def test_without_times_windows_that_end_after_the_stable_point_hold_back(
    of: UserOperator, clip: str, window: AxisWindow, rows: Any, stable: int, wanted: int
) -> None:
    assert settled(of, window, rows, stable, clip=clip) == wanted


@pytest.mark.parametrize("of", [TIMED, TIMED_ADDING])
@pytest.mark.parametrize("clip", ["none", "left"])
@pytest.mark.parametrize(
    ("window", "rows", "stable", "wanted"),
    [
        (TENS, LONG, 10, 0),
        (TENS, LONG, 24, 0),
        (TENS, LONG, 25, 0),
        (TENS, LONG, 26, 20),
        (TENS, LONG, 30, 30),
        (OVERLAPPING, LONG, 25, -4),
        (OVERLAPPING, LONG, 26, 20),
        (Snapshot(), (*LONG, (1, 10, 10, 11)), 24, 3),
        (Snapshot(), (*LONG, (1, 10, 10, 11)), 25, 3),
        (Snapshot(), (*LONG, (1, 10, 10, 11)), 26, 26),
        (CountByStart(1), LONG, 20, 3),
        (CountByStart(1), LONG, 26, 26),
        (Session(Duration(3)), SHORT, 7, 3),
        (Session(Duration(3)), SHORT, 8, 8),
    ],
)
def test_with_ends_seen_windows_with_an_event_that_is_live_hold_back(
    of: UserOperator, clip: str, window: AxisWindow, rows: Any, stable: int, wanted: int
) -> None:
    assert settled(of, window, rows, stable, clip=clip) == wanted


@pytest.mark.parametrize("clip", ["right", "full"])
@pytest.mark.parametrize(
    ("window", "rows", "stable", "wanted"),
    [
        (TENS, LONG, 9, 0),
        (TENS, LONG, 10, 10),
        (TENS, LONG, 19, 10),
        (OVERLAPPING, LONG, 14, 8),
        (GAPS, LONG, 7, 7),
        (Snapshot(), LONG, 24, 3),
        (Snapshot(), LONG, 25, 3),
        (Snapshot(), LONG, 26, 26),
    ],
)
def test_with_ends_cut_off_windows_that_have_ended_are_settled(
    clip: str, window: AxisWindow, rows: Any, stable: int, wanted: int
) -> None:
    for of in (TIMED, TIMED_ADDING):
        assert settled(of, window, rows, stable, clip=clip) == wanted
    assert settled(LIFETIMES, window, rows, stable, clip=clip, timestamps="unchanged") == wanted


@pytest.mark.parametrize("clip", ["none", "left", "right", "full"])
@pytest.mark.parametrize("window", [TENS, OVERLAPPING, GAPS, Snapshot(), Session(Duration(3))])
def test_a_time_bound_settles_all_that_came(clip: str, window: AxisWindow) -> None:
    for stable in (3, 9, 17, 25):
        found = settled(STARTS, window, LONG, stable, clip=clip, timestamps="time_bound")
        assert found == stable


@pytest.mark.parametrize(
    "window", [Snapshot(), CountByStart(2), CountByEnd(2), Session(Duration(3))]
)
def test_where_no_window_is_open_all_is_settled_that_came(window: AxisWindow) -> None:
    for of in (PLAIN, TIMED):
        assert settled(of, window, (), 5) == 5


def test_a_window_that_has_ended_is_forgotten_with_its_events() -> None:
    for of, clip in ((PLAIN, "none"), (TIMED, "right"), (TIMED_ADDING, "full")):
        runner, _ = after(of, TENS, SHORT, 10, clip=clip)
        assert [held(runner, name) for name in ("events", "answers", "states", "waiting")] == [
            0
        ] * 4
        runner, _ = after(of, TENS, LONG, 10, clip=clip)
        assert held(runner, "events") == 1


@pytest.mark.parametrize("of", [TIMED, TIMED_ADDING])
def test_where_ends_are_seen_a_window_is_kept_for_its_live_events(of: UserOperator) -> None:
    runner, _ = after(of, TENS, LONG, 25)
    assert held(runner, "events") == 1
    assert held(runner, "answers") == 2
    runner, _ = after(of, TENS, LONG, 26)
    assert held(runner, "answers") == 0


@pytest.mark.parametrize("window", [TENS, Snapshot(), Session(Duration(3))])
@pytest.mark.parametrize("of", [TIMED, TIMED_ADDING])
def test_an_event_that_is_cut_short_does_not_keep_its_windows(
    of: UserOperator, window: AxisWindow
) -> None:
    rows = ((1, 3, 3, FOREVER), (1, 3, FOREVER, 5))
    runner, line = after(of, window, rows, 40)
    assert line == 40
    assert not any(held(runner, name) for name in LISTS)


def test_states_alone_are_kept_of_points_where_they_say_it_all() -> None:
    runner, _ = after(ADDING, TENS, ((1, 3, 3, 4), (2, 5, 5, 6)), 6)
    assert held(runner, "states") == 1
    assert held(runner, "events") == 0
