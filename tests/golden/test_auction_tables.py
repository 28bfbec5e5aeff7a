"""The auction queries of Kraemer (2007, sections 7.2, 12.3, 17), as printed, on worked data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine import Engine
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER

Rows = Sequence[tuple[Any, ...]]
INF = FOREVER

SCHEMAS: Mapping[str, Sequence[tuple[str, str]]] = {
    "OpenAuction": (("itemID", "INT"), ("sellerID", "STRING"), ("start_price", "DOUBLE")),
    "ClosedAuction": (("itemID", "INT"), ("buyerID", "INT")),
    "Bid": (("itemID", "INT"), ("bid_price", "DOUBLE"), ("bidderID", "INT")),
    "Person": (("id", "INT"), ("name", "STRING")),
    "A": (("k", "STRING"),),
    "B": (("k", "STRING"),),
    "S": (("e", "STRING"),),
}

HIGHEST = """
SELECT itemID, bid_price
FROM   Bid WINDOW(RANGE 10 MINUTES)
WHERE  bid_price = (SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 10 MINUTES));
"""
CLOSING = """
CREATE STREAM CurrentPrice AS
  SELECT P.itemID, P.price, O.sellerID AS sellerID
  FROM ((SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS))
        UNION ALL
        (SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
       ClosedAuction C,
       OpenAuction O WINDOW(RANGE 2 DAYS)
  WHERE P.itemID = C.itemID AND C.itemID = O.itemID;
CREATE STREAM ClosingPriceStream AS
  SELECT itemID, sellerID, MAX(P.price) AS price
  FROM CurrentPrice P
  GROUP BY P.itemID, P.sellerID;
"""
CLOSING_DATA: Mapping[str, Rows] = {
    "OpenAuction": [(1, "s1", 5.0, 0), (2, "s2", 7.0, 1), (3, "s3", 9.0, 2)],
    "Bid": [(1, 6.0, None, 3), (1, 8.0, None, 5), (1, 7.5, None, 5)],
    "ClosedAuction": [(1, None, 10), (2, None, 20), (3, None, 50)],
}
HOT = """
SELECT itemID
FROM (SELECT B1.itemID AS itemID, COUNT(*) AS num
      FROM Bid [RANGE 60 MINUTES] B1 GROUP BY B1.itemID)
WHERE num >= ALL (SELECT COUNT(*)
                  FROM Bid [RANGE 60 MINUTES] B2 GROUP BY B2.itemID);
"""
BIDS_10 = [(11, 10.0, 1, 0), (12, 8.0, 1, 3), (13, 8.0, 1, 5)]
L3 = [("c", 1), ("a", 2), ("b", 3), ("b", 4), ("a", 5), ("c", 6)]


def answer(
    folder: Path, script: str, data: Mapping[str, Rows], chronon: str, **options: bool
) -> LogicalStream:
    """What a script gives on rows whose last value is their time."""
    engine = Engine()
    for name, rows in data.items():
        columns = [*SCHEMAS[name], ("at", "BIGINT")]
        lines = [json.dumps(dict(zip([column for column, _ in columns], row))) for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        declared = ", ".join(f"{column} {kind}" for column, kind in columns)
        engine.sql(
            f"CREATE STREAM {name} ({declared}) SOURCE '{folder / f'{name}.jsonl'}' "
            f"ORDERED BY at CHRONON {chronon} WITH (ends = TRUE)"
        )
    run = engine.sql(script).run_local(**options)
    return LogicalStream.of_batches(run._sink.batches())


@pytest.mark.parametrize(
    ("script", "data", "chronon", "expected"),
    [
        pytest.param(
            "CREATE FUNCTION DolToEuro(x DOUBLE) RETURNS DOUBLE RETURN 0.8D * x;"
            "SELECT itemID, DolToEuro(bid_price), bidderID FROM Bid;",
            {"Bid": [(1007, 10.0, 5, 3), (1007, 10.0, 5, 3), (1020, 20.0, 6, 4)]},
            "1 SECOND",
            [((1007, 8.0, 5), 3, 4), ((1007, 8.0, 5), 3, 4), ((1020, 16.0, 6), 4, 5)],
            id="Q1 currency conversion",
        ),
        pytest.param(
            "SELECT Bid.* FROM Bid WHERE itemID = 1007 OR itemID = 1020 OR itemID = 2001 "
            "OR itemID = 2019 OR itemID = 1087;",
            {"Bid": [(1007, 10.0, 5, 1), (5, 3.0, 6, 1), (2019, 1.0, 6, 2)]},
            "1 SECOND",
            [((1007, 10.0, 5), 1, 2), ((2019, 1.0, 6), 2, 3)],
            id="Q2 selection",
        ),
        pytest.param(
            "SELECT OpenAuction.* FROM OpenAuction O WINDOW(RANGE 5 HOURS), ClosedAuction C "
            "WHERE O.itemID = C.itemID;",
            {
                "OpenAuction": [(1, "s1", 5.0, 0), (2, "s2", 7.0, 2), (3, "s1", 1.0, 4)],
                "ClosedAuction": [(1, None, 4), (3, None, 4), (2, None, 7)],
            },
            "1 HOUR",
            [((1, "s1", 5.0), 4, 5), ((3, "s1", 1.0), 4, 5)],
            id="Q3 short auctions; exactly five hours are too long",
        ),
        pytest.param(
            HIGHEST,
            {"Bid": BIDS_10},
            "1 MINUTE",
            [((11, 10.0), 0, 10), ((12, 8.0), 10, 13), ((13, 8.0), 10, 15)],
            id="Q4 highest bid, with ties, and results where nothing arrives",
        ),
        pytest.param(
            HIGHEST,
            {"Bid": [*BIDS_10, (14, 12.0, 1, 7)]},
            "1 MINUTE",
            [((11, 10.0), 0, 7), ((14, 12.0), 7, 17)],
            id="Q4 with a higher bid",
        ),
        pytest.param(
            HIGHEST.replace("10 MINUTES", "10 MINUTES SLIDE 10 MINUTES"),
            {"Bid": [*BIDS_10, (14, 12.0, 1, 7)]},
            "1 MINUTE",
            [((14, 12.0), 9, 19)],
            id="Q4' highest bid, tumbling",
        ),
        pytest.param(
            CLOSING + "SELECT * FROM CurrentPrice;",
            CLOSING_DATA,
            "1 HOUR",
            [
                ((1, 5.0, "s1"), 10, 11),
                ((1, 6.0, "s1"), 10, 11),
                ((1, 7.5, "s1"), 10, 11),
                ((1, 8.0, "s1"), 10, 11),
                ((2, 7.0, "s2"), 20, 21),
            ],
            id="Q5 current price",
        ),
        pytest.param(
            CLOSING + "SELECT * FROM ClosingPriceStream;",
            CLOSING_DATA,
            "1 HOUR",
            [((1, "s1", 8.0), 10, 11), ((2, "s2", 7.0), 20, 21)],
            id="Q5 closing price; exactly two days are too long",
        ),
        pytest.param(
            HOT,
            {"Bid": [(1, 1.0, 1, 0), (1, 1.0, 1, 10), (2, 1.0, 1, 20), (2, 1.0, 1, 65)]},
            "1 MINUTE",
            [((1,), 0, 65), ((2,), 60, 125)],
            id="Q6 hot item",
        ),
        pytest.param(
            "CREATE STREAM NewPersonStream AS SELECT P.id, P.name FROM Istream(Person) P;"
            "SELECT DISTINCT P.id, P.name FROM NewPersonStream P WINDOW(RANGE 12 HOURS), "
            "OpenAuction O WHERE CAST(P.id AS STRING) = O.sellerID;",
            {
                "Person": [(7, "Ann", 1), (8, "Bob", 2)],
                "OpenAuction": [(1, "7", 1.0, 5), (2, "7", 1.0, 5), (3, "8", 1.0, 14)],
            },
            "1 HOUR",
            [((7, "Ann"), 5, 6)],
            id="Q8 new users; exactly twelve hours are too long",
        ),
        pytest.param(
            "SELECT A.k FROM A, B WHERE A.k = B.k",
            {"A": [("k", 1), ("k", 3)], "B": [("k", 2), ("k", 3)]},
            "1 SECOND",
            [(("k",), 3, 4)],
            id="without windows only equal instants meet",
        ),
        pytest.param(
            "SELECT e FROM S WINDOW(ROWS 3) WHERE e = 'a'",
            {"S": L3},
            "1 SECOND",
            [(("a",), 2, INF)],
            id="a window of rows counts before the filter",
        ),
        pytest.param(
            "SELECT e FROM (SELECT * FROM S WHERE e = 'a') WINDOW(ROWS 3)",
            {"S": L3},
            "1 SECOND",
            [(("a",), 2, INF), (("a",), 5, INF)],
            id="a window of rows behind a filter counts what is left",
        ),
    ],
)
def test_worked_tables(
    script: str, data: Mapping[str, Rows], chronon: str, expected: Rows, tmp_path: Path
) -> None:
    assert answer(tmp_path, script, data, chronon) == LogicalStream.of(expected)


def test_q7_average_selling_price_by_seller(tmp_path: Path) -> None:
    # The closing prices of the worked example, as auctions that open, get one bid and close.
    data: Mapping[str, Rows] = {
        "OpenAuction": [
            (1, "s1", 0.0, 9),
            (2, "s2", 0.0, 19),
            (4, "s1", 0.0, 24),
            (5, "s1", 0.0, 29),
        ],
        "Bid": [(1, 8.0, None, 9), (2, 7.0, None, 19), (4, 4.0, None, 24), (5, 6.0, None, 29)],
        "ClosedAuction": [(1, None, 10), (2, None, 20), (4, None, 25), (5, None, 30)],
    }
    script = (
        CLOSING + "SELECT sellerID, AVG(price) "
        "FROM ClosingPriceStream WINDOW(PARTITION BY sellerID ROWS 2) GROUP BY sellerID;"
    )
    expected = [
        (("s1", 8.0), 10, 25),
        (("s1", 6.0), 25, 30),
        (("s1", 5.0), 30, INF),
        (("s2", 7.0), 20, INF),
    ]
    assert answer(tmp_path, script, data, "1 HOUR") == LogicalStream.of(expected)


def test_without_bound_everything_meets(tmp_path: Path) -> None:
    data = {"A": [("k", 1), ("k", 3)], "B": [("k", 2), ("k", 3)]}
    script = "SELECT A.k FROM A WINDOW(RANGE UNBOUNDED), B WINDOW(RANGE UNBOUNDED) WHERE A.k = B.k"
    expected = [(("k",), 2, INF), *[(("k",), 3, INF)] * 3]
    found = answer(tmp_path, script, data, "1 SECOND", allow_unbounded=True)
    assert found == LogicalStream.of(expected)
