"""Merge streams that come piece by piece, in memory that what may still change bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.merge import Case, Merge, MergePolicy
from anabranch.algebra.source import Source
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.difference import conformed
from anabranch.model.time import BEGINNING, FOREVER, Time

PIECE_ROWS: Final = 100_000
"""Inputs are read in pieces of this many rows."""


@final
@dataclass(slots=True, eq=False)
class FileCopy:
    """A stream that comes piece by piece, and how far it has come."""

    name: str
    pieces: Iterator[Arrivals]
    rows: int = 0
    repeated: int = 0
    position: int = int(BEGINNING)
    stable: int = int(BEGINNING)
    is_over: bool = False

    def next(self) -> EventBatch | None:
        """The next piece."""
        piece = next(self.pieces, None)
        if piece is None:
            self.is_over = True
            return None
        batch = piece.batch
        # What a stream says against its own promise it has said before, or it makes no sense.
        bound = np.maximum(piece.bound, self.stable)
        fine = (batch.start >= bound) | ((batch.end >= bound) & (batch.new_end >= bound))
        # A revision changes what is settled, and that is no longer compared.
        revised = sum(len(revision.changes) for revision in piece.revisions)
        self.rows += len(batch) + revised
        self.repeated += len(batch) - int(fine.sum()) + revised
        self.stable = max(self.stable, int(batch.stable))
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
    report: dict[str, Any] = field(default_factory=dict)

    def batches(self) -> Iterator[EventBatch]:
        """The merged stream.

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
        kernel, runner = MergeKernel(node), LocalRunner(node)
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
