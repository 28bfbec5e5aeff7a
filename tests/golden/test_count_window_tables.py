"""The worked tables of Kraemer 2007 for count-based and partitioned windows.

Tables read as in `test_book_tables`; an end of ∞ is forever.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.test_book_tables import P3, S, backwards, in_order, of
from tests.golden.test_book_tables import read as read_finite

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.time_window import UNBOUNDED
from anabranch.model.logical import LogicalStream
from anabranch.model.time import FOREVER
from anabranch.testing import assert_agrees, meaning

L3 = "1 c · 2 a · 3 b · 4 b · 5 a · 6 c"


def last(rows: int, slide: int = 1, by: str | None = None) -> CountWindow:
    keys = () if by is None else (("g", of(by)),)
    return CountWindow(input=S, rows=rows, slide=slide, partition_by=keys)


def read(text: str) -> LogicalStream:
    return read_finite(text.replace("∞", str(FOREVER)))


AC = "CASE e WHEN 'b' THEN 2 ELSE 1 END"

TABLES: dict[str, tuple[CountWindow, str, str]] = {
    "8.12 three rows": (
        last(3),
        L3,
        "1 c · 2 a,c · 3 a,b,c · 4 a,b×2 · 5 a,b×2 · 6… a,b,c",
    ),
    "8.12 three rows, as lifetimes": (
        last(3),
        L3,
        "c[1,4) a[2,∞) b[3,∞) b[4,6) c[6,∞)",
    ),
    "all rows": (
        last(UNBOUNDED),
        L3,
        "1 c · 2 a,c · 3 a,b,c · 4 a,b×2,c · 5 a×2,b×2,c · 6… a×2,b×2,c×2",
    ),
    "8.13 one row per group": (
        last(1, by=AC),
        L3,
        "1 c · 2 a · 3 a,b · 4 a,b · 5 a,b · 6… c,b",
    ),
    "17.2 two rows, slide 2": (last(2, 2), L3, "2 a,c · 3 a,c · 4 b×2 · 5 b×2 · 6… a,c"),
    "11.12 one row": (last(1), P3, "b[1,3) a[3,4) c[4,7) a[7,10) b[10,∞)"),
    "two rows": (last(2), P3, "b[1,4) a[3,7) c[4,10) a[7,∞) b[10,∞)"),
    "three rows": (last(3), P3, "b[1,7) a[3,10) c[4,∞) a[7,∞) b[10,∞)"),
    "11.13 one row per letter": (
        last(1, by="e"),
        P3,
        "b[1,10) a[3,7) c[4,∞) a[7,∞) b[10,∞)",
    ),
    "one row per letter, cut after a delay": (
        last(1, by="e"),
        P3,
        "b[1,7) a[3,7) c[4,10) b[7,10) a[7,∞) b[10,∞) c[10,∞)",
    ),
    "17.2 slide 2": (last(2, 2), P3, "b[3,7) a[3,7) c[7,∞) a[7,∞)"),
    "three rows, slide 2": (last(3, 2), P3, "b[3,7) a[3,∞) c[7,∞) a[7,∞)"),
    "one row, slide 2": (last(1, 2), P3, "a[3,7) a[7,∞)"),
    "one row per letter, slide 2": (last(1, 2, by="e"), P3, "a[7,∞) b[10,∞)"),
}


@pytest.mark.parametrize("table", TABLES)
def test_windows_mean_what_the_book_says(table: str) -> None:
    node, input, expected = TABLES[table]
    found = meaning(node, {"S": read(input)})
    assert found.difference(read(expected)) == ""


@pytest.mark.parametrize("emit", ["speculative", "final"])
@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("table", TABLES)
def test_kernels_do_what_the_book_says(table: str, size: int, emit: Any) -> None:
    node, input, expected = TABLES[table]
    left = assert_agrees(node, in_order(input), batch_size=size, emit=emit)
    assert LogicalStream.of_batches(left).difference(read(expected)) == ""
    assert left[-1].stable == FOREVER


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("table", TABLES)
def test_kernels_do_so_from_rows_in_any_order(table: str, size: int) -> None:
    node, input, expected = TABLES[table]
    left = assert_agrees(node, backwards(input), batch_size=size)
    assert LogicalStream.of_batches(left).difference(read(expected)) == ""


def test_what_leaves_is_open_at_once_and_closed_later() -> None:
    left = assert_agrees(last(2), in_order(P3), batch_size=2)
    events = [
        (start, end, new_end)
        for batch in left
        for start, end, new_end in zip(batch.start, batch.end, batch.new_end)
    ]
    assert events == [
        (1, 1, FOREVER),
        (3, 3, FOREVER),
        (1, FOREVER, 4),
        (4, 4, FOREVER),
        (3, FOREVER, 7),
        (7, 7, FOREVER),
        (4, FOREVER, 10),
        (10, 10, FOREVER),
    ]
