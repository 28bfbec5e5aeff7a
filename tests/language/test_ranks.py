"""Functions with OVER and explode, as queries write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anabranch as ab

BIDS = """{"insert": {"item": "a", "price": 40, "tags": ["x", "y"]}, "start": 1, "end": 9}
{"insert": {"item": "a", "price": 70, "tags": []}, "start": 3, "end": 9}
{"insert": {"item": "b", "price": 50, "tags": null}, "start": 4, "end": 9}
{"stable": 20}
"""


@pytest.fixture
def engine(tmp_path: Path) -> ab.Engine:
    (tmp_path / "bids.jsonl").write_text(BIDS)
    engine = ab.Engine()
    engine.sql(
        "CREATE STREAM Bid (item TEXT, price INT, tags ARRAY<STRING>) "
        f"SOURCE '{tmp_path / 'bids.jsonl'}'"
    )
    return engine


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT price, ROW_NUMBER() OVER (ORDER BY price DESC) AS n, "
            "LAG(price, 1, 0) OVER (ORDER BY price DESC) - price AS less FROM Bid",
            [(40, 3, 10), (50, 2, 20), (70, 1, -70)],
        ),
        (
            "SELECT item, price, RANK() OVER (PARTITION BY item ORDER BY price) AS r FROM Bid",
            [("a", 40, 1), ("a", 70, 2), ("b", 50, 1)],
        ),
        (
            "SELECT item, RANK() OVER (ORDER BY SUM(price) DESC) AS r FROM Bid GROUP BY item",
            [("a", 1), ("b", 2)],
        ),
        (
            "SELECT n, price FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY price) AS n FROM Bid) "
            "WHERE n <= 2",
            [(1, 40), (2, 50)],
        ),
        (
            "SELECT price, n FROM (SELECT price, DENSE_RANK() OVER (ORDER BY price) AS n FROM Bid) "
            "WHERE n > 1",
            [(50, 2), (70, 3)],
        ),
        ("SELECT price, explode(tags) AS tag FROM Bid", [(40, "x"), (40, "y")]),
        (
            "SELECT price, explode_outer(tags) AS tag FROM Bid WHERE item = 'b'",
            [(50, None)],
        ),
        (
            "SELECT tag, COUNT(*) AS n FROM (SELECT explode(tags) AS tag FROM Bid) GROUP BY tag",
            [("x", 1), ("y", 1)],
        ),
    ],
)
def test_queries_rank_and_explode(
    engine: ab.Engine, query: str, rows: list[tuple[Any, ...]]
) -> None:
    found = engine.sql(query).run_local().snapshot(5).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == rows


def test_the_first_rows_are_kept_where_their_number_is_not_selected(engine: ab.Engine) -> None:
    query = (
        "SELECT price FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY price) AS n FROM Bid) "
        "WHERE n <= 2"
    )
    assert "TopK 2" in engine.sql(query).explain()


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT RANK() OVER (PARTITION BY item) AS r FROM Bid", "RANK needs an ORDER BY"),
        ("SELECT SUM(price) OVER (ORDER BY price) AS s FROM Bid", "not supported with OVER"),
        ("SELECT LAG(price, item) OVER (ORDER BY price) AS s FROM Bid", "must be a number"),
        ("SELECT explode(price) AS s FROM Bid", "has no items"),
        ("SELECT explode(tags) AS s, explode(tags) AS t FROM Bid", "one array only"),
        ("SELECT upper(explode(tags)) AS s FROM Bid", "makes several rows out of one"),
    ],
)
def test_what_is_wrong_is_said(engine: ab.Engine, query: str, what: str) -> None:
    with pytest.raises(ab.AnabranchError, match=what):
        engine.sql(query)
