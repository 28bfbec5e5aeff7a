"""The number of different values, guessed from a sample."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.model.numbers.distinct_values import SAMPLE_ROWS, distinct_values, sample_positions


@pytest.mark.parametrize("values", [1, 10, 300, 5_000, 100_000])
@pytest.mark.parametrize("rows", [20_000, 1_000_000])
def test_equally_frequent_values_are_guessed_well(values: int, rows: int) -> None:
    drawn = np.random.default_rng(values).integers(0, values, rows).astype(np.uint64)
    guess = distinct_values(drawn[sample_positions(rows)])
    assert 0.7 * values < guess < 1.4 * values


def test_a_column_without_equal_values_has_very_many() -> None:
    assert distinct_values(np.arange(4000, dtype=np.uint64)) > 1e6


def test_rare_values_are_missed_and_never_invented() -> None:
    drawn = np.random.default_rng(1).zipf(1.5, 200_000).astype(np.uint64)
    guess = distinct_values(drawn[sample_positions(len(drawn))])
    assert 50 < guess < 1.5 * len(np.unique(drawn))


def test_nothing_has_no_values() -> None:
    assert distinct_values(np.array([], np.uint64)) == 0


@pytest.mark.parametrize("length", [0, 1, 5, 4095, 4096, 4097, 1_000_000])
def test_a_sample_is_small_and_spread(length: int) -> None:
    found = sample_positions(length)
    assert len(found) <= SAMPLE_ROWS
    assert len(found) >= min(length, SAMPLE_ROWS // 2)
    assert (found < length).all()
