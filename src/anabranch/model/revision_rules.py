"""What a legal revision is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.elements import time_json
from anabranch.model.revision import Revision, snapshot_changes
from anabranch.model.settled import SettledLevels, payload_hash
from anabranch.model.tally import Numbers
from anabranch.model.time import BEGINNING, Time

RevisionRule: TypeAlias = Literal[
    "revision-number",
    "unsettled-revision",
    "outside-revision",
    "needless-change",
    "unknown-withdrawal",
]


@final
@dataclass(frozen=True, slots=True)
class BrokenRule:
    """The rule that a revision breaks, how, and with which change if it is one."""

    rule: RevisionRule
    promise: str
    row: int | None = None


@final
class RevisionRules:
    """Judges the revisions of a stream one after the other.

    Args:
        clock: How times are said.
        withdrawn: The payloads that revisions of the stream withdraw; None: whether they are there
            is not checked.
        since: What was before this instant has been removed from the stream.
        revised: The number of the newest revision that has been removed.
    """

    def __init__(
        self,
        *,
        clock: Clock = INTEGERS,
        withdrawn: Numbers | None = None,
        since: Time = BEGINNING,
        revised: int = 0,
    ) -> None:
        self._clock = clock
        self._since = since
        self._number = revised
        self._settled = SettledLevels(np.empty(0, np.int64) if withdrawn is None else withdrawn)

    def add(self, batch: EventBatch) -> None:
        """Take in what the stream says besides."""
        self._settled.add(batch)

    def judge(self, revision: Revision, stable: Time, reached: str) -> BrokenRule | None:
        """The rule that the next revision breaks; one that breaks none is taken in.

        Args:
            revision: The revision.
            stable: The stable point before it.
            reached: The same as a text, with its position.
        """
        broken = self._broken(revision, stable, reached)
        self._number = revision.number
        if broken is None:
            self._settled.add(revision.changes)
        return broken

    def _broken(self, revision: Revision, stable: Time, reached: str) -> BrokenRule | None:
        changes = revision.changes
        if revision.number != self._number + 1:
            before = f"revision {self._number} came before" if self._number else "none came before"
            return BrokenRule("revision-number", f"revisions count up by 1 from 1; {before}")
        if revision.last > stable:
            promise = f"a revision changes only what is settled; it came behind {reached}"
            return BrokenRule("unsettled-revision", promise)
        low, high = (
            np.minimum(changes.end, changes.new_end),
            np.maximum(changes.end, changes.new_end),
        )
        outside = np.flatnonzero((low < revision.first) | (high > revision.last))
        if len(outside):
            span = f"[{self._time(revision.first)}, {self._time(revision.last)})"
            promise = f"revision {revision.number} changes nothing outside of {span}"
            return BrokenRule("outside-revision", promise, int(outside[0]))
        needless = _needless(changes)
        if needless is not None:
            promise = (
                "a revision says what is really different; this one also adds the same payload"
            )
            return BrokenRule("needless-change", f"{promise} there", needless)
        missing = self._settled.first_missing(changes, self._since)
        if missing is None:
            return None
        row, instant, there = missing
        holds = "does not hold" if there <= 0 else f"holds only {there} times"
        promise = f"a revision takes away what is there; this payload {holds}"
        return BrokenRule("unknown-withdrawal", f"{promise} at {self._time(instant)}", row)

    def _time(self, time: int) -> str:
        return self._clock.format(time)


def show_revision(revision: Revision, *, clock: Clock = INTEGERS) -> str:
    """A revision for people, without its changes."""
    span = f"[{clock.format(revision.first)}, {clock.format(revision.last)})"
    count = len(revision.changes)
    return f"revision {revision.number} of {span}, {count:,} change{'' if count == 1 else 's'}"


def revision_json(revision: Revision, *, clock: Clock = INTEGERS) -> dict[str, int | str]:
    """A revision as in a stream file, without its changes."""
    span = (time_json(time, clock=clock) for time in (revision.first, revision.last))
    return {"revise": revision.number, **dict(zip(("from", "to"), span))}


def _needless(changes: EventBatch) -> int | None:
    """A withdrawal that an insert of the same revision undoes, in part at least.

    The sum of the lengths tells: where two changes undo each other, less is left of them.
    """
    if _length(changes) == _length(snapshot_changes(changes)):
        return None
    payload = payload_hash(changes)
    low, high = np.minimum(changes.end, changes.new_end), np.maximum(changes.end, changes.new_end)
    is_gain = changes.new_end > changes.end
    for row in np.flatnonzero(~is_gain).tolist():
        same = is_gain & (payload == payload[row]) & (low < high[row]) & (low[row] < high)
        if same.any():
            return int(row)
    raise AssertionError("changes that come to less than they are undo each other")


def _length(changes: EventBatch) -> int:
    # Lengths may not fit into 64 bits, and their sum neither.
    return sum(abs(end - new) for end, new in zip(changes.end.tolist(), changes.new_end.tolist()))
