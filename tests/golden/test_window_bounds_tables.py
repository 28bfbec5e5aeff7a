"""Windows on the time axis, computed by hand: rows with the bounds of their window, and sessions.

Tables read as in `test_book_tables`: `(b,0,10)[9,19)` is b in the window [0, 10), shown from 9 on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.golden.test_book_tables import LETTERS, P3, backwards, in_order, lifetimes, of, read

from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.window_columns import Columns
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER, Duration
from anabranch.testing import (
    Element,
    PhysicalState,
    PhysicalStream,
    adjust,
    assert_agrees,
    elements_of,
    insert,
    meaning,
    stable,
    violations,
)

POINTS = Source(name="S", schema=LETTERS, only_points=True)
BOUNDS = ("window_start", "window_end")

# Sessions of gap 3: b 1, a 3, c 4 are one; a 7 is 3 after c and another one; b 10 likewise.
NEAR = "b[1,2) a[3,4) c[4,5) a[6,7) a[6,7) b[11,12)"


def shown(size: int, slide: int) -> TimeWindow:
    return TimeWindow(input=POINTS, size=Duration(size), slide=Duration(slide), columns=BOUNDS)


def session(gap: int, by: str | None = None, columns: Columns | None = BOUNDS) -> SessionWindow:
    keys = () if by is None else (("g", of(by)),)
    return SessionWindow(input=POINTS, gap=Duration(gap), partition_by=keys, columns=columns)


TABLES: dict[str, tuple[Node, str, str]] = {
    "tumble 10": (
        shown(10, 10),
        P3,
        "(b,0,10)[9,19) (a,0,10)[9,19) (c,0,10)[9,19) (a,0,10)[9,19) (b,10,20)[19,29)",
    ),
    "tumble 4": (
        shown(4, 4),
        P3,
        "(b,0,4)[3,7) (a,0,4)[3,7) (c,4,8)[7,11) (a,4,8)[7,11) (b,8,12)[11,15)",
    ),
    "tumble 1": (
        shown(1, 1),
        P3,
        "(b,1,2)[1,2) (a,3,4)[3,4) (c,4,5)[4,5) (a,7,8)[7,8) (b,10,11)[10,11)",
    ),
    "hop 2 of 4": (
        shown(4, 2),
        "b[4,5) a[7,8)",
        "(b,2,6)[5,7) (b,4,8)[7,9) (a,4,8)[7,9) (a,6,10)[9,11)",
    ),
    "hop 2 of 3: in one window or in two": (
        shown(3, 2),
        "b[4,5) a[5,6) c[6,7)",
        "(b,3,6)[5,7) (a,3,6)[5,7) (a,5,8)[7,9) (c,5,8)[7,9)",
    ),
    "hop 5 of 3: what falls between windows is gone": (
        shown(3, 5),
        P3,
        "(a,2,5)[4,9) (c,2,5)[4,9) (a,7,10)[9,14)",
    ),
    "sessions of gap 3": (
        session(3),
        P3,
        "(b,1,7)[1,7) (a,1,7)[1,7) (c,1,7)[1,7) (a,7,10)[7,10) (b,10,13)[10,13)",
    ),
    "sessions of gap 4": (
        session(4),
        P3,
        "(b,1,14)[1,14) (a,1,14)[1,14) (c,1,14)[1,14) (a,1,14)[1,14) (b,1,14)[1,14)",
    ),
    "sessions of gap 1 are instants": (
        session(1),
        "a[1,2) b[1,2) a[2,3)",
        "(a,1,2)[1,2) (b,1,2)[1,2) (a,2,3)[2,3)",
    ),
    "sessions per letter": (
        session(5, by="e"),
        P3,
        "(b,1,6)[1,6) (a,3,12)[3,12) (a,3,12)[3,12) (c,4,9)[4,9) (b,10,15)[10,15)",
    ),
    "copies": (
        session(3),
        NEAR,
        "(b,1,9)[1,9) (a,1,9)[1,9) (c,1,9)[1,9) (a,1,9)[1,9) (a,1,9)[1,9) (b,11,14)[11,14)",
    ),
    "without columns": (
        session(3, columns=None),
        NEAR,
        "b[1,9) a[1,9) c[1,9) a[1,9) a[1,9) b[11,14)",
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_operators_mean_what_the_tables_say(table: str) -> None:
    node, given, expected = TABLES[table]
    assert meaning(node, {"S": read(given)}).difference(read(expected)) == ""


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("form", [in_order, backwards])
@pytest.mark.parametrize("table", TABLES)
def test_kernels_do_what_the_tables_say(table: str, form: object, size: int) -> None:
    """In the end there are these events, one by one."""
    node, given, expected = TABLES[table]
    state = PhysicalState.empty()
    assert callable(form)
    left = assert_agrees(node, form(given), batch_size=size)
    for batch in left:
        assert list(violations(elements_of(batch), state)) == []
    assert sorted(state.events.elements()) == sorted(lifetimes(expected))
    assert left[-1].stable == FOREVER


@pytest.mark.parametrize("table", ["tumble 4", "hop 2 of 4", "hop 5 of 3: what falls between"])
def test_bounds_change_nothing_else(table: str) -> None:
    """Without its columns a window shows the same rows at the same time."""
    name = next(name for name in TABLES if name.startswith(table))
    node, given, expected = TABLES[name]
    assert isinstance(node, TimeWindow)
    plain = replace(node, columns=None).denote(read(given))
    assert plain == read(expected).map(lambda row: row[:1])


STORY: list[tuple[list[Element], str, int]] = [
    # Two sessions of gap 4. Points from 3 on may still come, and join what began at 1.
    (
        [insert("a", start=1, end=2), insert("b", start=7, end=8), stable(3)],
        "(a,1,5)[1,5) (b,7,11)[7,11)",
        1,
    ),
    # A late point fills the gap: from 1 to 4 and from 4 to 7 it is less than 4.
    (
        [insert("c", start=4, end=5), stable(4)],
        "(a,1,11)[1,11) (c,1,11)[1,11) (b,1,11)[1,11)",
        1,
    ),
    # It was a mistake: two sessions again. The first ends at 5, and nothing can join it.
    (
        [adjust("c", start=4, end=5, new_end=4), stable(5)],
        "(a,1,5)[1,5) (b,7,11)[7,11)",
        5,
    ),
    # A copy, twice at one instant.
    ([insert("b", start=7, end=8)], "(a,1,5)[1,5) (b,7,11)[7,11) (b,7,11)[7,11)", 5),
    # The session that began at 7 is open until its end is reached.
    ([stable(10)], "(a,1,5)[1,5) (b,7,11)[7,11) (b,7,11)[7,11)", 7),
    ([stable(11)], "(a,1,5)[1,5) (b,7,11)[7,11) (b,7,11)[7,11)", 11),
    # A point at the end of a session is not in it.
    (
        [insert("a", start=11, end=12)],
        "(a,1,5)[1,5) (b,7,11)[7,11) (b,7,11)[7,11) (a,11,15)[11,15)",
        11,
    ),
]


def test_a_session_grows_and_falls_apart() -> None:
    elements = [element for some, _, _ in STORY for element in some]
    ends, place = [], 0
    for some, _, _ in STORY:
        place += len(some)
        ends.append(place)
    batches = PhysicalStream(LETTERS, tuple(elements)).batches(*ends[:-1])
    left = assert_agrees(session(4), batches)
    for number, (_, expected, settled) in enumerate(STORY):
        assert LogicalStream.of_batches(left[: number + 1]) == read(expected)
        assert left[number].stable == settled
