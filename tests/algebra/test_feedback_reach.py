"""Which rows feedback of a merge spares, and what `explain --feedback` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch import Engine
from anabranch.algebra.analysis.feedback_reach import spared_rows
from anabranch.cli.app import app

BID = "CREATE STREAM Bid (item INT, price INT, at INT) SOURCE 'bids.csv' ORDERED BY at;"
ASK = "CREATE STREAM Ask (item INT, price INT, at INT) SOURCE 'bids.csv' ORDERED BY at;"


@pytest.mark.parametrize(
    ("query", "back"),
    [
        ("SELECT item FROM Bid WHERE price > 3", 0),
        ("SELECT item, COUNT(*) AS n FROM Bid WINDOW(RANGE 10) GROUP BY item", 9),
        ("SELECT DISTINCT item FROM Bid WINDOW(RANGE 7)", 6),
        ("SELECT Bid.item FROM Bid WINDOW(RANGE 5), Ask WINDOW(RANGE 5)", 4),
    ],
)
def test_rows_that_end_early_enough_are_spared(
    query: str, back: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bids.csv").write_text("item,price,at\n1,2,3\n")
    found = spared_rows(Engine().sql(f"{BID}{ASK}{query}").canonical().node)
    assert {each.back for each in found} == {back}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            "SELECT item, COUNT(*) AS n FROM SESSION(Bid, 5) GROUP BY item",
            "SessionWindow 5 with window_start, window_end: a point can join two sessions",
        ),
        (
            "SELECT item FROM Bid WINDOW(ROWS 3)",
            "CountWindow 3: its rows may be as old as they like, but it forgets all except the "
            "newest 3\n",
        ),
        (
            "SELECT item FROM Bid WINDOW(PARTITION BY item ROWS 3)",
            "CountWindow 3 by item: its rows may be as old as they like, but it forgets all except "
            "the newest 3 of each group\n",
        ),
        (
            "SELECT item FROM Bid WINDOW(ROWS 3 SLIDE 2)",
            "CountWindow 3 slide 2: its rows may be as old as they like\n",
        ),
    ],
)
def test_explain_says_where_feedback_stops(
    query: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bids.csv").write_text("item,price,at\n1,2,3\n")
    Path("query.sql").write_text(f"{BID}{query}")
    told = CliRunner().invoke(app, ["explain", "query.sql", "--feedback"])
    assert f"feedback of a merge:\n  Bid: all rows are needed, by {why}" in told.output
    refused = CliRunner().invoke(app, ["explain", "query.sql", "--feedback", "--json"])
    assert refused.exit_code == 2
