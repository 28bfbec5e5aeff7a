"""What is declared of sources decides plans: rates, values, keys."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import anabranch as ab
from anabranch.algebra.node import Node
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.driver import optimize

ROWS: Final = '{"k": 1, "v": 2, "at": 1}\n'

JOIN: Final = """
    SELECT A.v AS a, B.v AS b, C.v AS c
    FROM A WINDOW(RANGE 100), B WINDOW(RANGE 100), C WINDOW(RANGE 100)
    WHERE A.k = B.k AND B.k = C.k
"""


def query(folder: Path, clauses: dict[str, str]) -> ab.Stream:
    (folder / "rows.jsonl").write_text(ROWS)
    engine = ab.Engine()
    for name, clause in clauses.items():
        engine.sql(
            f"CREATE STREAM {name} (k BIGINT, v BIGINT, at BIGINT) "
            f"SOURCE '{folder / 'rows.jsonl'}' ORDERED BY at {clause}"
        )
    found: ab.Stream = engine.sql(JOIN)
    return found


def joined_first(node: Node) -> set[str]:
    """The sources of the join that reads no other join."""
    joins = [each for each in node.walk() if each.identity.name == "Join"]
    below = [
        join for join in joins if not any(each in joins and each != join for each in join.walk())
    ]
    (lowest,) = below
    return {each.label.split()[1] for each in lowest.walk() if each.identity.name == "Source"}


@pytest.mark.parametrize("fast", ["A", "B", "C"])
def test_the_fast_stream_is_joined_last(tmp_path: Path, fast: str) -> None:
    rates = {name: "RATE 1000" if name == fast else "RATE 1" for name in "ABC"}
    rates = {name: f"{rate} DISTINCT (k 500)" for name, rate in rates.items()}
    asked = query(tmp_path, rates)
    if fast == "B":
        # No condition connects the other two.
        assert "B" in joined_first(optimize(asked.node).node)
    else:
        assert joined_first(optimize(asked.node).node) == set("ABC") - {fast}


def test_a_stream_with_many_values_joins_with_few(tmp_path: Path) -> None:
    values = {"A": "DISTINCT (k 5)", "B": "DISTINCT (k 5)", "C": "DISTINCT (k 100000)"}
    found = optimize(query(tmp_path, values).node).node
    assert "C" in joined_first(found)


def test_a_unique_column_has_many_values(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    plain = ab.Engine().stream(tmp_path / "rows.jsonl", start="at")
    unique = ab.Engine().stream(tmp_path / "rows.jsonl", start="at", unique="k")
    many = CostModel().estimate(unique.node).distinct
    assert many["k"] > CostModel().estimate(plain.node).distinct["k"]
    assert many["v"] == CostModel().estimate(plain.node).distinct["v"]


def test_explain_shows_what_is_expected(tmp_path: Path) -> None:
    asked = query(
        tmp_path,
        {"A": "CHRONON 1 SECOND RATE 90 PER MINUTE DISTINCT (v 7)"}
        | dict.fromkeys("BC", "CHRONON 1 SECOND"),
    )
    assert "Source A" in asked.explain()
    line = next(each for each in asked.explain().splitlines() if "expected:" in each)
    assert "expected: 1.5/s, v 7 values" in line
