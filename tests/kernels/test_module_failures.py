"""A module that fails for a window: the query fails with it, or only that window is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import AxisWindow, Session, Snapshot, tumbling
from anabranch.algebra.modules.results import Errors
from anabranch.algebra.modules.user_operator import Code, Result, Row, UserOperator, Window
from anabranch.errors import OperatorError
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER, Duration
from anabranch.testing import batchings, streams
from anabranch.testing.physical import Element, KitStable, Move, PhysicalStream
from tests.kernels.module_told import assert_told
from tests.kernels.modules import Adding, Framed, Listing, module
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_apply_operator import call, has_few_windows

BAD = 3
TENS = tumbling(Duration(10))


def stream(*rows: tuple[int, int, int, int] | int) -> PhysicalStream:
    """Moves `(v, start, end, new_end)` of the group 'a', and promises."""
    elements: list[Element] = [
        KitStable(row) if isinstance(row, int) else Move(("a", row[0], None), *row[1:])
        for row in rows
    ]
    return PhysicalStream(SCHEMA, tuple(elements))


def node(of: UserOperator, window: AxisWindow = TENS, **options: Any) -> ApplyOperator:
    key = (("k", Expression.parse("k", SCHEMA)),)
    given: dict[str, Any] = {"group_by": key, **options}
    return ApplyOperator(input=SOURCE, window=window, calls=(call(of),), **given)


class Raising(Listing):
    """Does not like a value."""

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        if BAD in columns[0]:
            raise ValueError(f"{BAD} is bad\nand more")
        return super().compute(columns, times, window)


class Giving(Code):
    """Gives something for windows with a bad value, and what is right for others."""

    can_migrate = False

    def __init__(self, bad: Any) -> None:
        self.bad = bad

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        right: list[Result] = [(("right",), window.start, window.end)]
        return self.bad(window) if BAD in columns[0] else right


class RaisingFrame(Framed):
    def compute_frame(self, events: pa.Table) -> pa.Table:
        if BAD in events["v"].to_pylist():
            raise ValueError(f"{BAD} is bad")
        return super().compute_frame(events)


class LosingFrame(Framed):
    def compute_frame(self, events: pa.Table) -> pa.Table:
        found = super().compute_frame(events)
        return found.drop_columns(["said"]) if BAD in events["v"].to_pylist() else found


class RaisingAdd(Adding):
    def add(self, state: Any, values: Row, start: int, end: int) -> Any:
        if values[0] == BAD:
            raise ValueError(f"{BAD} is bad")
        return super().add(state, values, start, end)


class RaisingFinish(Adding):
    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        if BAD in state:
            raise ValueError(f"{BAD} is bad")
        return super().finish(state, window)


class Unstorable(Adding):
    def add(self, state: Any, values: Row, start: int, end: int) -> Any:
        return object() if values[0] == BAD else super().add(state, values, start, end)

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        if isinstance(state, dict):
            return super().finish(state, window)
        raise TypeError("no dict")


def early(window: Window) -> list[Any]:
    return [(("early",), window.start - 1, window.end)]


def backwards(window: Window) -> list[Any]:
    return [(("backwards",), window.start + 2, window.start + 1)]


TIMED_OPERATOR: dict[str, Any] = {"kind": "udo", "time_sensitive": True, "own_times": True}
FAILING: dict[str, tuple[UserOperator, dict[str, Any], str]] = {
    "raises": (module("m", Raising()), {}, "m raised ValueError: 3 is bad"),
    "a table raises": (module("m", RaisingFrame(), frame="arrow"), {}, "m raised ValueError: 3"),
    "a table lacks a column": (module("m", LosingFrame(), frame="arrow"), {}, "one column 'said'"),
    "add raises": (module("m", RaisingAdd(), incremental=True), {}, "m raised ValueError: 3"),
    "add raises, none removes": (
        module("m", RaisingAdd(), incremental=True, removes=False),
        {},
        "m raised ValueError: 3",
    ),
    "compute of a state raises": (
        module("m", RaisingFinish(), incremental=True),
        {},
        "m raised ValueError: 3",
    ),
    "an operator with states raises": (
        module("m", RaisingAdd(), incremental=True, kind="udo"),
        {},
        "m raised ValueError: 3",
    ),
    "wrong type": (
        module("m", Giving(lambda _: [((7,), None, None)])),
        {},
        "m returned 7, which is",
    ),
    "no tuple": (module("m", Giving(lambda _: ["x"])), {}, "m returned"),
    "too many values": (
        module("m", Giving(lambda _: [(("a", "b"), None, None)])),
        {},
        "which is not 1 values",
    ),
    "two rows of an aggregate": (
        module("m", Giving(lambda _: [(("a",), None, None)] * 2)),
        {},
        "m returned 2 values for one window",
    ),
    "before its window": (
        module("m", Giving(early), **TIMED_OPERATOR),
        {"timestamps": "unchanged"},
        "before its window",
    ),
    "an end before its start": (
        module("m", Giving(backwards), **TIMED_OPERATOR),
        {"timestamps": "clip"},
        "not after its start",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_query_fails_with_module_window_group_and_event(case: str) -> None:
    failing, options, reason = FAILING[case]
    runner = LocalRunner(node(failing, **options))
    batch = stream((1, 11, 11, 12), (BAD, 13, 13, 15), 30).batches()[0]
    with pytest.raises(OperatorError, match=re.escape(reason)) as caught:
        runner.step({"S": batch})
    assert "in the window [10, 20)" in caught.value.where
    assert "of the group (k) = ('a')" in caught.value.where
    assert "first event: (" in caught.value.where
    if "raise" in case and "state raises" not in case:
        assert "first event: (3) during [13, 15)" in caught.value.where


@pytest.mark.parametrize("errors", ["skip", "quarantine"])
@pytest.mark.parametrize("case", FAILING)
def test_only_the_failed_window_is_missing_and_comes_back(case: str, errors: Errors) -> None:
    failing, options, reason = FAILING[case]
    told = node(failing, errors=errors, **options)
    moves = stream(
        (1, 1, 1, 2), (1, 11, 11, 12), (BAD, 13, 13, 15), (2, 22, 22, 23), 13, (5, 33, 33, 34)
    ).batches(4, 5)
    runner = assert_told(told, moves)
    batches = [*moves, *stream((BAD, 13, 15, 13)).batches(), *stream(40, FOREVER).batches(1)]
    assert_told(told, batches)
    reports = []
    runner = LocalRunner(told)
    for batch in batches:
        runner.step({"S": batch})
        reports += list(runner.reports().values())
    failures = [each for report in reports for each in report["failures"]]
    assert failures
    assert all(reason in each["reason"] for each in failures)
    assert {tuple(each["window"]) for each in failures} == {("10", "20")}
    assert {each["group"] for each in failures} == {"('a')"}
    if errors == "quarantine":
        assert all(each["count"] == len(each["events"]) == 2 for each in failures)


@pytest.mark.parametrize("case", FAILING)
@given(st.data())
def test_what_fails_is_what_the_meaning_says(case: str, data: st.DataObject) -> None:
    failing, options, _ = FAILING[case]
    window = data.draw(st.sampled_from([tumbling(Duration(4)), Snapshot(), Session(Duration(2))]))
    told = node(failing, window, errors="skip", **options)
    came: list[EventBatch] = data.draw(streams(SCHEMA, max_size=10).flatmap(batchings))
    assume(has_few_windows(told, came))
    assert_told(told, came)


def test_a_window_until_the_last_instant_that_becomes_endless_is_open() -> None:
    last = int(FOREVER) - 1
    came = stream((1, last - 8, last - 8, last), last - 12, (1, last - 8, last, FOREVER), last)
    assert_told(node(module("listing", Listing()), Snapshot(), errors="skip"), came.batches(2, 4))


def test_a_state_that_cannot_be_kept_is_refused() -> None:
    keeps = node(module("m", Unstorable(), incremental=True))
    with pytest.raises(OperatorError, match="has a state that cannot be stored") as caught:
        LocalRunner(keeps).step({"S": stream((BAD, 1, 1, 2)).batches()[0]})
    assert "in the window [0, 10)" in caught.value.where
    skips = replace(keeps, errors="skip")
    left = LocalRunner(skips).step({"S": stream((BAD, 1, 1, 2), (1, 11, 11, 12), 30).batches()[0]})
    assert left.start.tolist() == [10]


class Moody(Listing):
    """Says something else every time."""

    def __init__(self) -> None:
        self.calls = count()

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        return [((f"{next(self.calls)}",), None, None)]


class MoodyFrame(Framed):
    def __init__(self) -> None:
        self.calls = count()

    def compute_frame(self, events: pa.Table) -> pa.Table:
        found = super().compute_frame(events)
        said = pa.array([f"{next(self.calls)}"] * found.num_rows)
        return found.set_column(1, "said", said)


class MoodyFinish(Adding):
    def __init__(self) -> None:
        self.calls = count()

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        return [((f"{next(self.calls)}",), None, None)]


@pytest.mark.parametrize(
    "moody",
    [
        module("m", Moody()),
        module("m", Moody(), kind="udo", time_sensitive=True),
        module("m", MoodyFrame(), frame="arrow"),
        module("m", MoodyFinish(), incremental=True),
    ],
    ids=["aggregate", "operator", "table", "states"],
)
def test_a_module_that_is_not_deterministic_is_found_out(moody: UserOperator) -> None:
    batch = stream((1, 1, 1, 2), 30).batches()[0]
    with pytest.raises(OperatorError, match="m is not deterministic") as caught:
        LocalRunner(node(moody)).step({"S": batch})
    assert "in the window [0, 10)" in caught.value.where
    assert "first event: (1) during [1, 2)" in caught.value.where
    free = replace(moody, properties=frozenset({"group_filter"}))
    assert len(LocalRunner(node(free)).step({"S": batch})) == 1


class Rewriting(Code):
    """Promises to change nothing before what came, and does."""

    can_migrate = False

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        return [((f"{len(columns[0])}",), window.start, window.end)]


def test_a_broken_time_bound_is_found_out() -> None:
    bound = module("m", Rewriting(), **TIMED_OPERATOR)
    first, second = stream((1, 1, 1, 2), 5, (1, 6, 6, 7), 8).batches(2)
    failing = node(bound, timestamps="time_bound")
    runner = LocalRunner(failing)
    runner.step({"S": first})
    with pytest.raises(
        OperatorError, match="m changed results before 5, which it had promised to keep"
    ):
        runner.step({"S": second})
    runner = LocalRunner(replace(failing, errors="skip"))
    runner.step({"S": first})
    assert len(runner.step({"S": second})) == 0
    (report,) = runner.reports().values()
    assert report["failed"] == 1
    assert report["failures"][0]["window"] == ["0", "10"]
