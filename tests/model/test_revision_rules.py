"""The checker finds revisions that are not legal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.revised_streams import (
    SCHEMA,
    Part,
    insert,
    meaning,
    revised_streams,
    revision,
    withdrawal,
)

from anabranch.errors import StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Element, Stable, elements_of
from anabranch.model.legality import LegalityChecker, Violation, show_violation
from anabranch.model.revision import Revision
from anabranch.model.settled import SettledLevels, withdrawn_payloads
from anabranch.model.time import BEGINNING, Time


def arrivals(parts: list[Element | Revision], first: int = 1) -> Arrivals:
    """Elements and revisions one after the other, at positions from `first` on."""
    numbered = list(enumerate(parts, first))
    elements = [(at, part) for at, part in numbered if not isinstance(part, Revision)]
    found = Arrivals.of([element for _, element in elements], SCHEMA, first=0)
    position = np.array([at for at, _ in elements], np.int64)
    return replace(
        found,
        position=position[found.position],
        stable_positions=position[found.stable_positions],
        revisions=tuple(part for _, part in numbered if isinstance(part, Revision)),
        revision_positions=tuple(at for at, part in numbered if isinstance(part, Revision)),
    )


def in_turn(parts: list[Part]) -> list[Element | Revision]:
    found: list[Element | Revision] = []
    for part in parts:
        found += [part] if isinstance(part, Revision) else elements_of(part)
    return found


def violations(
    *parts: Element | Revision, size: int = 100, since: int = BEGINNING, revised: int = 0
) -> list[Violation]:
    cut = range(0, len(parts), size)
    pieces = [arrivals(list(parts[first : first + size]), first + 1) for first in cut]
    checker = LegalityChecker(
        withdrawn=withdrawn_payloads(pieces), since=Time(since), revised=revised
    )
    return [violation for piece in pieces for violation in checker.feed(piece, 100)]


def told(*parts: Element | Revision) -> list[str]:
    return [f"{each.position} {each.rule}\n{show_violation(each)}" for each in violations(*parts)]


@given(revised_streams(most=20), st.integers(1, 8))
def test_legal_revisions_are_legal(parts: list[Part], size: int) -> None:
    assert violations(*in_turn(parts), size=size) == []


@given(revised_streams(), st.integers(0, 8), st.integers(1, 4), st.sampled_from("abc"), st.data())
def test_a_withdrawal_is_legal_if_everything_is_there(
    parts: list[Part], start: int, length: int, payload: str, data: st.DataObject
) -> None:
    stable = max((part.stable for part in parts if isinstance(part, EventBatch)), default=BEGINNING)
    numbers = [part.number for part in parts if isinstance(part, Revision)]
    last = revision(
        max(numbers, default=0) + 1,
        start,
        start + length,
        withdrawal(payload, start, start + length),
    )
    found = violations(*in_turn(parts), last, size=data.draw(st.integers(1, 8)))
    rules = [violation.rule for violation in found]
    if start + length > stable:
        assert rules == ["unsettled-revision"]
        return
    try:
        meaning([*parts, last])
    except StreamError:
        assert rules == ["unknown-withdrawal"]
    else:
        assert rules == []


X = insert("x", 15, 40)


def test_revisions_count_up_from_one() -> None:
    added = insert("y", 1, 2)
    assert told(X, Stable(30), revision(2, 1, 2, added), revision(3, 1, 2, added)) == [
        "3 revision-number\nrevision 2 of [1, 2), 1 change\n"
        "revisions count up by 1 from 1; none came before"
    ]
    assert told(Stable(30), revision(1, 1, 2, added), revision(1, 1, 2, added, added)) == [
        "3 revision-number\nrevision 1 of [1, 2), 2 changes\n"
        "revisions count up by 1 from 1; revision 1 came before"
    ]


def test_a_revision_ends_at_the_stable_point_or_before() -> None:
    added = insert("y", 1, 31)
    assert told(X, Stable(30), revision(1, 1, 31, added)) == [
        "3 unsettled-revision\nrevision 1 of [1, 31), 1 change\n"
        "a revision changes only what is settled; it came behind stable 30 (line 2)"
    ]
    assert told(revision(1, 1, 31, added))[0].endswith("it came behind no stable point")
    assert told(Stable(31), revision(1, 1, 31, added)) == []


def test_nothing_changes_outside_of_a_revision() -> None:
    assert told(Stable(30), revision(1, 3, 4, insert("y", 2, 4))) == [
        '2 outside-revision\ninsert {"a": "y"} [2, 4)\nrevision 1 changes nothing outside of [3, 4)'
    ]


def test_a_revision_does_not_add_and_take_away_the_same() -> None:
    changes = (withdrawal("x", 15, 20), insert("x", 19, 22))
    assert told(X, Stable(30), revision(1, 15, 22, *changes)) == [
        '3 needless-change\nadjust {"a": "x"} from [15, 20) to [15, 15)\n'
        "a revision says what is really different; this one also adds the same payload there"
    ]
    fine = (withdrawal("x", 15, 19), insert("x", 19, 22), insert("y", 15, 20))
    assert told(X, Stable(30), revision(1, 15, 22, *fine)) == []


def test_a_revision_takes_away_what_is_there() -> None:
    assert told(X, Stable(30), revision(1, 10, 20, withdrawal("x", 10, 20))) == [
        '3 unknown-withdrawal\nadjust {"a": "x"} from [10, 20) to [10, 10)\n'
        "a revision takes away what is there; this payload does not hold at 10"
    ]
    twice = revision(1, 15, 20, withdrawal("x", 15, 20), withdrawal("x", 16, 20))
    assert told(X, Stable(30), twice)[0].endswith("holds only 1 times at 16")
    again = (revision(1, 15, 20, withdrawal("x", 15, 20)), revision(2, 16, 18, insert("x", 16, 18)))
    assert told(X, Stable(30), *again, revision(3, 16, 18, withdrawal("x", 16, 18))) == []
    assert len(told(X, Stable(30), *again, revision(3, 16, 19, withdrawal("x", 16, 19)))) == 1


def test_a_revision_that_is_not_legal_counts_as_not_said() -> None:
    wrong = revision(1, 10, 20, withdrawal("x", 10, 20))
    right = revision(2, 15, 20, withdrawal("x", 15, 20))
    assert [each.position for each in violations(X, Stable(30), wrong, right)] == [3]


def test_adjusts_are_judged_by_the_events_as_announced() -> None:
    cut = revision(1, 20, 30, withdrawal("x", 20, 30))
    assert told(X, Stable(30), cut, Adjust({"a": "x"}, 15, 40, 50)) == []
    [broken] = violations(X, Stable(30), cut, Adjust({"a": "x"}, 30, 40, 50))
    assert (broken.position, broken.rule) == (4, "unknown-event")


def test_only_so_many_violations_are_looked_for() -> None:
    wrong = revision(3, 10, 20, insert("x", 10, 20))
    piece = arrivals([Stable(30), wrong, insert("y", 1, 2), insert("y", 2, 3)])
    for limit in (1, 2, 3):
        assert [each.position for each in LegalityChecker().feed(piece, limit)] == [2, 3, 4][:limit]


def test_what_was_before_the_beginning_of_a_stream_is_not_asked_for() -> None:
    late = revision(5, 10, 25, withdrawal("x", 10, 25))
    event = insert("x", 18, 40)
    assert violations(event, Stable(30), late, since=20, revised=4) == []
    [broken] = violations(event, Stable(30), late, since=17, revised=4)
    assert broken.promise.endswith("does not hold at 17")


def test_payloads_that_are_not_withdrawn_are_not_kept() -> None:
    levels = SettledLevels(withdrawn_payloads([arrivals([Stable(9)])]))
    levels.add(arrivals([insert("x", 1, 2)]).batch)
    assert levels._runs == []


def test_without_a_first_reading_it_is_not_asked_what_is_there() -> None:
    piece = arrivals([Stable(30), revision(1, 10, 20, withdrawal("x", 10, 20))])
    assert LegalityChecker().feed(piece) == []


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_levels_are_the_same_however_they_are_added(size: int) -> None:
    events = [insert("xy"[n % 2], n, n + 5) for n in range(40)]
    asked = revision(1, 0, 44, withdrawal("x", 2, 44), withdrawal("x", 4, 40)).changes
    levels = SettledLevels(
        withdrawn_payloads([arrivals([revision(1, 0, 44, *elements_of(asked))])])
    )
    for first in range(0, len(events), size):
        levels.add(arrivals([*events[first : first + size]]).batch)
    assert levels.first_missing(asked) == (0, 43, 0)
