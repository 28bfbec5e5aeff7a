"""A table of events with revisions has the snapshots of the stream, as known after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.revised_streams import Round, at_or_after, meaning, revised_rounds, revision

from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Element, Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.event_revisions import TouchedRows, revised_changes, touched_rows
from anabranch.runtime.elements.event_table import ALWAYS, NEVER, EventColumns, EventRows

SCHEMA = pa.schema([("k", pa.int64())])
HISTORY = EventColumns(INTEGERS, revisable=True, history=True)
CURRENT = EventColumns(INTEGERS, revisable=True)
Row = tuple[int, int, int, int, int]


class Table:
    """Rows by payload hash, as a table of a database would have them."""

    def __init__(self, form: EventColumns) -> None:
        self.form = form
        self.copies: Counter[tuple[object, int, int, int, int, int]] = Counter()

    def take(self, each: Round) -> None:
        there = self.read(touched_rows(each.rows, each.revisions))
        for row in revised_changes(there, each.rows, each.revisions, self.form).to_pylist():
            known = (row.get("known_from") or ALWAYS, row.get("known_until") or NEVER)
            end = FOREVER if row["valid_to"] is None else row["valid_to"]
            payload = tuple(row[name] for name in each.rows.schema.names)
            key = (payload, row["payload_hash"], row["valid_from"], int(end), *known)
            self.copies[key] += row["copies"]
            assert self.copies[key] >= 0
            assert row["copies"]

    def read(self, touched: Iterable[TouchedRows]) -> EventRows:
        found = [
            (*key[1:], copies)
            for key, copies in self.copies.items()
            if copies
            and any(
                key[1] in each.payloads and key[2] < each.last and key[3] >= each.first
                for each in touched
            )
        ]
        columns = np.array(found, np.int64).reshape(len(found), 6).T
        payload, start, end, known_from, known_until, copies = columns
        return EventRows.of(
            payload, start, end, copies, known_from=known_from, known_until=known_until
        )

    def known(self, number: int) -> LogicalStream:
        return LogicalStream.of(
            (payload, start, end)  # type: ignore[misc]
            for (payload, _, start, end, since, until), n in self.copies.items()
            if since <= number < until
            for _ in range(n)
        )

    def rows(self) -> list[tuple[object, ...]]:
        there = [(k[0][0], *k[2:], n) for k, n in self.copies.items() if n]  # type: ignore[index]
        return sorted(there)


def rows(*elements: Element) -> EventBatch:
    return batch_of(elements, SCHEMA)


def after(form: EventColumns, *rounds: Round) -> Table:
    table = Table(form)
    for each in rounds:
        table.take(each)
    return table


OPEN = Round(rows(Insert({"k": 1}, 15, 40)))
CUT = revision(7, [Adjust({"k": 1}, 20, 30, 20)], SCHEMA)


def test_a_withdrawal_inside_of_a_lifetime_cuts_it() -> None:
    found = after(HISTORY, OPEN, Round(rows(), (CUT,)))
    assert found.rows() == [
        (1, 15, 20, 7, NEVER, 1),
        (1, 15, 40, ALWAYS, 7, 1),
        (1, 30, 40, 7, NEVER, 1),
    ]
    found = after(CURRENT, OPEN, Round(rows(), (CUT,)))
    assert found.rows() == [(1, 15, 20, ALWAYS, NEVER, 1), (1, 30, 40, ALWAYS, NEVER, 1)]


def test_an_end_that_moves_later_moves_in_all_versions() -> None:
    later = Round(rows(Adjust({"k": 1}, 15, 40, 35)))
    longer = Round(rows(Adjust({"k": 1}, 15, 35, 50)))
    found = after(HISTORY, OPEN, Round(rows(), (CUT,)), later, longer)
    assert found.rows() == [
        (1, 15, 20, 7, NEVER, 1),
        (1, 15, 50, ALWAYS, 7, 1),
        (1, 30, 50, 7, NEVER, 1),
    ]


def test_what_all_versions_have_in_common_is_one_row() -> None:
    apart = Round(rows(Adjust({"k": 1}, 15, 40, 31), Insert({"k": 1}, 33, 40)))
    found = after(HISTORY, OPEN, Round(rows(), (CUT,)), apart)
    assert found.rows() == [
        (1, 15, 20, 7, NEVER, 1),
        (1, 15, 31, ALWAYS, 7, 1),
        (1, 30, 31, 7, NEVER, 1),
        (1, 33, 40, ALWAYS, NEVER, 1),
    ]


def test_a_row_that_goes_as_it_is_is_not_cut() -> None:
    whole = revision(7, [Adjust({"k": 1}, 15, 40, 15), Insert({"k": 2}, 15, 40)], SCHEMA)
    twice = Round(rows(Insert({"k": 1}, 15, 40), Insert({"k": 1}, 15, 40)))
    found = after(HISTORY, twice, Round(rows(), (whole,)))
    assert found.rows() == [
        (1, 15, 40, ALWAYS, 7, 1),
        (1, 15, 40, ALWAYS, NEVER, 1),
        (2, 15, 40, 7, NEVER, 1),
    ]


def test_two_revisions_of_one_batch_follow_each_other() -> None:
    back = revision(8, [Insert({"k": 1}, 20, 30), Adjust({"k": 1}, 15, 18, 15)], SCHEMA)
    found = after(HISTORY, OPEN, Round(rows(Insert({"k": 3}, 50)), (CUT, back)))
    assert [found.known(number).events() for number in (6, 7, 8)] == [
        [((1,), 15, 40), ((3,), 50, FOREVER)],
        [((1,), 15, 20), ((1,), 30, 40), ((3,), 50, FOREVER)],
        [((1,), 18, 40), ((3,), 50, FOREVER)],
    ]


def test_several_payloads_are_cut_in_one_batch() -> None:
    both = Round(rows(Insert({"k": 1}, 15, 40), Insert({"k": 2}, 15, 40)))
    cut = revision(1, [Adjust({"k": k}, 20, 30, 20) for k in (1, 2)], SCHEMA)
    ends = [Adjust({"k": 1}, 15, 40, 35), Adjust({"k": 2}, 15, 40, 36)]
    rounds = [both, Round(rows(Insert({"k": 2}, 31, 33), *ends), (cut,))]
    found = after(HISTORY, *rounds)
    assert [found.known(number) for number in (0, 1)] == [meaning(rounds, n) for n in (0, 1)]


def test_what_is_not_there_is_not_withdrawn() -> None:
    found = after(CURRENT, Round(rows(Insert({"k": 1}, 25, 40))), Round(rows(), (CUT,)))
    assert found.rows() == [(1, 30, 40, ALWAYS, NEVER, 1)]


@given(st.sampled_from([SCHEMA, pa.schema([("b", pa.bool_())])]).flatmap(revised_rounds))
def test_a_history_has_every_snapshot_as_known_after_each_revision(rounds: list[Round]) -> None:
    table = after(HISTORY, *rounds)
    last = max((r.number for each in rounds for r in each.revisions), default=0)
    for number in range(last + 1):
        assert table.known(number) == meaning(rounds, number)


@given(st.sampled_from([SCHEMA, pa.schema([("b", pa.bool_())])]).flatmap(revised_rounds))
def test_current_events_have_the_snapshots_from_the_stable_point_on(rounds: list[Round]) -> None:
    table, stable = Table(CURRENT), BEGINNING
    for number, each in enumerate(rounds):
        table.take(each)
        stable = Time(max(stable, each.rows.stable))
        for key in [key for key in table.copies if key[3] < stable]:
            del table.copies[key]
        wanted = meaning(rounds[: number + 1])
        assert at_or_after(table.known(ALWAYS), stable) == at_or_after(wanted, stable)
