"""Merge streams that come piece by piece, in memory that what may still change bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import Merge, MergePolicy
from anabranch.algebra.source import Source
from anabranch.kernels.contract.command import Command
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.kernels.merge.said_again import EQUAL_ELEMENTS, SaidAgain
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.merging.revised_copies import MergedRevisions
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.difference import conformed
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time

PIECE_ROWS: Final = 100_000
"""Inputs are read in pieces of this many rows."""


@final
@dataclass(slots=True, eq=False)
class FileCopy:
    """A stream that comes piece by piece, and how far it has come.

    One that begins in the middle has all events that end at `since` or later. With `said`, what it
    says again after a restart is recognised.
    """

    name: str
    pieces: Iterator[Arrivals]
    since: int | None = None
    rows: int = 0
    repeated: int = 0
    position: int = int(BEGINNING)
    stable: int = int(BEGINNING)
    is_over: bool = False
    revisions: tuple[Revision, ...] = ()
    said: SaidAgain | None = None

    def next(self) -> EventBatch | None:
        """The next piece; `revisions` are those of the piece."""
        piece = next(self.pieces, None)
        if piece is None:
            self.is_over, self.revisions = True, ()
            return None
        batch, self.revisions = piece.batch, piece.revisions
        # What a stream says against its own promise it has said before, or it makes no sense.
        bound = np.maximum(piece.bound, self.stable)
        fine = (batch.start >= bound) | ((batch.end >= bound) & (batch.new_end >= bound))
        self.stable = max(self.stable, int(batch.stable))
        if self.said is not None:
            fine = self.said.new(batch, fine, bound, self.stable)
        self.rows += len(batch) + len(piece.revisions)
        self.repeated += len(batch) - int(fine.sum())
        furthest = int(batch.start.max(initial=BEGINNING))
        self.position = max(self.position, furthest, min(self.stable, int(FOREVER) - 1))
        return batch.where(fine).with_stable(Time(self.stable))


@final
@dataclass(slots=True, eq=False)
class FileMerge:
    """A merge that reads whoever is furthest behind, so that nobody has to be waited for long."""

    copies: Sequence[FileCopy]
    schema: pa.Schema
    case: Case | None = None
    policy: MergePolicy = field(default_factory=MergePolicy)
    clock: Clock = INTEGERS
    report: dict[str, Any] = field(default_factory=dict)
    revised: MergedRevisions = field(init=False)

    def __post_init__(self) -> None:
        self.revised = MergedRevisions(self.policy.divergence, self.clock)

    def parts(self) -> Iterator[EventBatch | Revision]:
        """The merged stream, with its revisions where the output is settled as far as they go.

        Raises:
            StreamError: An input is not what the case says, or contradicts the others and that is
                not to be.
        """
        sources = [Source(name=f"copy{n}", schema=self.schema) for n in range(len(self.copies))]
        node = Merge(
            inputs=tuple(sources),
            names=tuple(copy.name for copy in self.copies),
            case=self.case,
            policy=self.policy,
        )
        if node.chosen in EQUAL_ELEMENTS:
            for copy in self.copies:
                copy.said = SaidAgain()
        kernel, runner = MergeKernel(node), LocalRunner(node)
        runner.step({}, commands=self._begin())
        stable = int(BEGINNING)
        while waiting := [n for n, copy in enumerate(self.copies) if not copy.is_over]:
            number = min(waiting, key=lambda n: self.copies[n].position)
            copy = self.copies[number]
            piece = copy.next()
            if piece is None:
                continue
            output = runner.step({sources[number].name: conformed(piece, self.schema)})
            self.report = kernel.report(runner.traces[0]) or self.report
            if len(output) or output.stable > stable:
                stable = int(output.stable)
                yield output
            yield from self._revisions(copy, Time(stable))

    @property
    def since(self) -> int | None:
        """The merged stream has all events that end there or later; None: all events."""
        begins = [copy.since for copy in self.copies]
        return None if None in begins else min(each for each in begins if each is not None)

    def _begin(self) -> list[Command]:
        """Let copies that begin in the middle join when the others have come so far.

        Where all of them do, those that begin first stand for the whole stream.
        """
        return [
            Command(verb="attach", source=copy.name, value=copy.since)
            for copy in self.copies
            if copy.since is not None and copy.since != self.since
        ]

    def _revisions(self, copy: FileCopy, stable: Time) -> Iterator[Revision]:
        """What leaves of the revisions that a piece of a copy has brought."""
        if copy.revisions and not self._is_quarantined(copy):
            found = [
                replace(each, changes=conformed(each.changes, self.schema))
                for each in copy.revisions
            ]
            # A copy in quarantine is not read any further.
            copy.is_over = not self.revised.take(copy.name, found) or copy.is_over
        yield from self.revised.ready(stable)
        self.revised.forget(each.name for each in self.copies if not each.is_over)

    def _is_quarantined(self, copy: FileCopy) -> bool:
        reports = self.report.get("copies", ())
        return any(
            each["name"] == copy.name and each["status"] == "quarantined" for each in reports
        )
