"""Check that a stream is legal: which element breaks which promise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.model.arrivals import Arrivals
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.elements import Adjust, Element, Insert, elements_of, show_element
from anabranch.model.revision import Revision
from anabranch.model.revision_rules import RevisionRule, RevisionRules, show_revision
from anabranch.model.settled import payload_hash
from anabranch.model.tally import Flags, KeyCounts, Numbers, Tally
from anabranch.model.time import BEGINNING, Time, TimeArray

Rule: TypeAlias = (
    Literal["empty-lifetime", "late-insert", "late-adjust", "frozen-withdrawal", "unknown-event"]
    | RevisionRule
)
_MOST_ENDS: Final = 5


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An element that a legal stream would not hold.

    Attributes:
        position: Its line in a text file, its row in a table, or its number.
        element: What was said.
        rule: The kind of promise that is broken.
        promise: The promise, and how the element breaks it, as a sentence.
    """

    position: int
    element: Element | Revision
    rule: Rule
    promise: str


@final
class LegalityChecker:
    """Reads a stream and finds elements that break a promise (Chandramouli et al., section II).

    After `stable(t)` no insert starts before t, and no adjust moves an end from or to a time
    before t, so that an event which started before t is there to stay; an adjust names an event
    that exists; a lifetime is not empty. A stable that does not raise the stable point promises
    nothing new and is legal.

    A revision has the number behind the one before it; it ends at the stable point or earlier; no
    change lies outside of it; it does not add and take away the same; and it takes away only what
    is there. Adjusts are judged by the events as they were announced, whatever was revised.

    Memory holds one entry per event that may still be adjusted: payloads as their hashes only.
    What revisions take away may be settled for long. So the payloads that they withdraw have to be
    known before: only for these everything is kept. A stream without revisions keeps nothing more.

    Args:
        clock: How times are said.
        unit: What positions count, for the sentences.
        withdrawn: The payloads of `withdrawn_payloads`, from a first reading of the stream; None:
            it is not checked whether what revisions take away is there.
        since: What was before this instant has been removed from the stream.
        revised: The number of the newest revision that has been removed.
    """

    def __init__(
        self,
        *,
        clock: Clock = INTEGERS,
        unit: str = "line",
        withdrawn: Numbers | None = None,
        since: Time = BEGINNING,
        revised: int = 0,
    ) -> None:
        self.stable: Time = BEGINNING
        self._revisions = RevisionRules(
            clock=clock, withdrawn=withdrawn, since=since, revised=revised
        )
        self._stable_position = 0
        self._clock = clock
        self._unit = unit
        self._events = Tally(self._may_move)

    @property
    def live(self) -> int:
        """How many events may still be adjusted."""
        return int(self._events.entries().count.sum())

    def feed(self, arrivals: Arrivals, limit: int = 1) -> list[Violation]:
        """The first violations among the next elements, at most `limit`.

        An element that breaks a promise is then taken as not said. After as many violations as
        `limit` the rest of the arrivals have not been looked at.
        """
        found: list[Violation] = []
        for piece in arrivals.by_revision():
            for revision, position in zip(piece.revisions, piece.revision_positions):
                found += self._revised(revision, position)
            if len(found) < limit:
                found += self._fed(piece, limit - len(found))
            if len(found) >= limit:
                break
        return found

    def _fed(self, arrivals: Arrivals, limit: int) -> list[Violation]:
        """The same for elements without revisions among them."""
        found: list[Violation] = []
        while True:
            moves = _moves(arrivals)
            row, rule = self._first(arrivals, *moves)
            if rule is None:
                break
            found.append(self._violation(arrivals, row, rule))
            if len(found) == limit:
                return found
            arrivals = arrivals.without(row)
        self._events.add(moves[0])
        self._revisions.add(arrivals.batch)
        if len(arrivals.stables):
            best = int(np.argmax(arrivals.stables))
            if arrivals.stables[best] > self.stable:
                self.stable = Time(int(arrivals.stables[best]))
                self._stable_position = int(arrivals.stable_positions[best])
        return found

    def _revised(self, revision: Revision, position: int) -> list[Violation]:
        """What is wrong with a revision, if anything is; then it is taken as not said."""
        reached = "no stable point"
        if self._stable_position:
            reached = f"stable {self._time(self.stable)} ({self._unit} {self._stable_position})"
        broken = self._revisions.judge(revision, self.stable, reached)
        if broken is None:
            return []
        element: Element | Revision = revision
        if broken.row is not None:
            element = elements_of(revision.changes.take(np.array([broken.row])))[0]
        return [
            Violation(position=position, element=element, rule=broken.rule, promise=broken.promise)
        ]

    def _first(
        self, arrivals: Arrivals, moves: KeyCounts, rows: Numbers
    ) -> tuple[int, Rule | None]:
        """The first row that breaks a promise, and which."""
        batch, is_adjust = arrivals.batch, arrivals.is_adjust
        bound = np.maximum(arrivals.bound, self.stable)
        # Later masks are more special than earlier ones.
        broken: dict[Rule, Flags] = {
            "late-insert": ~is_adjust & (batch.start < bound),
            "late-adjust": is_adjust & ((batch.end < bound) | (batch.new_end < bound)),
            "frozen-withdrawal": is_adjust & (batch.start < bound) & (batch.new_end == batch.start),
            "empty-lifetime": np.where(
                is_adjust,
                (batch.end <= batch.start) | (batch.new_end < batch.start),
                batch.new_end <= batch.start,
            ),
        }
        anything = np.logical_or.reduce(list(broken.values()))
        first = int(np.argmax(anything)) if anything.any() else len(batch)
        unknown = self._first_unknown(moves, rows) if is_adjust[:first].any() else first
        if unknown < first:
            return unknown, "unknown-event"
        if first == len(batch):
            return first, None
        return first, [rule for rule, mask in broken.items() if mask[first]][-1]

    def _first_unknown(self, moves: KeyCounts, rows: Numbers) -> int:
        """The first row that takes away an event which is not there."""
        order = moves.order()
        moves, rows = moves.take(order), rows[order]
        begins = moves.begins()
        first = np.flatnonzero(begins)
        running = np.cumsum(moves.count)
        there = self._events.counts(moves.take(begins)) - running[first] + moves.count[first]
        running += there[np.cumsum(begins) - 1]
        missing = rows[(running < 0) & (moves.count < 0)]
        return int(missing.min(initial=np.iinfo(np.int64).max))

    def _may_move(self, entries: KeyCounts) -> Flags:
        """Not fully frozen: the end is at the stable point or later."""
        return np.asarray(entries.key[2] >= self.stable)

    def _violation(self, arrivals: Arrivals, row: int, rule: Rule) -> Violation:
        element = element_at(arrivals, row)
        return Violation(
            position=int(arrivals.position[row]),
            element=element,
            rule=rule,
            promise=self._promise(arrivals, row, rule, element),
        )

    def _promise(self, arrivals: Arrivals, row: int, rule: Rule, element: Insert | Adjust) -> str:
        if rule == "empty-lifetime":
            return "a lifetime ends after it starts"
        if rule == "unknown-event":
            assert isinstance(element, Adjust)
            return self._what_exists(arrivals, row, element)
        time, announcement = self._promised(arrivals, row)
        if rule == "late-insert":
            return f"{announcement} promised that no later insert starts before {time}"
        if rule == "frozen-withdrawal":
            return f"{announcement} promised that events which started before {time} stay"
        assert isinstance(element, Adjust)
        which = "from" if element.end < max(self.stable, int(arrivals.bound[row])) else "to"
        return f"{announcement} promised that no later adjust moves an end {which} before {time}"

    def _promised(self, arrivals: Arrivals, row: int) -> tuple[str, str]:
        """The stable point in force at a row, and who set it."""
        stable, position = int(self.stable), self._stable_position
        earlier = arrivals.stable_positions < arrivals.position[row]
        for time, at in zip(arrivals.stables[earlier], arrivals.stable_positions[earlier]):
            if time > stable:
                stable, position = int(time), int(at)
        shown = self._time(stable)
        return shown, f"stable {shown} ({self._unit} {position})"

    def _what_exists(self, arrivals: Arrivals, row: int, element: Adjust) -> str:
        """An adjust found no event; say which events with its payload and start there are."""
        entries, rows = _moves(arrivals)
        before = entries.take(rows < row)
        payload, start = payload_hash(arrivals.batch)[row], element.start
        ends: dict[int, int] = {}
        for listed in (self._events.entries(), before):
            if len(listed):
                mine = listed.take((listed.key[0] == payload) & (listed.key[1] == start))
                for end, count in zip(mine.key[2].tolist(), mine.count.tolist()):
                    ends[end] = ends.get(end, 0) + count
        shown_ends = [self._time(end) for end, count in sorted(ends.items()) if count > 0]
        promise = "an adjust names an event that exists"
        if not shown_ends:
            return f"{promise}; none with this payload starts at {self._time(start)}"
        shown = ", ".join(shown_ends[:_MOST_ENDS]) + (
            ", ..." if len(shown_ends) > _MOST_ENDS else ""
        )
        return f"{promise}; with this payload and start there is one that ends at {shown}"

    def _time(self, time: int) -> str:
        return self._clock.format(time)


def first_violation(
    pieces: Iterable[Arrivals], *, clock: Clock = INTEGERS, unit: str = "line"
) -> Violation | None:
    """The first element of a stream that breaks a promise, or None if the stream is legal."""
    checker = LegalityChecker(clock=clock, unit=unit)
    for piece in pieces:
        for violation in checker.feed(piece):
            return violation
    return None


def check_elements(elements: Iterable[Element], schema: pa.Schema) -> Violation | None:
    """The same for elements; positions count them from 1.

    >>> from anabranch.model.elements import Stable
    >>> stream = [Insert({"a": 1}, 5, 9), Stable(7), Adjust({"a": 1}, 5, 9, 6)]
    >>> broken = check_elements(stream, pa.schema([("a", pa.int64())]))
    >>> print(broken.position, broken.promise, sep=": ")
    3: stable 7 (element 2) promised that no later adjust moves an end to before 7
    """
    return first_violation([Arrivals.of(elements, schema)], unit="element")


def show_violation(violation: Violation, *, clock: Clock = INTEGERS) -> str:
    """A violation for people, in two lines."""
    element = violation.element
    if isinstance(element, Revision):
        shown = show_revision(element, clock=clock)
    else:
        shown = show_element(element, clock=clock)
    return f"{shown}\n{violation.promise}"


def element_at(arrivals: Arrivals, row: int) -> Insert | Adjust:
    """One row as an element."""
    batch = arrivals.batch
    payload = (batch.payload.slice(row, 1).to_pylist() or [{}])[0]
    start, end, new_end = (int(times[row]) for times in (batch.start, batch.end, batch.new_end))
    if arrivals.is_adjust[row]:
        return Adjust(payload, start, end, new_end)
    return Insert(payload, start, new_end)


def _moves(arrivals: Arrivals) -> tuple[KeyCounts, Numbers]:
    """What each row takes away, then what it adds: entries by (payload, start, end), and rows."""
    batch = arrivals.batch
    leaves = np.flatnonzero(arrivals.is_adjust)
    reaches = np.flatnonzero(batch.new_end != batch.start)
    row = np.concatenate([leaves, reaches])
    # An adjust finds its event before it leaves another one behind.
    order = np.argsort(2 * row + (np.arange(len(row)) >= len(leaves)), kind="stable")
    row = row[order]
    end: TimeArray = np.concatenate([batch.end[leaves], batch.new_end[reaches]])[order]
    count = np.repeat([-1, 1], [len(leaves), len(reaches)])[order]
    return KeyCounts.of((payload_hash(arrivals.batch)[row], batch.start[row], end), count), row
