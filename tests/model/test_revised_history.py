"""The history of a stream is the one after its revisions."""

from __future__ import annotations

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
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Element, Stable, batch_of
from anabranch.model.history import History, snapshot_of
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import payloads
from anabranch.model.revision import Revision


def logical(history: History) -> LogicalStream:
    rows = payloads(history.payload, len(history))
    return LogicalStream.of(zip(rows, history.start.tolist(), history.end.tolist()))


def shown(*parts: Part) -> list[tuple[str, int, int]]:
    history = History.of(parts, SCHEMA)
    names = history.payload.column("a").to_pylist()
    return list(zip(names, history.start.tolist(), history.end.tolist()))


def batch(*elements: Element) -> EventBatch:
    return batch_of(elements, SCHEMA)


@given(revised_streams(most=20))
def test_the_history_has_the_snapshots_after_all_revisions(parts: list[Part]) -> None:
    history = History.of(parts, SCHEMA)
    assert logical(history) == meaning(parts)
    assert (history.start < history.end).all()
    stables = [part.stable for part in parts if isinstance(part, EventBatch)]
    assert history.stable == max(stables, default=-(2**63))


@given(revised_streams(most=20), st.integers(0, 5))
def test_an_earlier_history_leaves_later_revisions_out(parts: list[Part], known: int) -> None:
    earlier = [part for part in parts if isinstance(part, EventBatch) or part.number <= known]
    assert logical(History.of(earlier, SCHEMA)) == meaning(parts, known)


@given(revised_streams(), st.integers(-1, 20))
def test_a_snapshot_is_that_of_the_history(parts: list[Part], instant: int) -> None:
    moves = [part.changes if isinstance(part, Revision) else part for part in parts]
    found = snapshot_of(moves, instant, SCHEMA)
    expected = meaning(parts).snapshot(instant)
    assert sorted(found.column("a").to_pylist()) == sorted(p[0] for p in expected.elements())


def test_a_lifetime_is_cut_where_something_is_withdrawn() -> None:
    stream = batch(insert("x", 15, 40), Stable(30))
    first = revision(1, 20, 30, withdrawal("x", 20, 30), insert("y", 20, 30))
    assert shown(stream, first) == [("x", 15, 20), ("y", 20, 30), ("x", 30, 40)]


def test_a_revision_that_is_taken_back_leaves_the_lifetime_whole() -> None:
    stream = batch(insert("x", 15, 40), Stable(30))
    first = revision(1, 20, 30, withdrawal("x", 20, 30))
    assert shown(stream, first, revision(2, 20, 30, insert("x", 20, 30))) == [("x", 15, 40)]


def test_a_withdrawal_may_reach_over_several_lifetimes() -> None:
    stream = batch(insert("x", 1, 4), insert("x", 4, 6), insert("x", 3, 9), Stable(10))
    first = revision(1, 2, 8, withdrawal("x", 2, 8))
    assert shown(stream, first) == [("x", 1, 2), ("x", 3, 4), ("x", 4, 6), ("x", 8, 9)]


def test_only_one_of_two_lifetimes_is_cut() -> None:
    stream = batch(insert("x", 1, 9), insert("x", 2, 7), Stable(10))
    first = revision(1, 3, 5, withdrawal("x", 3, 5))
    assert shown(stream, first) == [("x", 1, 3), ("x", 2, 7), ("x", 5, 9)]


def test_an_event_as_announced_may_still_move() -> None:
    stream = batch(insert("x", 15, 40), Stable(30))
    first = revision(1, 20, 30, withdrawal("x", 20, 30))
    later = batch_of([insert("z", 30, 31), withdrawal("z", 30, 31)], SCHEMA)
    assert shown(stream, first, later) == [("x", 15, 20), ("x", 30, 40)]


def test_what_does_not_hold_cannot_be_withdrawn() -> None:
    stream = batch(insert("x", 15, 25), Stable(30))
    with pytest.raises(StreamError, match="a revision withdraws what does not hold at 25") as no:
        shown(stream, revision(1, 20, 30, withdrawal("x", 20, 30)))
    assert no.value.where == 'adjust {"a": "x"} from [20, 30) to [20, 20)'
    assert no.value.hint == "'anabranch check' finds the revision that breaks a promise"
    with pytest.raises(StreamError, match="does not hold at 20"):
        shown(stream, revision(1, 20, 30, withdrawal("y", 20, 30)))


def test_a_stream_may_consist_of_what_revisions_add() -> None:
    assert shown(batch(Stable(30)), revision(1, 1, 2, insert("x", 1, 2))) == [("x", 1, 2)]
    assert shown(revision(1, 1, 2, insert("x", 1, 2))) == [("x", 1, 2)]
