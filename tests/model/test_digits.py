"""Sums in digits are exact, have one form, and are rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.model.numbers.digits import (
    NAN,
    SQUARES,
    SUMS,
    WHOLE_SQUARES,
    Digits,
    DigitWindow,
    carry,
    pack,
    relieve,
    split,
    split_squares,
    unpack,
)
from anabranch.model.numbers.exact_numbers import Exact, nearest, quotients

WINDOWS = pytest.mark.parametrize("window", [SUMS, SQUARES, DigitWindow(-80, 2), DigitWindow(0, 1)])
HARD = [0.1, -0.0, 5e-324, -5e-324, 2.2e-308, 1e-300, 1e300, 1.7976931348623157e308, 1e16, 0.01]
floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-10_000, 10_000).map(lambda cents: cents / 100),
    st.integers(-3, 3).map(float),
    st.sampled_from([*HARD, *(-value for value in HARD)]),
)
numbers = st.lists(floats, min_size=1, max_size=12)


def added(digits: Digits, window: DigitWindow) -> Digits:
    total = {
        slot: np.array([part.sum()], np.int64)
        for slot, part in relieve(digits, window, len(digits[0])).items()
    }
    return carry(total, window)


def exactly(digits: Digits, window: DigitWindow) -> Fraction:
    return sum(
        (int(part[0]) * Fraction(2) ** window.position(slot) for slot, part in digits.items()),
        Fraction(0),
    )


@WINDOWS
@given(values=numbers)
@example(values=[1e308, 1e308, -1e308])
@example(values=[float(2**60)] * 9)
def test_a_sum_in_digits_is_exact_and_rounded_once(
    window: DigitWindow, values: list[float]
) -> None:
    exact = sum(map(Fraction, values), Fraction(0))
    total = added(split(np.array(values), window), window)
    assert exactly(total, window) == exact
    (found,) = Exact.of_digits(total, window).rounded()
    assert found == nearest(exact)
    assert math.copysign(1, found) == math.copysign(1, nearest(exact))


@WINDOWS
@given(values=numbers)
def test_squares_are_exact(window: DigitWindow, values: list[float]) -> None:
    exact = sum((Fraction(value) ** 2 for value in values), Fraction(0))
    total = added(split_squares(np.array(values), window), window)
    assert exactly(total, window) == exact
    (found,) = Exact.of_digits(total, window).rounded()
    assert found == nearest(exact)


@WINDOWS
@given(one=numbers, other=numbers)
def test_a_number_has_one_form_whatever_way_leads_there(
    window: DigitWindow, one: list[float], other: list[float]
) -> None:
    there = [*one, *other, *(-value for value in other)]
    around, straight = (added(split(np.array(each), window), window) for each in (there, one))
    assert around.keys() == straight.keys()
    assert all((around[slot] == straight[slot]).all() for slot in straight)


@given(values=numbers, count=st.integers(1, 2**40), scale=st.integers(0, 38))
@example(values=[5e-324], count=2, scale=0)
@example(values=[5e-324, 5e-324, 5e-324], count=4, scale=0)
@example(values=[2.0**53, 1.0], count=2, scale=0)
@example(values=[-5e-324], count=2**40, scale=0)
def test_a_quotient_is_rounded_once(values: list[float], count: int, scale: int) -> None:
    exact = sum(map(Fraction, values), Fraction(0))
    total = Exact.of_digits(added(split(np.array(values), SUMS), SUMS), SUMS)
    (found,) = quotients(total, [np.array([count])], scale)
    assert found == nearest(exact / count / 10**scale)


@given(values=numbers, count=st.integers(1, 2**31) | st.integers(1, 2**50))
def test_a_spread_is_exact(values: list[float], count: int) -> None:
    array = np.array(values)
    total, square = added(split(array, SUMS), SUMS), added(split_squares(array, SQUARES), SQUARES)
    exact = Exact.of_digits(square, SQUARES).times(np.array([count]))
    difference = exact.minus(Exact.of_digits(total, SUMS).squared())
    expected = count * sum(Fraction(value) ** 2 for value in values)
    assert difference.at(0) == expected - sum(map(Fraction, values), Fraction(0)) ** 2


@given(st.integers(-(2**127), 2**127 - 1))
def test_whole_numbers_are_squared_exactly(number: int) -> None:
    parts = [
        (np.array([number & (2**32 - 1)]), 0),
        (np.array([(number >> 32) & (2**32 - 1)]), 32),
        (np.array([number >> 64]), 64),
    ]
    squared = Exact.of_parts(parts, 0, 5).squared()
    assert squared.at(0) == number**2
    digits = carry(squared.to_digits(), WHOLE_SQUARES)
    assert exactly(digits, WHOLE_SQUARES) == number**2


@given(st.lists(st.lists(floats | st.sampled_from([math.nan, math.inf]), max_size=4), max_size=5))
def test_what_is_packed_is_unpacked(rows: list[list[float]]) -> None:
    length = len(rows)
    per_row = [added(split(np.array([*row, 0.0]), SUMS), SUMS) for row in rows]
    slots = {slot for digits in per_row for slot in digits if slot not in range(SUMS.limbs)}
    outside = {
        slot: np.array([int(digits.get(slot, [0])[0]) for digits in per_row]) for slot in slots
    }
    column = pack(outside, length)
    assert len(column) == length
    found = unpack(column)
    assert {slot for slot in slots if outside[slot].any()} == found.keys()
    assert all((found[slot] == outside[slot]).all() for slot in found)


def test_nan_is_counted_apart() -> None:
    digits = split(np.array([1.0, math.nan, math.nan]), SUMS)
    assert digits[NAN].tolist() == [0, 1, 1]
    assert Exact.of_digits(carry(digits, SUMS), SUMS).rounded().tolist() == [1.0, 0.0, 0.0]
