"""The checker finds the first element that breaks a promise, and no other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model import tally
from anabranch.model.arrivals import Arrivals
from anabranch.model.clock import MICROSECONDS
from anabranch.model.elements import Adjust, Element, Insert, Stable
from anabranch.model.legality import LegalityChecker, Rule, check_elements
from anabranch.model.time import BEGINNING, FOREVER

SCHEMA = pa.schema([("a", pa.string())])
TIMES = [0, 1, 2, 3, 5, 8, FOREVER]


def naive(elements: list[Element], limit: int) -> list[tuple[int, Rule]]:
    """The promises, element by element."""
    found: list[tuple[int, Rule]] = []
    stable = int(BEGINNING)
    events: Counter[tuple[str, int, int]] = Counter()
    for position, element in enumerate(elements, 1):
        rule: Rule | None = None
        match element:
            case Stable(time):
                stable = max(stable, time)
                continue
            case Insert(payload, start, end):
                if end <= start:
                    rule = "empty-lifetime"
                elif start < stable:
                    rule = "late-insert"
                else:
                    events[payload["a"], start, end] += 1  # type: ignore[call-overload]
            case Adjust(payload, start, end, new_end):
                event = (payload["a"], start, end)  # type: ignore[call-overload]
                if end <= start or new_end < start:
                    rule = "empty-lifetime"
                elif new_end == start and start < stable:
                    rule = "frozen-withdrawal"
                elif end < stable or new_end < stable:
                    rule = "late-adjust"
                elif not events[event]:
                    rule = "unknown-event"
                else:
                    events[event] -= 1
                    if new_end != start:
                        events[payload["a"], start, new_end] += 1  # type: ignore[call-overload]
        if rule is not None:
            found.append((position, rule))
            if len(found) == limit:
                return found
    return found


@st.composite
def streams(draw: st.DrawFn) -> list[Element]:
    """Adjusts mostly name an event that was said before."""
    elements: list[Element] = []
    known: list[tuple[str, int, int]] = []
    for _ in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["insert", "adjust", "adjust", "stable"]))
        payload, start, end = draw(
            st.tuples(st.sampled_from("ab"), st.sampled_from(TIMES[:-1]), st.sampled_from(TIMES))
        )
        if kind == "stable":
            elements.append(Stable(draw(st.sampled_from([0, 1, 2, 3]))))
        elif kind == "insert":
            elements.append(Insert({"a": payload}, start, end))
            known.append((payload, start, end))
        else:
            likely = draw(st.integers(0, 5)) > 0
            if known and likely:
                payload, start, end = draw(st.sampled_from(known))
            new_end = draw(st.sampled_from([*TIMES, start]))
            elements.append(Adjust({"a": payload}, start, end, new_end))
            known.append((payload, start, new_end))
    return elements


def pieces(elements: list[Element], size: int) -> list[Arrivals]:
    return [
        Arrivals.of(elements[first : first + size], SCHEMA, first + 1)
        for first in range(0, len(elements), size)
    ]


@given(streams(), st.integers(1, 30), st.integers(1, 4))
def test_the_checker_agrees_with_the_promises(
    elements: list[Element], size: int, limit: int
) -> None:
    checker = LegalityChecker()
    found: list[tuple[int, Rule]] = []
    for piece in pieces(elements, size):
        violations = checker.feed(piece, limit - len(found))
        found += [(violation.position, violation.rule) for violation in violations]
        for violation in violations:
            assert violation.element == elements[violation.position - 1]
        if len(found) == limit:
            break
    assert found == naive(elements, limit)


@given(streams(), st.integers(1, 30))
def test_the_checker_does_not_trust_hashes(elements: list[Element], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "stable_hash", lambda key, length: np.zeros(length, np.uint64))
        test_the_checker_agrees_with_the_promises.hypothesis.inner_test(elements, size, 3)  # type: ignore[attr-defined]


def promise(*elements: Element) -> str:
    violation = check_elements(elements, SCHEMA)
    assert violation is not None
    return f"{violation.position} {violation.promise}"


A = {"a": "x"}


def test_an_insert_before_the_stable_point_is_late() -> None:
    assert promise(Stable(3), Stable(5), Stable(4), Insert(A, 4, 9)) == (
        "4 stable 5 (element 2) promised that no later insert starts before 5"
    )
    assert check_elements([Stable(5), Insert(A, 5, 6)], SCHEMA) is None


def test_an_end_before_the_stable_point_cannot_move() -> None:
    assert promise(Insert(A, 1, 4), Stable(5), Adjust(A, 1, 4, 9)) == (
        "3 stable 5 (element 2) promised that no later adjust moves an end from before 5"
    )


def test_an_end_cannot_move_before_the_stable_point() -> None:
    assert promise(Insert(A, 1, 9), Stable(5), Adjust(A, 1, 9, 4)) == (
        "3 stable 5 (element 2) promised that no later adjust moves an end to before 5"
    )
    assert check_elements([Insert(A, 1, 9), Stable(5), Adjust(A, 1, 9, 5)], SCHEMA) is None


def test_a_half_frozen_event_stays() -> None:
    assert promise(Insert(A, 1, 9), Stable(5), Adjust(A, 1, 9, 1)) == (
        "3 stable 5 (element 2) promised that events which started before 5 stay"
    )
    assert check_elements([Insert(A, 5, 9), Stable(5), Adjust(A, 5, 9, 5)], SCHEMA) is None


def test_an_end_at_the_stable_point_may_still_grow() -> None:
    assert check_elements([Insert(A, 1, 5), Stable(5), Adjust(A, 1, 5, 8)], SCHEMA) is None


def test_an_adjust_of_an_unknown_event_is_told_what_exists() -> None:
    assert promise(Insert({"a": "y"}, 1, 9), Adjust(A, 1, 9, 4)) == (
        "2 an adjust names an event that exists; none with this payload starts at 1"
    )
    assert promise(Insert(A, 1, 9), Insert(A, 1, 7), Insert(A, 2, 3), Adjust(A, 1, 8, 4)) == (
        "4 an adjust names an event that exists; "
        "with this payload and start there is one that ends at 7, 9"
    )


def test_an_adjusted_event_is_no_longer_the_old_one() -> None:
    assert promise(Insert(A, 1, 9), Adjust(A, 1, 9, 7), Adjust(A, 1, 9, 8)) == (
        "3 an adjust names an event that exists; "
        "with this payload and start there is one that ends at 7"
    )


def test_a_lifetime_must_not_be_empty() -> None:
    assert promise(Insert(A, 5, 5)) == "1 a lifetime ends after it starts"
    assert promise(Insert(A, 5, 4)) == "1 a lifetime ends after it starts"
    assert promise(Insert(A, 5, 6), Adjust(A, 5, 6, 4)) == "2 a lifetime ends after it starts"


def test_an_adjust_that_changes_nothing_is_legal() -> None:
    assert check_elements([Insert(A, 5, 6), Adjust(A, 5, 6, 6)], SCHEMA) is None


def test_times_can_be_said_as_timestamps() -> None:
    checker = LegalityChecker(clock=MICROSECONDS)
    [violation] = checker.feed(Arrivals.of([Stable(2_000_000), Insert(A, 5, 6)], SCHEMA))
    assert violation.promise == (
        "stable 1970-01-01T00:00:02 (line 1) promised that no later insert starts "
        "before 1970-01-01T00:00:02"
    )


def test_memory_holds_only_what_may_still_move() -> None:
    checker = LegalityChecker()
    for step in range(50):
        inserts: list[Element] = [Insert({"a": str(i)}, step, step + 2) for i in range(100)]
        assert not checker.feed(Arrivals.of([*inserts, Stable(step)], SCHEMA))
        assert sum(len(run) for run in checker._events._runs) <= 1000
    # Ends at 50 and 51 are not before the stable point 49, nor are those at 49.
    assert checker.live == 300


def test_an_endless_event_is_live_for_ever() -> None:
    checker = LegalityChecker()
    checker.feed(Arrivals.of([Insert(A, 5), Stable(10**9)], SCHEMA))
    assert checker.live == 1
    assert not checker.feed(Arrivals.of([Adjust(A, 5, FOREVER, 10**9)], SCHEMA))


def test_a_stream_that_has_ended_allows_nothing_more() -> None:
    assert promise(Stable(FOREVER), Insert(A, 5)) == (
        "2 stable forever (element 1) promised that no later insert starts before forever"
    )
