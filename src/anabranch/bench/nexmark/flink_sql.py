"""The text of the public Nexmark queries for Flink SQL (github.com/nexmark/nexmark)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _statistics(*measures: str) -> str:
    """Measures over all bids and over those of three ranges of prices."""
    ranks = (
        "",
        " FILTER (WHERE price < 10000)",
        " FILTER (WHERE price >= 10000 AND price < 1000000)",
        " FILTER (WHERE price >= 1000000)",
    )
    columns = [f"{measure}{rank}" for measure in measures for rank in ranks]
    return ", ".join(f"{column} AS s{number}" for number, column in enumerate(columns))


_DAY: Final = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
_COUNTS: Final = _statistics("COUNT(*)", "COUNT(DISTINCT bidder)", "COUNT(DISTINCT auction)")
_BID: Final = "auction, bidder, price, channel, url, `dateTime`, extra"


def _tumble(stream: str, span: str = "INTERVAL '10' SECOND") -> str:
    return f"TABLE(TUMBLE(TABLE {stream}, DESCRIPTOR(`dateTime`), {span}))"


_HOP: Final = (
    "TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
)
_SESSION: Final = (
    "TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"
)

QUERIES: Final[Mapping[str, str]] = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id
        FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": """
        SELECT Q.category, AVG(Q.final) AS final FROM (
          SELECT MAX(B.price) AS final, A.category FROM auction A, bid B
          WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
          GROUP BY A.id, A.category) Q
        GROUP BY Q.category""",
    "q5": f"""
        SELECT A.auction, A.num FROM (
          SELECT auction, COUNT(*) AS num, window_start, window_end FROM {_HOP}
          GROUP BY auction, window_start, window_end) AS A
        JOIN (
          SELECT MAX(num) AS maxn, window_start, window_end FROM (
            SELECT COUNT(*) AS num, window_start, window_end FROM {_HOP}
            GROUP BY auction, window_start, window_end)
          GROUP BY window_start, window_end) AS M
        ON A.window_start = M.window_start AND A.window_end = M.window_end AND A.num >= M.maxn""",
    "q7": f"""
        SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra FROM bid B JOIN (
          SELECT MAX(price) AS maxprice, window_end AS `dateTime` FROM {_tumble("bid")}
          GROUP BY window_start, window_end) B1
        ON B.price = B1.maxprice
        WHERE B.`dateTime` BETWEEN B1.`dateTime` - INTERVAL '10' SECOND AND B1.`dateTime`""",
    "q8": f"""
        SELECT P.id, P.name, P.window_start FROM (
          SELECT id, name, window_start, window_end FROM {_tumble("person")}
          GROUP BY id, name, window_start, window_end) P
        JOIN (
          SELECT seller, window_start, window_end FROM {_tumble("auction")}
          GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end""",
    "q9": """
        SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller,
          category, extra, auction, bidder, price, bid_dateTime, bid_extra
        FROM (
          SELECT A.*, B.auction, B.bidder, B.price, B.`dateTime` AS bid_dateTime,
            B.extra AS bid_extra, ROW_NUMBER() OVER (
              PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum
          FROM auction A, bid B
          WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires)
        WHERE rownum <= 1""",
    "q10": f"""
        SELECT auction, bidder, price, `dateTime`, extra, {_DAY} AS dt,
          DATE_FORMAT(`dateTime`, 'HH:mm') AS hm FROM bid""",
    "q11": f"""
        SELECT bidder, COUNT(*) AS bid_count, window_start, window_end FROM {_SESSION}
        GROUP BY bidder, window_start, window_end""",
    "q12": f"""
        SELECT bidder, COUNT(*) AS bid_count, window_start, window_end FROM {_tumble("bid")}
        GROUP BY bidder, window_start, window_end""",
    "q13": """
        SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.`value`
        FROM bid AS B JOIN side_input AS S ON MOD(B.auction, 10000) = S.key""",
    "q14": """
        SELECT auction, bidder, 0.908 * price AS price,
          CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'
               WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime'
               ELSE 'otherTime' END AS bidTimeType,
          `dateTime`, extra,
          CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS dt, {_COUNTS} FROM bid GROUP BY {_DAY}",
    "q16": f"""
        SELECT channel, {_DAY} AS dt, MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS hm, {_COUNTS}
        FROM bid GROUP BY channel, {_DAY}""",
    "q17": f"""
        SELECT auction, {_DAY} AS dt, {_statistics("COUNT(*)")}, MIN(price) AS low,
          MAX(price) AS high, AVG(price) AS middle, SUM(price) AS total
        FROM bid GROUP BY auction, {_DAY}""",
    "q18": f"""
        SELECT {_BID} FROM (
          SELECT *, ROW_NUMBER() OVER (
            PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number FROM bid)
        WHERE rank_number <= 1""",
    "q19": f"""
        SELECT {_BID} FROM (
          SELECT *, ROW_NUMBER() OVER (
            PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid)
        WHERE rank_number <= 10""",
    "q20": """
        SELECT auction, bidder, price, channel, url, B.`dateTime` AS bid_dateTime,
          B.extra AS bid_extra, itemName, description, initialBid, reserve,
          A.`dateTime` AS auction_dateTime, expires, seller, category, A.extra AS auction_extra
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10""",
    "q21": """
        SELECT auction, bidder, price, channel,
          CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' THEN '1'
               WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3'
               ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL
          OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
          SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid""",
}
"""All but q6, which Flink does not support."""
