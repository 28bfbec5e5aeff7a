"""The worked examples of Maskey and Cherniack: which results a correction replaces, and no others.

A row reads `-payload [start, end)` where it is taken out of the answers and `+payload [start, end)`
where it is put in. Rows of a promise that is broken come in a batch of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest
from tests.revisions.histories import Outcome, assert_revised

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.expressions.expression import Expression
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.revision import Revision, snapshot_changes
from anabranch.model.time import FOREVER, Duration

QUOTE: Final = pa.schema([("symbol", pa.string()), ("price", pa.float64())])
NUMBER: Final = pa.schema([("n", pa.int64())])
TWO, THREE, FOUR = 120, 180, 240
"""Minutes since midnight. The average of 2:00 to 2:59 is there from 2:59 on, until 3:59."""


def step(*elements: Element, schema: pa.Schema = NUMBER) -> dict[str, EventBatch]:
    return {"S": batch_of(list(elements), schema)}


def shown(changes: EventBatch) -> list[str]:
    changes = snapshot_changes(changes)
    rows = [",".join(map(str, row.values())) for row in changes.payload.to_pylist()]
    found = []
    for row, start, end, new_end in zip(rows, changes.start, changes.end, changes.new_end):
        sign, until = ("+", new_end) if new_end > end else ("-", end)
        found.append(f"{sign}{row} [{start}, {'∞' if until == FOREVER else until})")
    return sorted(found, key=lambda text: (text[0] == "+", text))


def revised(outcome: Outcome) -> list[Revision]:
    return [each for batch in outcome.revisions for each in batch]


def sent(outcome: Outcome, batch: int) -> list[str]:
    """The rows that leave with a batch, beside its revisions."""
    return shown(outcome.batches[batch])


def aggregate(over: Node, function: Function, column: str, name: str) -> Aggregation:
    argument = Expression.parse(column, over.schema)
    calls = ((name, AggregateCall(function=function, argument=argument)),)
    return Aggregation(input=over, group_by=(), aggregates=calls)


IBM: Final = "symbol = 'IBM'"


def hourly_average() -> Node:
    """The average of each hour."""
    quotes = Source(name="S", schema=QUOTE)
    only = Filter(input=quotes, predicate=Expression.parse(IBM, QUOTE))
    hour = TimeWindow(input=only, size=Duration(60), slide=Duration(60))
    return aggregate(hour, "avg", "price", "average")


def quote(price: float, minute: int, symbol: str = "IBM") -> Insert:
    return Insert({"symbol": symbol, "price": price}, minute, minute + 1)


def taken_back(price: float, minute: int, symbol: str = "IBM") -> Adjust:
    return Adjust({"symbol": symbol, "price": price}, minute, minute + 1, minute)


@pytest.mark.parametrize("strategy", ["RW", "RA"])
def test_an_update_is_averaged_in_and_nothing_is_revised(strategy: Any) -> None:
    steps = [
        step(quote(75.0, TWO), Stable(TWO + 1), schema=QUOTE),
        step(quote(72.0, TWO + 30), Stable(FOUR), schema=QUOTE),
    ]
    found = assert_revised(hourly_average(), steps, strategy=strategy)
    assert not revised(found)
    assert found.snapshots().snapshot(THREE) == {(73.5,): 1}


@pytest.mark.parametrize("strategy", ["RW", "RA"])
def test_a_revision_says_that_the_price_was_never_so(strategy: Any) -> None:
    """At 2:30 the price of 2:00 is corrected; the average of the hour is that of one quote."""
    steps = [
        step(quote(75.0, TWO), quote(10.0, TWO, "X"), Stable(TWO + 30), schema=QUOTE),
        step(taken_back(75.0, TWO), quote(72.0, TWO), Stable(FOUR), schema=QUOTE),
    ]
    found = assert_revised(hourly_average(), steps, strategy=strategy)
    # No average of the hour had been settled yet: the correction enters the query as it runs.
    assert not revised(found)
    assert found.snapshots().snapshot(THREE) == {(72.0,): 1}


@pytest.mark.parametrize("strategy", ["RW", "RA"])
def test_an_average_that_was_settled_is_revised(strategy: Any) -> None:
    """The quotes are 75 at 2:00 and 72 at 2:30; after four the first turns out to be 72."""
    steps = [
        step(quote(75.0, TWO), quote(72.0, TWO + 30), quote(70.0, THREE), schema=QUOTE),
        step(Stable(FOUR + 30), schema=QUOTE),
        step(taken_back(75.0, TWO), quote(72.0, TWO), schema=QUOTE),
    ]
    found = assert_revised(hourly_average(), steps, strategy=strategy)
    (revision,) = revised(found)
    assert revision.number == 1
    assert (revision.first, revision.last) == (THREE - 1, FOUR - 1)
    assert shown(revision.changes) == ["-73.5 [179, 239)", "+72.0 [179, 239)"]
    assert sent(found, 2) == sent(found, 3) == []


def test_a_correction_of_another_symbol_changes_nothing() -> None:
    steps = [
        step(quote(75.0, TWO), quote(10.0, TWO, "X"), Stable(FOUR + 30), schema=QUOTE),
        step(taken_back(10.0, TWO, "X"), quote(11.0, TWO, "X"), schema=QUOTE),
    ]
    found = assert_revised(hourly_average(), steps)
    assert not revised(found)
    assert sent(found, 1) == sent(found, 2) == []


def row(number: int, value: int | None = None) -> Insert:
    """The row t1, t2, ..., with its number as its value unless another one is given."""
    return Insert({"n": number if value is None else value}, number, number + 1)


def pairs(over: Node) -> CountWindow:
    """Tumbling windows of two rows."""
    return CountWindow(input=over, rows=2, slide=2)


def two_at_a_time(function: Function = "string_agg") -> Node:
    """The rows of each window, in one text."""
    rows = pairs(Source(name="S", schema=NUMBER, only_points=True))
    text = Expression.parse("CAST(n AS TEXT)", NUMBER)
    call = AggregateCall(function=function, argument=text, separator="+")
    return Aggregation(input=rows, group_by=(), aggregates=(("rows", call),))


def rows_but(*missing: int, last: int = 6) -> list[Element]:
    return [row(number) for number in range(1, last + 1) if number not in missing]


def test_a_late_row_realigns_all_later_windows_of_rows() -> None:
    """{t1,t3} {t4,t5} t6 becomes {t1,t2} {t3,t4} {t5,t6}."""
    steps = [step(*rows_but(2), Stable(7)), step(row(2))]
    found = assert_revised(two_at_a_time(), steps)
    assert sent(found, 0) == ["+1+3 [3, 5)", "+4+5 [5, ∞)"]
    (revision,) = revised(found)
    assert (revision.first, revision.last) == (2, 7)
    assert shown(revision.changes) == [
        "-1+3 [3, 5)",
        "-4+5 [5, 7)",
        "+1+2 [2, 4)",
        "+3+4 [4, 6)",
        "+5+6 [6, 7)",
    ]
    # From the stable point on the last window changes in the stream itself.
    assert sent(found, 1) == []
    assert sent(found, 2) == ["-4+5 [7, ∞)", "+5+6 [7, ∞)"]


def test_windows_before_a_late_row_are_not_emitted_again() -> None:
    steps = [step(*rows_but(4), Stable(7)), step(row(4))]
    found = assert_revised(two_at_a_time(), steps)
    (revision,) = revised(found)
    # {t1,t2} still holds from 2 on, but not as long.
    assert shown(revision.changes) == [
        "-1+2 [4, 5)",
        "-3+5 [5, 7)",
        "+3+4 [4, 6)",
        "+5+6 [6, 7)",
    ]


def test_two_late_rows_bring_windows_back_into_line() -> None:
    """What is aligned as before from some row on does not change from there on."""
    steps = [step(*rows_but(2, 3, last=8), Stable(9)), step(row(2), row(3))]
    found = assert_revised(two_at_a_time(), steps)
    (revision,) = revised(found)
    assert shown(revision.changes) == ["-1+4 [4, 6)", "+1+2 [2, 4)", "+3+4 [4, 6)"]
    assert sent(found, 2) == []


def test_a_row_that_is_taken_back_realigns_them_too() -> None:
    steps = [
        step(*rows_but(), Stable(7)),
        step(Adjust({"n": 2}, 2, 3, 2)),
    ]
    found = assert_revised(two_at_a_time(), steps)
    (revision,) = revised(found)
    assert shown(revision.changes) == [
        "-1+2 [2, 4)",
        "-3+4 [4, 6)",
        "-5+6 [6, 7)",
        "+1+3 [3, 5)",
        "+4+5 [5, 7)",
    ]


def chained() -> tuple[Node, Node]:
    """Sums of two rows, and sums of two of these: o = f(t, t), u = g(o, o)."""
    o = aggregate(pairs(Source(name="S", schema=NUMBER, only_points=True)), "sum", "n", "o")
    u = aggregate(pairs(ToStream(input=o, kind="insertions")), "sum", "o", "u")
    return ToStream(input=o, kind="insertions"), ToStream(input=u, kind="insertions")


FOUR_ROWS: Final[Sequence[Element]] = (row(1), row(2), row(3), row(4), Stable(9))
THIRD: Final[Sequence[Element]] = (Adjust({"n": 3}, 3, 4, 3), row(3, value=30))


def test_of_two_chained_aggregates_only_what_differs_is_revised() -> None:
    """t3 is 30, not 3: o2 is 34 in place of 7, u1 is 37 in place of 10; o1 is still 3."""
    first, second = chained()
    steps = [step(*FOUR_ROWS), step(*THIRD)]
    one = assert_revised(first, steps)
    assert sent(one, 0) == ["+3 [2, 3)", "+7 [4, 5)"]
    (revision,) = revised(one)
    assert shown(revision.changes) == ["-7 [4, 5)", "+34 [4, 5)"]
    two = assert_revised(second, steps)
    assert sent(two, 0) == ["+10 [4, 5)"]
    (revision,) = revised(two)
    assert shown(revision.changes) == ["-10 [4, 5)", "+37 [4, 5)"]
    assert sent(one, 1) == sent(one, 2) == sent(two, 1) == sent(two, 2) == []


def test_of_a_chain_the_unchanged_end_is_not_emitted() -> None:
    """t3 and t4 exchange their values: o2 is the same, and so is u1."""
    first, second = chained()
    steps = [
        step(*FOUR_ROWS),
        step(
            Adjust({"n": 3}, 3, 4, 3),
            Adjust({"n": 4}, 4, 5, 4),
            row(3, value=4),
            row(4, value=3),
        ),
    ]
    for node in (first, second):
        found = assert_revised(node, steps)
        assert not revised(found)
        assert sent(found, 1) == sent(found, 2) == []


def test_a_chain_is_realigned_by_a_late_row() -> None:
    """Rows t1, t3, t4, t5 give o 4 and 9, u 13; with t2 they give o 3 and 7, u 10."""
    steps = [step(*rows_but(2, last=5), Stable(9)), step(row(2))]
    first, second = chained()
    (revision,) = revised(assert_revised(first, steps))
    assert shown(revision.changes) == ["-4 [3, 4)", "-9 [5, 6)", "+3 [2, 3)", "+7 [4, 5)"]
    (revision,) = revised(assert_revised(second, steps))
    assert shown(revision.changes) == ["-13 [5, 6)", "+10 [4, 5)"]
