"""The reach of a change in words: for any instant, with the units of the stream."""

from __future__ import annotations

import pytest
from tests.language.streams import plan

from anabranch.algebra.analysis.reach_in_words import describe_reach
from anabranch.algebra.node import clock_of


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "SELECT itemID FROM Bid WHERE bid_price > 80",
            "the answers at t and needs Bid at t",
        ),
        (
            "SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 5 MINUTES)",
            "the answers of [t, t + 5m) and needs Bid from t - 5m to t + 5m",
        ),
        (
            "SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 5 MINUTES SLIDE 1 MINUTE)",
            "the answers of [t, t + 6m) and needs Bid from t - 5m to t + 5m",
        ),
        (
            "SELECT AVG(bid_price) FROM Bid GROUP BY TUMBLING(10 MINUTES)",
            "the answers of [t - 10m, t + 10m) and needs Bid from t - 10m to t + 10m",
        ),
        (
            "SELECT itemID FROM Bid WINDOW(ROWS 10)",
            "the answers from t to the newest row and needs all of Bid",
        ),
        (
            "SELECT itemID FROM SESSION(Bid, DESCRIPTOR(timestamp), INTERVAL '9' MINUTES)",
            "all answers and needs all of Bid",
        ),
        (
            "SELECT itemID FROM CLIP(Bid, start => '2020-01-01 00:00:00')",
            "the answers at t and needs Bid at t",
        ),
        (
            "SELECT sellerID FROM Bid WINDOW(RANGE 5 MINUTES) b, "
            "OpenAuction WINDOW(RANGE 1 HOUR) o WHERE b.itemID = o.itemID",
            "the answers of [t, t + 5m) and needs Bid from t - 5m to t + 5m, "
            "OpenAuction from t - 1h to t + 5m",
        ),
    ],
)
def test_a_change_at_an_instant(query: str, words: str) -> None:
    node = plan(query)
    assert describe_reach(node, "Bid", clock_of(node)) == f"a change of Bid at t reaches {words}"


def test_a_source_that_is_not_read_reaches_nothing() -> None:
    node = plan("SELECT itemID FROM Bid")
    assert describe_reach(node, "Ask", clock_of(node)) == "a change of Ask reaches no answer"
