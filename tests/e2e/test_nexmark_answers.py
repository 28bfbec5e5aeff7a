"""The answers that others are compared with are right, on data small enough to do by hand."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from tests.e2e.auction_answers import AUCTION as AUCTION_QUESTIONS
from tests.e2e.nexmark_answers import DAY, HOUR, MINUTE, NEXMARK, SECOND, Answers

from anabranch.workloads import nexmark
from anabranch.workloads.nexmark_events import AUCTION, BID, PERSON, side_input

URL = "https://www.nexmark.com/a/b/c/item.htm?query=1"


def clock(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def person(id: int, name: str, state: str, at: float) -> dict[str, Any]:
    blank = {"emailAddress": "", "creditCard": "", "city": "Bend", "extra": ""}
    return {"id": id, "name": name, "state": state, "dateTime": clock(at), **blank}


def auction(id: int, seller: int, category: int, opens: float, closes: float) -> dict[str, Any]:
    blank = {"itemName": "", "description": "", "initialBid": 1, "reserve": 2, "extra": "a"}
    times = {"dateTime": clock(opens), "expires": clock(closes)}
    return {"id": id, "seller": seller, "category": category, **times, **blank}


def bid(auction: int, bidder: int, price: int, at: float, channel: str = "Apple") -> dict[str, Any]:
    row = {"auction": auction, "bidder": bidder, "price": price, "channel": channel}
    return {**row, "url": URL, "dateTime": clock(at), "extra": "cab"}


TABLES = {
    "person": pa.Table.from_pylist(
        [person(1, "Ann", "OR", 2), person(2, "Bob", "WA", 3), person(3, "Eve", "CA", 12)], PERSON
    ),
    "auction": pa.Table.from_pylist(
        [
            auction(123, seller=1, category=10, opens=4, closes=14),
            auction(200, seller=1, category=11, opens=5, closes=16),
            auction(300, seller=2, category=10, opens=6, closes=18),
        ],
        AUCTION,
    ),
    "bid": pa.Table.from_pylist(
        [
            bid(123, 7, 50, 3),  # before the opening
            bid(123, 7, 20_000, 5),
            bid(123, 8, 30_000, 7),
            bid(200, 8, 2_000_000, 8, "channel-1"),
            bid(123, 7, 30_000, 14),  # at the instant of closing
            bid(300, 9, 400, 14),
            bid(300, 7, 40_000_000, 30),  # after it
        ],
        BID,
    ),
    "side_input": side_input(),
}
ANSWERS = Answers(TABLES, NEXMARK)


def at(query: str, seconds: float) -> list[tuple[Any, ...]]:
    return ANSWERS.at(query, round(seconds * SECOND))


def test_a_bid_is_there_at_its_own_instant() -> None:
    assert at("q0", 7) == [(123, 8, 30_000, clock(7), "cab")]
    assert at("q0", 7.000001) == []
    assert [row[:2] for row in at("q2", 14)] == [(123, 30_000)]
    assert at("q13", 8) == [(200, 8, 2_000_000, clock(8), "200")]
    assert at("q14", 8)[0][2:] == (1_816_000, "nightTime", clock(8), "cab", 1)
    assert at("q21", 7) == [(123, 8, 30_000, "Apple", "0")]
    assert at("q21", 8) == []
    assert at("q22", 7) == [(123, 8, 30_000, "Apple", "a", "b", "c")]


def test_open_auctions_hold_until_they_close() -> None:
    assert at("q3", 3.999999) == []
    assert at("q3", 4) == at("q3", 13.999999) == [("Ann", "Bend", "OR", 123)]
    assert at("q3", 14) == []
    assert [(row[0], row[11], row[12]) for row in at("q9", 9)] == [
        (123, 8, 30_000),
        (200, 8, 2_000_000),
    ]
    assert [row[0] for row in at("q9", 14)] == [200, 300]


def test_a_price_is_known_when_the_auction_closes() -> None:
    assert at("q4", 13.999999) == []
    assert at("q4", 14) == [(10, 30_000.0)]
    # The bid after the closing of 300 does not count.
    assert at("q4", 18) == [(10, 15_200.0), (11, 2_000_000.0)]
    assert at("q6", 18) == [(1, 1_015_000.0), (2, 400.0)]


def test_windows_change_one_instant_before_a_multiple_of_the_slide() -> None:
    assert at("q5", 3.999998) == []
    assert at("q5", 3.999999) == [(123, 1)]
    assert at("q5", 9.999999) == [(123, 3)]
    assert at("q7", 9.999998) == []
    assert at("q7", 9.999999) == [(200, 2_000_000, 8, clock(8), "cab")]
    assert at("q7", 20) == [(123, 30_000, 7, clock(14), "cab")]
    assert at("q8", 10) == [(1, "Ann", clock(0)), (2, "Bob", clock(0))]
    assert at("q8", 20) == []
    assert at("q12", 19) == [(7, 2, clock(0), clock(10)), (8, 2, clock(0), clock(10))]


def test_a_session_lasts_until_nothing_has_happened_for_ten_seconds() -> None:
    first = (7, 3, clock(3), clock(24))
    assert at("q11", 3) == [first]
    assert at("q11", 15) == [first, (8, 2, clock(7), clock(18)), (9, 1, clock(14), clock(24))]
    assert at("q11", 24) == []
    assert at("q11", 30) == [(7, 1, clock(30), clock(40))]


def test_the_report_of_a_day_is_there_when_it_is_over() -> None:
    day = DAY / SECOND
    assert at("q15", day - 0.000002) == []
    expected = ("1970-01-01", 7, 2, 3, 2, 3, 2, 2, 2, 3, 2, 1, 2)
    assert at("q15", day - 0.000001) == [expected]
    assert at("q15", 2 * day - 0.000001) == []
    assert [row[0] for row in at("q16", day)] == ["Apple", "channel-1"]
    assert at("q17", day)[0] == (123, "1970-01-01", 4, 1, 3, 0, 50, 30_000, 20_012.5, 80_050)


def test_the_last_and_the_best_bids_stay_for_ten_minutes() -> None:
    last = [(row[0], row[1], row[2]) for row in at("q18", 14)]
    assert last == [(123, 7, 30_000), (123, 8, 30_000), (200, 8, 2_000_000), (300, 9, 400)]
    assert [row[:2] for row in at("q18", 629.999999)] == [(300, 7)]
    assert len(at("q19", 14)) == 6


def test_a_bid_is_expanded_with_its_auction() -> None:
    assert [(row[0], row[2], row[14]) for row in at("q20", 14)] == [
        (123, 30_000, 10),
        (300, 400, 10),
    ]
    assert at("q20", 3) == []
    assert at("q20", 8) == []


def test_the_queries_of_the_dissertation() -> None:
    """Its numbers for Q3, Q4, Q5 and Q6, as worked out in hours and minutes."""

    def hours(n: float) -> datetime:
        return clock(n * HOUR / SECOND)

    opened = [(1, 1, 5.0, 0), (2, 2, 7.0, 2), (3, 1, 1.0, 4)]
    tables = {
        "bid": pa.Table.from_pylist(
            [
                {"itemID": item, "bidderID": 1, "price": price, "bidTS": clock(60 * minute)}
                for item, price, minute in [(11, 10.0, 0), (12, 8.0, 3), (13, 8.0, 5), (1, 9.0, 99)]
            ],
            nexmark.BID,
        ),
        "open_auction": pa.Table.from_pylist(
            [
                {"itemID": item, "sellerID": seller, "start_price": price, "openTS": hours(at)}
                for item, seller, price, at in opened
            ],
            nexmark.OPEN_AUCTION,
        ),
        "closed_auction": pa.Table.from_pylist(
            [
                {"itemID": item, "buyerID": None, "closeTS": hours(at)}
                for item, at in [(1, 4), (3, 4), (2, 7)]
            ],
            nexmark.CLOSED_AUCTION,
        ),
        "person": pa.Table.from_pylist(
            [{"id": 1, "name": "Ann", "registrationTime": hours(-8)}], nexmark.PERSON
        ),
    }
    answers = Answers(tables, AUCTION_QUESTIONS)
    assert answers.at("q3", 4 * HOUR) == [(1, 1, 5.0), (3, 1, 1.0)]
    assert answers.at("q3", 7 * HOUR) == []
    assert answers.at("q4", 10 * MINUTE - 1) == [(11, 10.0)]
    assert answers.at("q4", 10 * MINUTE) == [(12, 8.0), (13, 8.0)]
    assert answers.at("q5", 4 * HOUR) == [(1, 1, 9.0), (3, 1, 1.0)]
    assert answers.at("q6", 59 * MINUTE) == [(11,), (12,), (13,)]
    assert answers.at("q7", 9 * HOUR) == [(1, 5.0), (2, 7.0)]
    assert answers.at("q8", 0) == [(1, "Ann")]
    assert answers.at("q8", 4 * HOUR) == []
