"""Shipped modules: right, the same in every shape, in any order, however often they are asked."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.userops.asking import ask, bound, rows, value

import anabranch as ab
from anabranch.testing import check_module
from anabranch.userops.library import default_library
from anabranch.userops.shipped.every import SHIPPED
from anabranch.userops.shipped.exact_sum import ZERO, over, plus

LIBRARY = default_library()
PARAMETERS: dict[str, dict[str, Any]] = {
    "followed_by": {"parameters": {"first": "a", "then": "b", "within": 4}, "types": [str]},
    "quantile": {"parameters": {"q": 0.3}},
    "quantile_incremental": {"parameters": {"q": 0.3}},
    "quantile_arrow": {"parameters": {"q": 0.3}},
    "best": {"parameters": {"k": 2}},
    "best_incremental": {"parameters": {"k": 2}},
}
TWINS = [
    ("mean", "mean_plain"),
    ("quantile_incremental", "quantile"),
    ("quantile_arrow", "quantile"),
    ("time_weighted_mean_incremental", "time_weighted_mean"),
    ("best_incremental", "best"),
    ("trend", "trend_plain"),
    ("distinct_sketch", "distinct_sketch_plain"),
]

floats = st.floats(allow_nan=False, allow_infinity=False)
small = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("name", "clip"), list(product([each.name for each in SHIPPED], ["none", "full"]))
)
def test_permuted_and_repeated_calls_give_the_same(name: str, clip: Any) -> None:
    options = PARAMETERS.get(name, {})
    check_module(LIBRARY[name], clip=clip, odd_floats=True, examples=20, **options)


@pytest.mark.parametrize(("incremental", "plain"), TWINS)
def test_incremental_equals_non_incremental(incremental: str, plain: str) -> None:
    options = PARAMETERS.get(incremental, {})
    check_module(
        LIBRARY[incremental],
        like=LIBRARY[plain],
        clip="full",
        odd_floats=True,
        examples=40,
        **options,
    )


def test_every_module_with_a_state_has_a_twin_without() -> None:
    with_state = {each.name for each in SHIPPED if bound_any(each.name).incremental}
    assert with_state <= {incremental for incremental, _ in TWINS}


def bound_any(name: str) -> Any:
    options = PARAMETERS.get(name, {})
    types = options.get("types", [str, float][2 - LIBRARY[name].arity :])
    return bound(LIBRARY[name], *types, **options.get("parameters", {}))


@given(st.lists(floats, max_size=20), st.lists(floats, max_size=20))
@example([0.1], [1e308, 1e308])
@example([1e-320], [1e300])
def test_sums_forget_what_was_taken_away(kept: list[float], gone: list[float]) -> None:
    total = ZERO
    for each in (*gone, *kept):
        total = plus(total, each)
    for each in gone:
        total = plus(total, each, -1)
    again = ZERO
    for each in kept:
        again = plus(again, each)
    assert total == again


@given(st.lists(floats, min_size=1, max_size=20))
def test_the_mean_is_rounded_once(values: list[float]) -> None:
    exact = sum(map(Fraction, values)) / len(values)
    assert value(bound(LIBRARY["mean"], float), values) == float(exact)


def test_sums_know_infinity() -> None:
    total = plus(plus(ZERO, math.inf), 1.0)
    assert over(total, 2) == math.inf
    assert math.isnan(over(plus(total, -math.inf), 3))
    assert over(plus(total, math.inf, -1), 1) == 1.0
    assert over(plus(plus(ZERO, 1.7e308), 1.7e308), 1) == math.inf


@given(st.lists(small, min_size=1, max_size=20))
def test_the_mean_of_a_table_is_near(values: list[float]) -> None:
    found = value(bound(LIBRARY["mean_arrow"], float), values)
    assert found == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)


@given(st.lists(small, min_size=1, max_size=20), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], q: float) -> None:
    found = value(bound(LIBRARY["quantile"], float, q=q), values)
    assert found == pytest.approx(np.quantile(values, q), rel=1e-9, abs=1e-6)


def test_the_time_weighted_mean_is_that_of_the_paper() -> None:
    events = [ab.Event(10.0, 0, 5), ab.Event(20.0, 5, 10)]
    module = bound(LIBRARY["time_weighted_mean"], float)
    assert value(module, events) == 15.0
    assert value(module, [ab.Event(10.0, -5, 5), ab.Event(20.0, 5, 90)]) == 15.0
    assert value(module, [ab.Event(10.0, 0, 1)]) == 1.0


def test_the_best_are_ranked_and_ties_have_an_order() -> None:
    events = [("b", 2.0), ("a", 2.0), ("c", 1.0), ("d", 9.0)]
    expected = [(1, "d", 9.0), (2, "a", 2.0), (3, "b", 2.0)]
    for name in ("best", "best_incremental"):
        assert rows(bound(LIBRARY[name], str, float), events) == expected


def followed(events: list[ab.Event[str]], **options: Any) -> list[Any]:
    module = bound(LIBRARY["followed_by"], str, first="a", then="b", **options)
    return ask(module, events)


def test_a_pattern_holds_as_long_as_what_completes_it() -> None:
    events = [ab.Event("a", 1, 3), ab.Event("a", 2, 3), ab.Event("b", 5, 12), ab.Event("b", 7, 8)]
    assert followed(events) == [((4,), 5, 12), ((3,), 5, 12)]
    assert followed(events, within=3) == [((3,), 5, 12)]
    assert followed(events[2:]) == []


def test_what_begins_before_the_window_is_no_part_of_a_pattern() -> None:
    assert followed([ab.Event("a", -1, 3), ab.Event("b", 5, 6)]) == []
    assert followed([ab.Event("a", 3, 4), ab.Event("b", 3, 9)]) == []


@given(st.lists(st.tuples(st.integers(0, 9), small), min_size=2, max_size=12))
def test_the_trend_is_that_of_least_squares(points: list[tuple[int, float]]) -> None:
    found = value(bound(LIBRARY["trend"], float, per=1), [ab.Event(v, t, t + 1) for t, v in points])
    times, values = np.array([t for t, _ in points]), np.array([v for _, v in points])
    if len(set(times)) == 1:
        assert found is None
    else:
        centred = times - times.mean()
        expected = (centred @ (values - values.mean())) / (centred @ centred)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 20_000])
def test_the_sketch_is_within_its_error(size: int) -> None:
    sketch = LIBRARY["distinct_sketch_plain"]
    for base in (0, 10**9):
        found = sketch([*range(base, base + size), *range(base, base + size // 2)])
        assert abs(found - size) <= max(1, 4 * 0.0163 * size)


def test_the_sketch_is_the_same_on_every_machine() -> None:
    assert LIBRARY["distinct_sketch_plain"]([f"user {n}" for n in range(5000)]) == EXPECTED


EXPECTED = 5001
