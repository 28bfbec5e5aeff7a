"""The helper finds what is wrong with a module, and names the events that show it."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import anabranch as ab
from anabranch.testing import check_module
from anabranch.testing.operator_values import unstorable

T = TypeVar("T")
COUNTER = itertools.count()


@ab.uda
def size(values: list[T]) -> int:
    return len(values)


class Sum:
    def initial(self) -> Any:
        return [0]

    def add(self, state: Any, value: int) -> Any:
        return [state[0] + value]

    def remove(self, state: Any, value: int) -> Any:
        return [state[0] - value]

    def compute(self, state: Any) -> int:
        return int(state[0])


def test_good_modules_pass() -> None:
    check_module(size)
    check_module(size, ["a", "b"])
    check_module(size, [ab.Event("a", 0, 5), ab.Event("b", 3, 9)], clip="full")
    check_module(size, st.lists(st.integers(0, 9)), types=[int])
    check_module(ab.uda(Sum))


def test_only_modules_can_be_checked() -> None:
    with pytest.raises(AssertionError, match="decorate it with @ab"):
        check_module(len)


@ab.uda
def fails(values: list[int]) -> int:
    if max(values, default=0) >= 3:
        raise ValueError("three")
    return 0


@ab.uda
def divides(values: list[float]) -> float:
    return sum(values) / len(values)


@ab.uda
def wrong_type(values: list[int]) -> int:
    return "many" if len(values) > 1 else 0  # type: ignore[return-value]


@ab.uda
def counts_calls(values: list[int]) -> int:
    return next(COUNTER)


@ab.uda
def draws(values: list[int]) -> float:
    return random.random()


@ab.uda
def first(values: list[int]) -> int:
    return values[0] if values else 0


@ab.udo
def early(events: list[ab.Event[int]], window: ab.Window) -> list[ab.Event[int]]:
    return [ab.Event(1, window.start - 1, window.end)] if events else []


@ab.uda(frame="arrow", takes={"value": int}, returns=int)
def mixes_windows(table: pa.Table) -> pa.Table:
    numbers = table["window"].unique()
    return pa.table({"window": numbers, "value": pa.array([len(table)] * len(numbers))})


@pytest.mark.parametrize(
    ("module", "what", "events"),
    [
        (fails, "raised ValueError: three", r"\[Event\(3, 0, 1\)\]"),
        (divides, "ZeroDivisionError: .*; return None, or declare its result: empty=", r"\[\]"),
        (
            wrong_type,
            "returned 'many', which is not of type int64",
            r"\[Event\(0, .*, Event\(0, "
            r".*\]",
        ),
        (counts_calls, "returns a different result when it is called again", r"\[\]"),
        (draws, "returns a different result when it is called again", r"\[\]"),
        (first, "for another order of events", r"\[Event\(.*, Event\(.*\]"),
        (early, "returned an event from -1 on, before its window", r"\[Event\(0, 0, 1\)\]"),
        (mixes_windows, "beside another one in the same table", r"\[Event\(0, 0, 1\)\]"),
    ],
)
def test_what_is_wrong_is_named_with_the_smallest_events(
    module: Any, what: str, events: str
) -> None:
    with pytest.raises(AssertionError, match=what) as failure:
        check_module(module)
    message = str(failure.value)
    assert message.startswith(f"module '{module.name}' ")
    with pytest.raises(AssertionError, match=f"events: {events}"):
        check_module(module)
    assert "window: Window(" in message


def test_a_module_may_declare_that_order_matters() -> None:
    check_module(ab.uda(name="first", ordered=True)(first.__wrapped__))


class Dirty(Sum):
    def remove(self, state: Any, value: int) -> Any:
        return [state[0] - abs(value)]


class Sticky(Sum):
    def remove(self, state: Any, value: int) -> Any:
        return [state[0] - value, "was here"]

    def compute(self, state: Any) -> int:
        return int(state[0]) + len(state)


class Shared(Sum):
    kept: Any = [0]  # noqa: RUF012

    def initial(self) -> Any:
        return self.kept

    def add(self, state: Any, value: int) -> Any:
        state.append(value)
        return state

    def remove(self, state: Any, value: int) -> Any:
        state.remove(value)
        return state


class Consuming(Sum):
    def compute(self, state: Any) -> int:
        found = int(state[0])
        state[0] = 0
        return found


class Unstorable(Sum):
    def initial(self) -> Any:
        return [object()]


class Silent(Sum):
    def add(self, state: Any, value: int) -> Any:
        state[0] += value


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (Dirty, "after events were added and removed"),
        (Sticky, "after events were added and removed|keeps something"),
        (Shared, "changed; initial must create a new one|different result"),
        (Consuming, "different result"),
        (Unstorable, "a state that cannot be stored: <object object at .*> is a object"),
        (Silent, "add returned None; return the state"),
    ],
)
def test_states_that_go_wrong_are_found(target: Callable[..., Any], what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        check_module(ab.uda(target))


def test_two_shapes_can_be_compared() -> None:
    @ab.uda
    def total(values: list[int]) -> int:
        return sum(values)

    @ab.uda
    def magnitude(values: list[int]) -> int:
        return sum(map(abs, values))

    check_module(ab.uda(Sum), like=total)
    with pytest.raises(
        AssertionError, match=r"does not return what magnitude returns\n.*Event\(-1"
    ):
        check_module(ab.uda(Sum), like=magnitude)


def test_a_module_on_tables_can_be_compared_with_one_on_lists() -> None:
    @ab.uda(frame="arrow", takes={"value": int}, returns=int)
    def rows_of_table(table: pa.Table) -> pa.Table:
        counted = table.group_by("window").aggregate([("value", "count")])
        return counted.rename_columns({"value_count": "value"})

    @ab.uda
    def valid(values: list[int]) -> int | None:
        return len(values) or None

    check_module(rows_of_table, like=valid)
    check_module(valid, like=rows_of_table)


def test_parameters_that_are_missing_are_told() -> None:
    @ab.uda
    def above(values: list[int], *, least: int) -> int:
        return len([each for each in values if each > least])

    check_module(above, parameters={"least": 3})
    with pytest.raises(AssertionError, match=r"needs the parameter 'least'(.|\n)*parameters="):
        check_module(above)


def test_a_module_that_cannot_be_sent_is_told() -> None:
    lock = threading.Lock()

    @ab.uda
    def locked(values: list[int]) -> int:
        with lock:
            return len(values)

    with pytest.raises(AssertionError, match="module 'locked' cannot be sent"):
        check_module(locked)


@pytest.mark.parametrize("state", [None, 1, "a", [1, (2.0, {"a": {b"c"}})], frozenset({True})])
def test_plain_states_can_be_stored(state: Any) -> None:
    assert unstorable(state) is None


def test_what_cannot_be_stored_is_found_inside() -> None:
    strange = object()
    assert unstorable([1, {"a": (strange,)}]) is strange
    assert unstorable({len: 1}) is len
