"""Revisions as rows of an element table: a row that announces one, then its changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.revision import Revision
from anabranch.model.tally import Numbers
from anabranch.model.time import Time, format_time

REVISE_KINDS: Final = ("revise", "revise-insert", "revise-adjust")
"""Kinds of rows: a revision, from `start` to `end` with its number in `new_end`, and its changes.

They have names of their own, so that readers who do not know revisions refuse them.
"""

REVISION_HINT: Final = (
    "a revision is a row of kind 'revise' with its span in start and end and its number in "
    "new_end; its changes follow: 'revise-insert', or 'revise-adjust' with new_end equal to start"
)


@final
@dataclass(slots=True)
class RevisionRow:
    """A revision whose changes are being collected; they may go on in the next piece of a file."""

    number: int
    first: int
    last: int
    position: int
    changes: list[EventBatch] = field(default_factory=list)

    def closed(self, path: str) -> Revision:
        """The revision with all of its changes.

        Raises:
            StreamError: It is not one.
        """
        changes = EventBatch.concat(self.changes) if self.changes else None
        if changes is None or not len(changes):
            raise self._refused("the revision has no changes", path)
        if self.number < 1:
            raise self._refused(f"'new_end' is not the number of a revision: {self.number}", path)
        span = f"[{format_time(self.first)}, {format_time(self.last)})"
        if self.first >= self.last:
            raise self._refused(f"the revision {span} ends before it starts", path)
        is_insert = changes.end == changes.start
        ends = np.where(is_insert, changes.new_end, changes.end)
        if (~is_insert & (changes.new_end != changes.start)).any():
            raise self._refused("a change of the revision is not a withdrawal", path)
        if (ends <= changes.start).any():
            raise self._refused("a change of the revision changes nothing", path)
        if changes.start.min() < self.first or ends.max() > self.last:
            raise self._refused(f"a change of the revision lies outside of {span}", path)
        return Revision(
            number=self.number, first=Time(self.first), last=Time(self.last), changes=changes
        )

    def _refused(self, what: str, path: str) -> StreamError:
        where = f"{path}, row {self.position}: revision {self.number}"
        return StreamError(what, where=where, hint=REVISION_HINT)


@final
@dataclass(slots=True)
class RevisionCollector:
    """Puts revisions together from the pieces of a table.

    Attributes:
        path: What errors call the table.
        open: The revision that the last piece has not closed.
    """

    path: str
    open: RevisionRow | None = None

    def feed(
        self, headers: list[RevisionRow], changes: EventBatch, position: Numbers, *, ends: bool
    ) -> Iterator[tuple[int, Revision]]:
        """Positions and revisions that are complete with a piece.

        Args:
            headers: The revisions that the piece announces, in order.
            changes: All changes in the piece.
            position: Where these stand.
            ends: The last row of the piece is not part of a revision.
        """
        revisions = [*([self.open] if self.open else []), *headers]
        cuts = np.searchsorted(position, [each.position for each in headers])
        bounds = [0, *cuts.tolist(), len(changes)][0 if self.open else 1 :]
        for revision, first, last in zip(revisions, bounds, bounds[1:]):
            if last > first:
                revision.changes.append(changes.take(np.arange(first, last)))
        self.open = None
        if revisions and not ends:
            self.open = revisions.pop()
        for revision in revisions:
            yield revision.position, revision.closed(self.path)

    def close(self) -> Iterator[tuple[int, Revision]]:
        """What is complete because nothing more comes."""
        if self.open is not None:
            yield self.open.position, self.open.closed(self.path)
