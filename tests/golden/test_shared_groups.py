"""What the queries of a group share, as text: every plan, and who reads each part with state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from anabranch.algebra.explain import explain_tree
from anabranch.algebra.node import Node
from anabranch.engine import Engine
from anabranch.planning import plan_queries

GOLDEN: Final = Path(__file__).parent / "shared_groups.txt"
SCRIPT: Final = """
CREATE STREAM Bid (item INT, price DOUBLE, at BIGINT) SOURCE 'bids.csv' ORDERED BY at;
CREATE STREAM Sale (item INT, amount DOUBLE, at BIGINT) SOURCE 'sales.csv' ORDERED BY at;
CREATE STREAM Visit (item INT, who INT, at BIGINT) SOURCE 'visits.csv' ORDERED BY at;
"""
GROUPS: Final = {
    "four authors of one count": (
        "SELECT item, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) "
        "WHERE price BETWEEN 5 AND 5 + 5 AND item NOT IN (1, 2) GROUP BY item",
        "SELECT item, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) "
        "WHERE NOT (price < 5 OR price > 10) AND item <> 2 AND 1 <> item GROUP BY item",
        "SELECT n, item FROM (SELECT item, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) "
        "WHERE NOT (item = 2 OR item = 1 OR price > 10 OR NOT price >= 5) GROUP BY item) AS c "
        "WHERE NOT n <= 2",
        "SELECT item, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) "
        "WHERE price BETWEEN 5 AND 11 AND item NOT IN (1, 2) GROUP BY item",
    ),
    "a join of two streams in joins of three": (
        "SELECT b.item, price, amount FROM Bid WINDOW(RANGE 10) AS b "
        "JOIN Sale WINDOW(RANGE 10) AS s ON b.item = s.item",
        "SELECT who, price, amount FROM Bid WINDOW(RANGE 10) AS b "
        "JOIN Visit WINDOW(RANGE 10) AS v ON v.item = b.item "
        "JOIN Sale WINDOW(RANGE 10) AS s ON s.item = b.item",
        "SELECT who, amount FROM Sale WINDOW(RANGE 10) AS s, Visit WINDOW(RANGE 10) AS v, "
        "Bid WINDOW(RANGE 10) AS b WHERE s.item = b.item AND b.item = v.item AND amount > who",
        "SELECT who, amount FROM Sale WINDOW(RANGE 20) AS s, Visit WINDOW(RANGE 10) AS v, "
        "Bid WINDOW(RANGE 10) AS b WHERE s.item = b.item AND b.item = v.item",
    ),
    "what may fail is shared as it is written": (
        "SELECT DISTINCT item FROM Bid WINDOW(RANGE 3) WHERE NOT 10 / price > 5",
        "SELECT DISTINCT item FROM Bid WINDOW(RANGE 3) WHERE 10 / price <= 5",
        "SELECT DISTINCT item FROM Bid WINDOW(RANGE 3) WHERE NOT 10 / price > 5",
    ),
}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.chdir(tmp_path)
    Path("bids.csv").write_text("item,price,at\n1,2.5,1\n")
    Path("sales.csv").write_text("item,amount,at\n1,1.5,1\n")
    Path("visits.csv").write_text("item,who,at\n1,7,1\n")
    with Engine() as engine:
        engine.sql(SCRIPT)
        yield engine


def shown(engine: Engine, texts: tuple[str, ...]) -> Iterator[str]:
    planned = plan_queries([engine.sql(text) for text in texts])
    readers: dict[Node, list[int]] = {}
    for number, (text, query) in enumerate(zip(texts, planned.queries), 1):
        yield f"{number}: {text}"
        yield explain_tree(query.optimized.node)
        yield ""
        for node in dict.fromkeys(query.optimized.node.walk()):
            if node.remembers:
                readers.setdefault(node, []).append(number)
    for node, numbers in readers.items():
        yield f"{node.label}: read by {', '.join(map(str, numbers))}"
    yield ""


def test_groups_share_what_they_did(engine: Engine, update_golden: bool) -> None:
    lines = [
        line for name, texts in GROUPS.items() for line in (f"-- {name}", "", *shown(engine, texts))
    ]
    found = "\n".join(lines)
    if update_golden:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text(), "look at it, then: pytest --update-golden"
