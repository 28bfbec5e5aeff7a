"""What the queries of Nexmark answer at an instant, computed by DuckDB over all events at once.

Written by hand from what the queries say, without any code of the engine: a row without a window
is there at its own instant; a window shows the rows of (h - size, h], where h is the last instant
before a multiple of the slide that is not later than the instant asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

Row: TypeAlias = tuple[Any, ...]
Question: TypeAlias = Callable[[int], str]


class Answers:
    """The tables of all events, and the answers to queries over them."""

    def __init__(self, tables: Mapping[str, pa.Table], questions: Mapping[str, Question]) -> None:
        """Give every table the columns `<name>_us` for its times, as integers."""
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        self._questions = questions
        for name, table in tables.items():
            self._connection.register(f"given_{name}", table)
            times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
            more = "".join(f', epoch_us("{time}") AS {time}_us' for time in times)
            self._connection.execute(f"CREATE TABLE {name} AS SELECT *{more} FROM given_{name}")

    def at(self, query: str, instant: int) -> list[Row]:
        """The rows of the answer, in some fixed order."""
        found = self._connection.execute(self._questions[query](instant)).fetchall()
        return sorted(found, key=repr)


def shown(stream: str, time: str, at: int, size: int = 1, slide: int = 1) -> str:
    """The rows of a stream that a window shows."""
    last = (at + 1) // slide * slide - 1
    return f"(SELECT * FROM {stream} WHERE {time}_us > {last - size} AND {time}_us <= {last})"


def bids(at: int, size: int = 1, slide: int = 1) -> str:
    return shown("bid", "dateTime", at, size, slide)


def window_of(at: int, size: int, slide: int) -> tuple[str, str]:
    """The start and the end of the window that is shown, as SQL."""
    end = (at + 1) // slide * slide
    return f"make_timestamptz({end - size})", f"make_timestamptz({end})"


def q3(at: int) -> str:
    persons = shown("person", "dateTime", at, DAY)
    return f"""
        SELECT P.name, P.city, P.state, A.id
        FROM auction A JOIN {persons} P ON A.seller = P.id
        WHERE A.dateTime_us <= {at} AND {at} < A.expires_us
          AND A.category = 10 AND P.state IN ('OR', 'ID', 'CA')"""


def closed(at: int, size: int) -> str:
    """The auctions that have closed in a period, with their highest bid."""
    return f"""
        (SELECT A.id, A.category, A.seller, A.expires_us, max(B.price) AS final
         FROM auction A JOIN bid B ON A.id = B.auction
         WHERE A.expires_us > {at - size} AND A.expires_us <= {at}
           AND B.dateTime_us BETWEEN A.dateTime_us AND A.expires_us
           AND B.dateTime_us > A.expires_us - {20 * SECOND}
         GROUP BY ALL)"""


def q4(at: int) -> str:
    return f"SELECT category, avg(final) FROM {closed(at, DAY)} GROUP BY category"


def q5(at: int) -> str:
    return f"""
        SELECT auction, count(*) AS num FROM {bids(at, 10 * SECOND, 2 * SECOND)} GROUP BY auction
        QUALIFY num = max(num) OVER ()"""


def q6(at: int) -> str:
    return f"""
        SELECT seller, avg(final) FROM (
          SELECT * FROM {closed(at, 1000 * DAY)}
          QUALIFY row_number() OVER (PARTITION BY seller ORDER BY expires_us DESC, id DESC) <= 10)
        GROUP BY seller"""


def q7(at: int) -> str:
    return f"""
        SELECT auction, price, bidder, dateTime, extra FROM {bids(at, 10 * SECOND, 10 * SECOND)}
        QUALIFY price = max(price) OVER ()"""


def q8(at: int) -> str:
    persons = shown("person", "dateTime", at, 10 * SECOND, 10 * SECOND)
    auctions = shown("auction", "dateTime", at, 10 * SECOND, 10 * SECOND)
    start, _ = window_of(at, 10 * SECOND, 10 * SECOND)
    return f"""
        SELECT DISTINCT id, name, {start} FROM {persons}
        WHERE id IN (SELECT seller FROM {auctions})"""


def q9(at: int) -> str:
    return f"""
        SELECT A.* EXCLUDE (dateTime_us, expires_us),
          B.auction, B.bidder, B.price, B.dateTime, B.extra
        FROM auction A JOIN {bids(at, 20 * SECOND)} B ON A.id = B.auction
        WHERE A.dateTime_us <= {at} AND {at} < A.expires_us AND B.dateTime_us >= A.dateTime_us
        QUALIFY row_number() OVER (
          PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.bidder, B.extra) = 1"""


def q11(at: int) -> str:
    return f"""
        WITH marked AS (
          SELECT bidder, dateTime_us AS t,
            coalesce(t - lag(t) OVER theirs >= {10 * SECOND}, true) AS is_first
          FROM bid WINDOW theirs AS (PARTITION BY bidder ORDER BY dateTime_us)),
        numbered AS (
          SELECT bidder, t, count_if(is_first) OVER (
            PARTITION BY bidder ORDER BY t, NOT is_first ROWS UNBOUNDED PRECEDING) AS session
          FROM marked)
        SELECT bidder, count(*), make_timestamptz(min(t)), make_timestamptz(max(t) + {10 * SECOND})
        FROM numbered GROUP BY bidder, session
        HAVING min(t) <= {at} AND {at} < max(t) + {10 * SECOND}"""


def q12(at: int) -> str:
    start, end = window_of(at, 10 * SECOND, 10 * SECOND)
    return f"""
        SELECT bidder, count(*), {start}, {end}
        FROM {bids(at, 10 * SECOND, 10 * SECOND)} GROUP BY bidder"""


def q14(at: int) -> str:
    return f"""
        SELECT auction, bidder, 0.908 * price,
          CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
               WHEN hour(dateTime) BETWEEN 7 AND 19 THEN 'otherTime' ELSE 'nightTime' END,
          dateTime, extra, len(regexp_extract_all(extra, 'c'))
        FROM {bids(at)} WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"""


_RANKS: Final = {
    "total": "true",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def _ranked(*measures: str) -> str:
    return ", ".join(f"{each} FILTER ({rank})" for each in measures for rank in _RANKS.values())


def q15(at: int) -> str:
    return f"""
        SELECT strftime({window_of(at, DAY, DAY)[0]}, '%Y-%m-%d'),
          {_ranked("count(*)", "count(DISTINCT bidder)", "count(DISTINCT auction)")}
        FROM {bids(at, DAY, DAY)} HAVING count(*) > 0"""


def q16(at: int) -> str:
    return f"""
        SELECT channel, strftime({window_of(at, DAY, DAY)[0]}, '%Y-%m-%d'),
          max(strftime(dateTime, '%H:%M')),
          {_ranked("count(*)", "count(DISTINCT bidder)", "count(DISTINCT auction)")}
        FROM {bids(at, DAY, DAY)} GROUP BY channel"""


def q17(at: int) -> str:
    return f"""
        SELECT auction, strftime({window_of(at, DAY, DAY)[0]}, '%Y-%m-%d'), {_ranked("count(*)")},
          min(price), max(price), avg(price), sum(price)::BIGINT
        FROM {bids(at, DAY, DAY)} GROUP BY auction"""


_BID: Final = "auction, bidder, price, channel, url, dateTime, extra"


def q18(at: int) -> str:
    return f"""
        SELECT {_BID} FROM {bids(at, 10 * MINUTE)}
        QUALIFY row_number() OVER (
          PARTITION BY bidder, auction ORDER BY dateTime DESC, {_BID}) = 1"""


def q19(at: int) -> str:
    return f"""
        SELECT {_BID} FROM {bids(at, 10 * MINUTE)}
        QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC, {_BID}) <= 10"""


def q20(at: int) -> str:
    auctions = shown("auction", "dateTime", at, 10 * MINUTE)
    return f"""
        SELECT B.* EXCLUDE (dateTime_us), A.itemName, A.description, A.initialBid, A.reserve,
          A.dateTime, A.expires, A.seller, A.category, A.extra
        FROM {bids(at)} B JOIN {auctions} A ON B.auction = A.id WHERE A.category = 10"""


def q21(at: int) -> str:
    return f"""
        SELECT auction, bidder, price, channel, coalesce(
          CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
            WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' END,
          split_part(url, 'channel_id=', 2)) AS channel_id
        FROM {bids(at)} WHERE channel_id <> ''"""


NEXMARK: Final[Mapping[str, Question]] = {
    "q0": lambda at: f"SELECT auction, bidder, price, dateTime, extra FROM {bids(at)}",
    "q1": lambda at: (
        f"""
        SELECT auction, bidder, 0.908 * price, dateTime, extra FROM {bids(at)}"""
    ),
    "q2": lambda at: f"SELECT auction, price FROM {bids(at)} WHERE auction % 123 = 0",
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q6": q6,
    "q7": q7,
    "q8": q8,
    "q9": q9,
    "q10": lambda at: (
        f"""
        SELECT auction, bidder, price, dateTime, extra,
          strftime(dateTime, '%Y-%m-%d'), strftime(dateTime, '%H:%M') FROM {bids(at)}"""
    ),
    "q11": q11,
    "q12": q12,
    "q13": lambda at: (
        f"""
        SELECT auction, bidder, price, dateTime, S.value
        FROM {bids(at)} JOIN side_input S ON auction % 10000 = S.key"""
    ),
    "q14": q14,
    "q15": q15,
    "q16": q16,
    "q17": q17,
    "q18": q18,
    "q19": q19,
    "q20": q20,
    "q21": q21,
    "q22": lambda at: (
        f"""
        SELECT auction, bidder, price, channel,
          string_split(url, '/')[4], string_split(url, '/')[5], string_split(url, '/')[6]
        FROM {bids(at)}"""
    ),
}
"""The public benchmark, in the forms of examples/nexmark."""
