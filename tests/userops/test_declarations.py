"""Declarations that do not say what they must: refused where they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

import anabranch as ab

T = TypeVar("T")


def no_types(prices):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    return prices


def no_result(prices: list[float]):  # type: ignore[no-untyped-def] # noqa: ANN201
    return prices


def no_list(price: float) -> float:
    return price


def unknown_type(prices: list[complex]) -> float:
    return 0.0


def unknown_result(prices: list[float]) -> object:
    return prices


def unknown_name(prices: list[Missing]) -> float:  # type: ignore[name-defined] # noqa: F821
    return 0.0


def everything(*prices: list[float]) -> float:
    return 0.0


def no_columns(*, q: float = 0.5) -> float:
    return q


def beside(events: list[ab.Event[float]], sizes: list[int]) -> float:
    return 0.0


def untyped_parameter(prices: list[float], *, q) -> float:  # type: ignore[no-untyped-def] # noqa: ANN001
    return 0.0


def strange_parameter(prices: list[float], *, q: complex = 1j) -> float:
    return 0.0


def wrong_default(prices: list[float], *, q: float = "high") -> float:  # type: ignore[assignment]
    return 0.0


def open_result(prices: list[float]) -> Any:
    return prices


def unbound_result(prices: list[float]) -> T:  # type: ignore[type-var]
    raise NotImplementedError


def event_result(prices: list[float]) -> ab.Event[float]:
    raise NotImplementedError


class NoCompute:
    def initial(self) -> int:
        return 0


class NoAdd:
    def initial(self) -> int:
        return 0

    def compute(self, state: int) -> int:
        return state


class OtherRemove:
    def initial(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state

    def remove(self, state: int, value: int, more: int) -> int:
        return state

    def compute(self, state: int) -> int:
        return state


class NoValues:
    def initial(self) -> int:
        return 0

    def add(self, state: int) -> int:
        return state

    def compute(self, state: int) -> int:
        return state


@pytest.mark.parametrize(
    ("target", "what", "hint"),
    [
        (no_types, "'prices' has no type", r"def spread\(prices: list\[float\]\) -> float"),
        (no_result, "does not declare the type that it returns", "def spread"),
        (no_list, "receives all values of a window", r"write price: list\[float\]"),
        (unknown_type, "complex is not a type", "types are int, float"),
        (unknown_result, "what it returns: object is not a type", "types are int, float"),
        (unknown_name, "name 'Missing' is not defined", "import"),
        (everything, "has no types", "name every parameter"),
        (no_columns, "takes no column", "def spread"),
        (beside, "with other columns", r"tuple\[int, float\]"),
        (untyped_parameter, "'q' has no type", "q: float = 0.5"),
        (strange_parameter, "complex is not a type", "types are"),
        (wrong_default, "'q' is 'high' by default, which is not of type DOUBLE", "q: float = 0.5"),
        (open_result, "the type Any of its result", "TypeVar"),
        (unbound_result, "the type T of its result", "TypeVar"),
        (event_result, "not an event", "udo"),
        (NoCompute, "has no compute", "compute"),
        (NoAdd, "has initial but no add", "add"),
        (OtherRemove, "remove and add take different values", "same parameters"),
        (NoValues, "the values of one event", "price: float"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(
    target: Callable[..., Any], what: str, hint: str
) -> None:
    with pytest.raises(ab.PlanError, match=what) as refusal:
        ab.uda(target)
    assert "module '" in refusal.value.where
    assert "test_declarations.py:" in refusal.value.where
    with pytest.raises(ab.PlanError, match=hint):
        ab.uda(target)


def test_an_operator_must_give_many() -> None:
    def one(prices: list[float]) -> float:
        return 0.0

    with pytest.raises(ab.PlanError, match=r"hint: return list\[\.\.\.\] or Iterator"):
        ab.udo(one)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"name": "two words"}, "is not a valid name"),
        ({"version": "a"}, "is not a valid version"),
        ({"version": 0}, "0 is not a valid version"),
        ({"frame": "spark"}, "no frame 'spark'"),
        ({"takes": {"size": int}}, "takes names 'size'"),
        ({"empty": "x"}, "empty is 'x'"),
        ({"frame": "arrow", "takes": {"price": float}}, "must declare the columns"),
        ({"frame": "arrow", "takes": {"window": int}, "returns": float}, "called 'window'"),
        (
            {"frame": "arrow", "takes": {}, "returns": float, "own_times": True},
            "cannot set lifetimes",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], what: str) -> None:
    def module(prices: list[float]) -> float:
        return 0.0

    with pytest.raises(ab.PlanError, match=what):
        ab.uda(**options)(module)


def test_an_option_that_is_none_is_python_s_own_error() -> None:
    with pytest.raises(TypeError, match="uda got an unexpected keyword argument 'colour'"):
        ab.uda(colour="red")


def test_a_state_says_itself_what_empty_windows_give() -> None:
    class Count:
        def initial(self) -> int:
            return 0

        def add(self, state: int, value: int) -> int:
            return state + 1

        def compute(self, state: int) -> int:
            return state

    with pytest.raises(ab.PlanError, match="keeps a state and declares empty"):
        ab.uda(empty=0)(Count)
