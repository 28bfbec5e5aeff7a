"""Functions that are not deterministic see the rows they were written for, once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.algebra.node import Node
from anabranch.optimizer.driver import optimize

CALLS: Counter[float] = Counter()


@ab.udf(deterministic=False)
def ticket(p: float) -> int:
    """Another number for every call."""
    CALLS[p] += 1
    return sum(CALLS.values())


@ab.udf
def steady(p: float) -> int:
    """The same for the same."""
    return int(p)


@pytest.fixture
def engine(tmp_path: Path) -> ab.Engine:
    CALLS.clear()
    rows = "".join(f'{{"k": {n % 2}, "p": {n}.0, "at": {n}}}\n' for n in range(6))
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "elements.jsonl").write_text('{"insert": {"k": 1, "p": 2.0}, "start": 5}\n')
    engine = ab.Engine()
    engine.register(ticket)
    engine.register(steady)
    engine.stream(tmp_path / "rows.jsonl", name="Bid", start="at")
    engine.stream(tmp_path / "elements.jsonl", name="Corrected")
    return engine


NUMBERED = "(SELECT k, p, {}(p) AS n FROM Bid WHERE p > 0)"


def order(node: Node) -> list[str]:
    return [type(each).__name__ for each in node.walk()]


def test_conditions_do_not_move_below_it(engine: ab.Engine) -> None:
    text = f"SELECT k, n FROM {NUMBERED} WHERE k = 1"
    moved = optimize(engine.sql(text.format("steady")).node).node
    stayed = optimize(engine.sql(text.format("ticket")).node).node
    assert order(moved) == ["Source", "Filter", "Map"]
    # The condition of the nested query is below, the other one above.
    assert order(stayed) == ["Source", "Filter", "Map", "Filter", "Map"]


def test_it_is_not_merged_with_what_uses_it_twice(engine: ab.Engine, tmp_path: Path) -> None:
    text = f"SELECT n + n AS twice, n AS once FROM {NUMBERED}".format("ticket")
    engine.sql(text).run_local(to=tmp_path / "out.jsonl")
    assert set(CALLS.values()) == {1}
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        row = json.loads(line).get("insert", {"twice": 2, "once": 1})
        assert row["twice"] == 2 * row["once"]


def test_every_row_is_seen_once(engine: ab.Engine, tmp_path: Path) -> None:
    query = f"SELECT k, COUNT(*) AS c, MIN(n) AS least, MAX(n) AS most FROM {NUMBERED}"
    query = query.format("ticket").replace("FROM Bid", "FROM Bid WINDOW(RANGE 100)")
    engine.sql(f"{query} GROUP BY k").run_local(to=tmp_path / "out.jsonl")
    assert dict(CALLS) == {float(n): 1 for n in range(1, 6)}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT ticket(p) AS n FROM Corrected", "its rows may be corrected"),
        ("SELECT k FROM Corrected WHERE ticket(p) > 1", "its rows may be corrected"),
        ("SELECT SUM(ticket(p)) AS s FROM Bid", "is not allowed here"),
        ("SELECT ticket(p) AS g, COUNT(*) AS c FROM Bid GROUP BY ticket(p)", "is not allowed here"),
        ("SELECT a.k FROM Bid a JOIN Bid b ON ticket(a.p) = b.k", "is not allowed here"),
    ],
)
def test_elsewhere_it_is_refused(engine: ab.Engine, tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ab.PlanError, match=what):
        engine.sql(text).run_local(to=tmp_path / "out.jsonl")


def test_what_is_declared_deterministic_is_still_looked_at() -> None:
    @ab.udf
    def dice(p: float) -> int:
        return int(ticket(p))

    with pytest.raises(ab.OperatorError, match="is not deterministic") as error:
        dice.apply([pa.array([1.0])], check=True)
    assert "deterministic=False" in (error.value.hint or "")
