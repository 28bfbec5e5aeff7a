"""A change of a running query that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from anabranch.algebra.node import Node
from anabranch.migrate.preparing import PreparedReplay
from anabranch.model.time import Time
from anabranch.planning import PlannedQueries
from anabranch.runtime.store.migrations import MigrationRecord


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A change that waits for a batch to begin.

    Attributes:
        record: What is written down of it.
        output: The number of the output that changes.
        new: The new logical plan, with the columns of the output.
        planned: All queries as they will be, planned as a user would start them.
        not_before: The earliest T.
        before: For user operators with other code the one that runs.
        reason: Why this way was chosen.
        prepared: By replay: the new plan after what has been read by now.
    """

    record: MigrationRecord
    output: int
    new: Node
    planned: PlannedQueries
    not_before: Time
    before: Mapping[Node, Node] = field(default_factory=dict)
    reason: str = ""
    prepared: PreparedReplay | None = None
