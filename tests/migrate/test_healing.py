"""Copies that a merge reads stay whole when they change, or are refused with what to do."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.errors import PlanError
from anabranch.migrate.healing import healed_query
from anabranch.stream import Stream

DECLARED = "CREATE STREAM Bid (item INT, price INT, at INT) SOURCE 'bids/*.jsonl' ORDERED BY at;"
COUNTED = "SELECT item, COUNT(*) AS n FROM Bid WINDOW(RANGE 50) GROUP BY item"


def query(text: str) -> Stream:
    found: Stream = ab.Engine().sql(f"{DECLARED} {text}")
    return found


def test_a_copy_becomes_a_copy_again() -> None:
    became, heals = healed_query(query(COUNTED).canonical(), query(COUNTED), None, where="a")
    assert heals
    assert became.is_copy
    assert isinstance(became.node, Coalesce)


def test_who_reads_one_query_reads_snapshots() -> None:
    counted, coalesced = query(COUNTED), query(COUNTED).coalesce()
    for old, new in [(counted, coalesced), (coalesced, counted), (counted, counted)]:
        assert healed_query(old, new, None, where="a") == (new, False)
    assert healed_query(coalesced, coalesced, None, where="a") == (coalesced, True)
    # Where nothing can be joined, it is cut at T.
    assert healed_query(coalesced, coalesced, "that", where="a") == (coalesced, False)


@pytest.mark.parametrize(
    ("old", "obstacle"),
    [
        (query(COUNTED).canonical(), "its output cannot be read back"),
        # Canonical because its events are those of its source.
        (query("SELECT item FROM Bid WHERE price > 3").canonical(), None),
        (query(COUNTED).cleanse(cut=False).canonical(), None),
        (query(f"CREATE VIEW Counted AS {COUNTED}; SELECT * FROM CANONICAL(Counted)"), "that"),
    ],
)
def test_a_copy_that_would_be_cut_is_refused(old: Stream, obstacle: str | None) -> None:
    with pytest.raises(PlanError, match="the merge would find a contradiction") as raised:
        healed_query(old, query(COUNTED), obstacle, where="copies/a")
    assert raised.value.where == "copies/a"
    assert "anabranch jumpstart LOG NEW_LOG --script new.sql" in raised.value.hint
    assert "anabranch cutover" in raised.value.hint


def test_what_follows_a_copy_is_no_copy() -> None:
    copy = query(COUNTED).canonical()
    assert copy.is_copy
    assert not copy.where("n > 3").is_copy
    assert not copy.coalesce().is_copy
