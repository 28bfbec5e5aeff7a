"""The worked tables of Kraemer 2007 for operators that rewrite lifetimes or make points of them.

Tables read as in `test_book_tables`.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.test_book_tables import L1, P1, P2, P3, S, in_order, lifetimes, read

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.to_stream import ToStream
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Duration, Time
from anabranch.testing import (
    PhysicalState,
    PhysicalStream,
    assert_agrees,
    elements_of,
    insert,
    meaning,
    stable,
    violations,
)

BEGUN = ToStream(input=S, kind="insertions")
ENDED = ToStream(input=S, kind="deletions")
ENDED_AT = ToStream(input=S, kind="deletions", anchor="first_invalid")
ALL = ToStream(input=S, kind="snapshots")
SIGNED = ToSigned(input=S)


def sampled(granule: int) -> Granularity:
    return Granularity(input=S, granule=Duration(granule))


def cut(length: int) -> Split:
    return Split(input=S, length=Duration(length))


TABLES: dict[str, tuple[Node, str, str]] = {
    "11.14 split into points": (
        cut(1),
        P1,
        " ".join(f"{p}[{t},{t + 1})" for (p,), s, e in lifetimes(P1) for t in range(s, e)),
    ),
    "split into pieces of four": (
        cut(4),
        P1,
        "c[1,5) c[5,8) a[5,9) d[6,10) a[9,11) a[9,10) d[10,14) b[12,16) b[16,17)",
    ),
    "17.2 rstream": (
        ALL,
        P2,
        " ".join(f"{p}[{t},{t + 1})" for (p,), s, e in lifetimes(P2) for t in range(s, e)),
    ),
    "17.3 istream": (BEGUN, P2, "b[1,2) d[3,4) a[4,5) e[10,11)"),
    "17.4 dstream": (ENDED, P2, "a[4,5) d[8,9) b[14,15) e[17,18)"),
    "dstream as in CQL": (ENDED_AT, P2, "a[5,6) d[9,10) b[15,16) e[18,19)"),
    "a second copy is an insertion": (BEGUN, "a[1,9) a[4,6)", "a[1,2) a[4,5)"),
    "a second copy is a deletion": (ENDED, "a[1,9) a[4,6)", "a[5,6) a[8,9)"),
    "copies that change places": (BEGUN, "a[1,4) a[2,5) a[4,6) a[4,7)", "a[1,2) a[2,3) a[4,5)"),
    "17.3 positive and negative": (
        SIGNED,
        P2,
        "(b,1)[1,2) (d,1)[3,4) (a,1)[4,5) (a,-1)[5,6) (d,-1)[9,10) (e,1)[10,11) (b,-1)[15,16) "
        "(e,-1)[18,19)",
    ),
    "there and back": (FromSigned(input=SIGNED), P2, "b[1,15) d[3,9) a[4,5) e[10,18)"),
    "20.2 granularity": (sampled(2), P1, "c[2,8) a[6,12) d[6,14) b[12,18)"),
    "granularity of five": (sampled(5), P1, "c[5,10) a[5,15) d[10,15) b[15,20)"),
    "cleansed": (Cleanse(input=S, cut=False), P1, P1),
    "shifted": (Shift(input=S, by=3), P3, "b[4,5) a[6,7) c[7,8) a[10,11) b[13,14)"),
    "clipped": (
        Clip(input=S, start=Time(6), end=Time(10)),
        P1,
        "c[6,8) a[6,10) d[6,10) a[9,10)",
    ),
    "a duration": (
        AlterLifetime(input=S, duration=Duration(4)),
        P2,
        "b[1,5) d[3,7) a[4,8) e[10,14)",
    ),
    "extended": (
        AlterLifetime(input=S, extend=Duration(2)),
        P2,
        "b[1,17) d[3,11) a[4,7) e[10,20)",
    ),
    "at most": (
        AlterLifetime(input=S, at_most=Duration(5)),
        P2,
        "b[1,6) d[3,8) a[4,5) e[10,15)",
    ),
}


def wanted(text: str) -> list[tuple[tuple[Any, ...], int, int]]:
    """A table of lifetimes; signs are numbers."""
    found = lifetimes(text)
    return [(tuple({"-1": -1}.get(p, p) for p in row), start, end) for row, start, end in found]


@pytest.mark.parametrize("table", TABLES)
def test_operators_mean_what_the_book_says(table: str) -> None:
    node, given, expected = TABLES[table]
    assert meaning(node, {"S": read(given)}).difference(LogicalStream.of(wanted(expected))) == ""


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("table", TABLES)
def test_kernels_do_what_the_book_says(table: str, size: int) -> None:
    """In the end there are these events, one by one."""
    node, given, expected = TABLES[table]
    state = PhysicalState.empty()
    left = assert_agrees(node, in_order(given), batch_size=size)
    for batch in left:
        assert list(violations(elements_of(batch), state)) == []
    assert sorted(state.events.elements()) == sorted(wanted(expected))
    assert left[-1].stable == FOREVER


def test_on_the_grid_samples_are_the_snapshots() -> None:
    """The table of the logical operator, 20.1: between the samples its snapshots are empty."""
    found = sampled(2).denote(read(L1))
    table = read("2 a×3 · 4 a×3,b,c · 6 b×2")
    assert [found.snapshot(t) for t in range(0, 9, 2)] == [
        table.snapshot(t) for t in range(0, 9, 2)
    ]
    assert [found.snapshot(t) for t in range(1, 9, 2)] == [
        table.snapshot(t) for t in range(0, 8, 2)
    ]


def test_rstream_of_five_lifetimes_has_27_points() -> None:
    (left,) = assert_agrees(ToStream(input=S, kind="snapshots"), in_order(P1))
    assert len(left) == 27


def test_a_split_does_not_change_what_begins() -> None:
    """Operators that compare snapshots do not see how lifetimes are cut (12.1)."""
    for node in (BEGUN, ENDED, ENDED_AT, SIGNED):
        over = node.with_inputs(cut(1))
        assert meaning(over, {"S": read(P2)}) == meaning(node, {"S": read(P2)})
        (whole,) = assert_agrees(node, in_order(P2))
        (pieces,) = assert_agrees(over, in_order(P2))
        assert LogicalStream.of_batches([whole]) == LogicalStream.of_batches([pieces])


def test_who_opens_an_auction_soon_after_registering() -> None:
    """Example 17.7, in hours: the registrations are the insertions of a relation."""
    people = PhysicalStream(
        S.schema, (insert("p1", start=0), insert("p2", start=5), stable(FOREVER))
    )
    begun = assert_agrees(AlterLifetime(input=BEGUN, duration=Duration(12)), people)
    assert LogicalStream.of_batches(begun) == read("p1[0,12) p2[5,17)")
