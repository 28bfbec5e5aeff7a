"""A query whose past can be corrected, as the driver knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import pyarrow as pa

from anabranch.algebra.analysis.spans import EVERYTHING
from anabranch.model.batch import EventBatch
from anabranch.model.revision import snapshot_changes
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.arrived import WithheldFolder
from anabranch.runtime.revisions.estimator import RevisionEstimator
from anabranch.runtime.revisions.large_replay import RunLarge
from anabranch.runtime.revisions.lineage import LineageFolder
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.runtime.revisions.stored_past import StoredPast
from anabranch.runtime.revisions.swapper import Swapper
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.workers.part_log import Response

CATCH_UP_ROUNDS: Final = 3
"""The rounds, unless somebody sets them."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedQuery:
    """What the reviser has to know of a query.

    Attributes:
        folder: The folder `revisions` of its checkpoint.
        replayer: Its plan.
        archives: Per source, what came.
        columns: Per source, the columns that the query needs.
        revised: The sources with LATE REVISE.
        outputs: The columns of each output.
        control: Its control stream.
        response: What late rows lead to.
        swapper: Exchanges the state of the query, where corrections change it; else None.
        run_large: Runs a replay that is too large for the driver; None: there is no such way.
        next_batch: The batch that comes next.
        lineage: From which input its answers came, where that is noted.
        estimator: Estimates corrections whose input is gone, where that was asked for.
        rounds: How often a replay catches up with what came meanwhile before the query waits for
            it, where state is exchanged.
    """

    folder: str
    replayer: Replayer
    archives: Mapping[str, Archive]
    columns: Mapping[str, pa.Schema]
    revised: frozenset[str]
    outputs: tuple[pa.Schema, ...]
    control: ControlFolder
    response: Response = "emit"
    swapper: Swapper | None = None
    run_large: RunLarge | None = None
    next_batch: int = 0
    lineage: LineageFolder | None = None
    estimator: RevisionEstimator | None = None
    rounds: int = CATCH_UP_ROUNDS

    def past(self, upto: int) -> StoredPast:
        """What came up to a batch."""
        return StoredPast(self.folder, self.archives, self.columns, upto, self.revised)

    def late_rows(self, source: str, batch: int) -> EventBatch:
        """What came late of a source in a batch, as changes of its snapshots."""
        schema = self.columns[source]
        folder = WithheldFolder.of(self.folder, source)
        rows = [each for _, each in folder.read(schema, EVERYTHING, batch, batch=batch)]
        return snapshot_changes(EventBatch.concat([EventBatch.empty(schema), *rows]))
