"""A change of a running query that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.migrate.preparing import OpenResults, PreparedReplay
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.planning import PlannedQueries
from anabranch.runtime.store.migrations import MigrationRecord


def earliest(at: Any, clock: Clock, *, where: str) -> Time:
    """The earliest T that was asked for; BEGINNING: any.

    Raises:
        PlanError: No answer would ever count.
    """
    instant = BEGINNING if at is None else clock.instant(at)
    if instant == FOREVER:
        raise PlanError(
            "T cannot be 'forever': the new answer would never count",
            where=where,
            hint="name an instant (at=, --at), or leave it out",
        )
    return instant


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A change that waits for a batch to begin.

    Attributes:
        record: What is written down of it.
        output: The number of the output that changes.
        old: The logical plan that runs.
        new: The new one, with the columns of the output; where lifetimes are joined at T, what
            is below the coalesce.
        planned: All queries as they will be, planned as a user would start them.
        not_before: The earliest T.
        before: For user operators with other code the one that runs.
        reason: Why this way was chosen.
        prepared: By replay: the new plan after what has been read by now.
        open_results: Where lifetimes are joined at T: the results that have not ended yet.
    """

    record: MigrationRecord
    output: int
    old: Node
    new: Node
    planned: PlannedQueries
    not_before: Time
    before: Mapping[Node, Node] = field(default_factory=dict)
    reason: str = ""
    prepared: PreparedReplay | None = None
    open_results: OpenResults | None = None

    @property
    def heals(self) -> bool:
        """Whether lifetimes are joined at T."""
        return self.open_results is not None
