"""The modules keep what Anabranch relies on, and give what they promise."""

from __future__ import annotations

from anabranch_example_module.prices import Streak, streaks, vwap

import anabranch as ab
from anabranch.testing import check_module


def test_vwap_is_a_good_module() -> None:
    check_module(vwap)


def test_vwap_weighs_prices_with_pieces() -> None:
    assert vwap([10.0, 20.0], [3, 1]) == 12.5
    assert vwap([], []) is None


def test_streaks_is_a_good_module() -> None:
    check_module(streaks, parameters={"least": 1})


def test_a_streak_lasts_from_its_first_price_to_its_last() -> None:
    prices = [5.0, 6.0, 8.0, 7.0, 9.0]
    events = [ab.Event(price, 10 * at, 10 * at + 1) for at, price in enumerate(prices)]
    found = list(streaks(events, ab.Window(0, 100)))
    assert found == [ab.Event(Streak(2, 3.0), 0, 20)]
