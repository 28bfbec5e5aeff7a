"""The revisions of copies of one stream: each is taken once, in order, when it is settled.

A revision has the same number in every copy, and changes the same snapshots: the copies describe
one stream. So the first copy that has it brings it, and the others are compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

from anabranch.algebra.merge import Divergence
from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.revision import Revision, reversed_changes, snapshot_changes
from anabranch.model.time import Time


@final
@dataclass(frozen=True, slots=True)
class RevisionConflict:
    """A copy has another revision of a number than the copy that came first."""

    copy: str
    first: str
    number: int


@final
@dataclass(slots=True, eq=False)
class MergedRevisions:
    """The revisions of a merged stream.

    Attributes:
        divergence: What becomes of a copy whose revision differs from the one that was taken.
        clock: How times are shown.
        emitted: The number of the newest revision of the output.
        conflicts: Revisions that differ, and were left out.
    """

    divergence: Divergence
    clock: Clock = INTEGERS
    emitted: int = 0
    conflicts: list[RevisionConflict] = field(default_factory=list)
    _taken: dict[int, tuple[str, Revision]] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many revisions change what the output has not settled yet."""
        return sum(number > self.emitted for number in self._taken)

    def take(self, name: str, revisions: Iterable[Revision]) -> bool:
        """Take what is new of the revisions of a copy, and compare the rest; whether all agree.

        Raises:
            StreamError: A revision differs from that of another copy, and that is not to be.
        """
        for revision in revisions:
            self._newest[name] = revision.number
            first, taken = self._taken.setdefault(revision.number, (name, revision))
            if _same(taken, revision):
                continue
            if self.divergence == "fail":
                raise StreamError(
                    f"revision {revision.number} differs from that of '{first}'",
                    where=f"copy '{name}', which revises {self._span(revision)}; '{first}' "
                    f"revises {self._span(taken)}",
                    hint="find out which copy is right; with --divergence quarantine the merge "
                    "continues without this one",
                )
            self.conflicts.append(RevisionConflict(name, first, revision.number))
            if self.divergence == "quarantine":
                return False
        return True

    def ready(self, stable: Time) -> list[Revision]:
        """The next revisions of an output that is settled so far."""
        found: list[Revision] = []
        while self.emitted + 1 in self._taken:
            _, revision = self._taken[self.emitted + 1]
            if revision.last > stable:
                break
            found.append(revision)
            self.emitted += 1
        return found

    def forget(self, read: Iterable[str]) -> None:
        """Drop the revisions that every copy which is still read has brought."""
        slowest = min((self._newest.get(name, 0) for name in read), default=self.emitted)
        for number in [each for each in self._taken if each <= min(slowest, self.emitted)]:
            del self._taken[number]

    def _span(self, revision: Revision) -> str:
        return f"[{self.clock.format(revision.first)}, {self.clock.format(revision.last)})"


def _same(one: Revision, other: Revision) -> bool:
    if one is other:
        return True
    both = EventBatch.concat([one.changes, reversed_changes(other.changes)])
    return not len(snapshot_changes(both))
