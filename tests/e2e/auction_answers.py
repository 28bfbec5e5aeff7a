"""What the dissertation's queries over an online auction answer at an instant, by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.e2e.nexmark_answers import DAY, HOUR, MINUTE, Question, shown


def _bids(at: int, size: int = 1) -> str:
    return shown("bid", "bidTS", at, size)


def q3(at: int) -> str:
    opened = shown("open_auction", "openTS", at, 5 * HOUR)
    closed = shown("closed_auction", "closeTS", at)
    return f"""
        SELECT O.itemID, O.sellerID, O.start_price
        FROM {opened} O JOIN {closed} C ON O.itemID = C.itemID"""


def q4(at: int) -> str:
    return f"""
        SELECT itemID, price FROM {_bids(at, 10 * MINUTE)} QUALIFY price = max(price) OVER ()"""


def _closing(low: int, high: int) -> str:
    """The auctions that closed in [low, high], at most two days after they opened."""
    return f"""
        (SELECT O.itemID, O.sellerID, C.closeTS_us, greatest(O.start_price, (
           SELECT max(price) FROM bid B WHERE B.itemID = O.itemID
             AND B.bidTS_us > C.closeTS_us - {2 * DAY} AND B.bidTS_us <= C.closeTS_us)) AS price
         FROM open_auction O JOIN closed_auction C ON O.itemID = C.itemID
         WHERE C.closeTS_us BETWEEN {low} AND {high}
           AND O.openTS_us > C.closeTS_us - {2 * DAY} AND O.openTS_us <= C.closeTS_us)"""


def q6(at: int) -> str:
    return f"""
        SELECT itemID FROM (
          SELECT itemID, count(*) AS num FROM {_bids(at, HOUR)} GROUP BY itemID)
        QUALIFY num = max(num) OVER ()"""


def q7(at: int) -> str:
    return f"""
        SELECT sellerID, avg(price) FROM (
          SELECT * FROM {_closing(0, at)}
          QUALIFY row_number() OVER (PARTITION BY sellerID ORDER BY closeTS_us DESC) <= 10)
        GROUP BY sellerID"""


def q8(at: int) -> str:
    registered = shown("person", "registrationTime", at, 12 * HOUR)
    opened = shown("open_auction", "openTS", at)
    return f"""
        SELECT DISTINCT P.id, P.name FROM {registered} P JOIN {opened} O ON P.id = O.sellerID"""


AUCTION: Final[Mapping[str, Question]] = {
    "q1": lambda at: f"SELECT itemID, 0.8::DOUBLE * price, bidderID FROM {_bids(at)}",
    "q2": lambda at: (
        f"""
        SELECT itemID, price, bidderID FROM {_bids(at)}
        WHERE itemID IN (1007, 1020, 2001, 2019, 1087)"""
    ),
    "q3": q3,
    "q4": q4,
    "q5": lambda at: f"SELECT itemID, sellerID, price FROM {_closing(at, at)}",
    "q6": q6,
    "q7": q7,
    "q8": q8,
}
"""The queries of Kraemer (2007), section 7.2, in the forms of examples/auction."""
