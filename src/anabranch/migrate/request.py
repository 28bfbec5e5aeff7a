"""A change of a running query that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.migrate.change import NewAnswer
from anabranch.migrate.preparing import OpenResults, PreparedReplay
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.planning import AskedQuery, PlannedQueries
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
@dataclass(frozen=True, slots=True)
class WantedChange:
    """What outputs are to become, all from the same T on.

    Attributes:
        queries: The query that each of them becomes, by the number of the output.
        names: What messages call them.
        statistics: They are the same queries, by the plan that these lead to.
    """

    queries: Mapping[int, AskedQuery]
    names: Mapping[int, str] = field(default_factory=dict)
    statistics: PlanStatistics | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRequest:
    """An output that waits for a batch to change with.

    Attributes:
        number: Its number.
        old: The logical plan that runs.
        new: The new one, with the columns of the output; where lifetimes are joined at T, what
            is below the coalesce.
        open_results: Where lifetimes are joined at T: the results that have not ended yet.
    """

    number: int
    old: Node
    new: Node
    open_results: OpenResults | None = None

    @property
    def heals(self) -> bool:
        """Whether lifetimes are joined at T."""
        return self.open_results is not None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A change that waits for a batch to begin.

    Attributes:
        record: What is written down of it.
        outputs: The outputs that change, in the order of their numbers.
        asked: All queries as they will be.
        planned: The same, planned as a user would start them.
        not_before: The earliest T.
        before: For user operators with other code the one that runs.
        reason: Why this way was chosen.
        prepared: By replay: the new plan after what has been read by now.
        where: What messages call the outputs.
    """

    record: MigrationRecord
    outputs: tuple[OutputRequest, ...]
    asked: Sequence[AskedQuery]
    planned: PlannedQueries
    not_before: Time
    before: Mapping[Node, Node] = field(default_factory=dict)
    reason: str = ""
    prepared: PreparedReplay | None = None
    where: str = ""

    @property
    def answers(self) -> list[NewAnswer]:
        """What the outputs become."""
        return [NewAnswer(each.number, each.new, each.heals) for each in self.outputs]

    @property
    def healed(self) -> list[OutputRequest]:
        """The outputs whose lifetimes are joined at T."""
        return [each for each in self.outputs if each.heals]

    def by_replay(self, prepared: PreparedReplay) -> Request:
        """The same with a plan that reads again; it follows open results for all."""
        found = prepared.open_results
        outputs = tuple(
            replace(each, open_results=found[each.number]) if each.heals else each
            for each in self.outputs
        )
        return replace(self, outputs=outputs, prepared=prepared)
