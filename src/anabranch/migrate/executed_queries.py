"""The queries of one execution: as they were asked for, as they are planned, what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, final

from anabranch.algebra.node import Node
from anabranch.kernels.plan.compile import Emission, compile_plan
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate.change import (
    PlannedChange,
    RunningPlan,
    meant_at_all_times,
)
from anabranch.migrate.in_force import (
    progress_of,
    properties_of,
    revised_sources,
    states_of,
)
from anabranch.migrate.request import Request
from anabranch.migrate.same_sources import with_sources_of
from anabranch.model.time import Time
from anabranch.optimizer.statistics import UNKNOWN, PlanStatistics
from anabranch.planning import AskedQuery, PlannedQueries
from anabranch.runtime.store.query_record import read_query_record

if TYPE_CHECKING:
    from anabranch.runtime.query.execution import Execution
    from anabranch.runtime.query.work import Work


class PlanAll(Protocol):
    """Plans queries that run together, with the options that they were started with."""

    def __call__(
        self, queries: Sequence[AskedQuery], *, statistics: PlanStatistics | None = None
    ) -> PlannedQueries:
        """Plan them, by what was measured where that is given."""


@final
class ExecutedQueries:
    """What runs together, and what it may become."""

    def __init__(
        self,
        execution: Execution,
        asked: Sequence[AskedQuery],
        planned: PlannedQueries,
        plan_all: PlanAll,
        *,
        allow_unbounded: bool = False,
    ) -> None:
        """See `Migrator`."""
        self._execution = execution
        self._asked = list(asked)
        self._planned = planned
        self._plan_all = plan_all
        self._allow_unbounded = allow_unbounded

    @property
    def asked(self) -> Sequence[AskedQuery]:
        """The queries as they were asked for, or changed to, one per output."""
        return tuple(self._asked)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the plan that they would be started with now."""
        return plan_fingerprint(self._planned.physical)

    @property
    def expected(self) -> PlanStatistics:
        """What that plan was chosen by."""
        return self._planned.priced

    @property
    def emit(self) -> Emission:
        """What leaves, and when."""
        return self._planned.emit

    def planned_with(
        self, asked: Sequence[AskedQuery], *, statistics: PlanStatistics | None = None
    ) -> PlannedQueries:
        """Queries, planned by what was measured; `statistics` if that is given, else by now.

        Raises:
            PlanError: They cannot be started.
        """
        by = self._measured() if statistics is None else statistics
        planned = self._plan_all(asked, statistics=by)
        planned.refuse(allow_unbounded=self._allow_unbounded)
        running = self._execution.assembly.work.nodes
        return replace(planned, workers=with_sources_of(planned.workers, running))

    def _measured(self) -> PlanStatistics:
        """What was measured of them by now; of the rest of their sources what is declared."""
        measurements = self._execution.assembly.measurements
        return UNKNOWN if measurements is None else measurements.statistics.for_plans()

    def become(self, asked: Sequence[AskedQuery], planned: PlannedQueries) -> None:
        """From now on these are the queries, one per output."""
        self._asked, self._planned = list(asked), planned

    @property
    def next_batch(self) -> int:
        """The batch that is done next, maybe not for the first time."""
        return self._execution.assembly.opened.next_batch

    def running(self, batch: int) -> RunningPlan:
        """What the query computes, and what it knows before a batch."""
        assembly = self._execution.assembly
        work, progress = assembly.work, progress_of(self._execution.assembly, batch)
        stables = tuple(
            Time(progress.stables[work.plan.stages[index].name]) for index in work.plan.outputs
        )
        tables = frozenset(work.tables) | frozenset(self._planned.tables)
        return RunningPlan(
            plan=work.plan,
            nodes=work.nodes,
            ends={name: progress.end(name) for name in work.plan.sources},
            stables=stables,
            tables=tables,
            compile=self.compile,
            states=states_of(assembly, batch),
            revised=revised_sources(work, self._planned),
        )

    def compile(self, *nodes: Node) -> PhysicalPlan:
        """Compile plans as those of the running queries were."""
        tables = frozenset(self._execution.assembly.work.tables) | frozenset(self._planned.tables)
        late = revised_sources(self._execution.assembly.work, self._planned)
        return compile_plan(*nodes, emit=self._planned.emit, tables=tables, late=late)

    def works(
        self, request: Request, change: PlannedChange, running: RunningPlan
    ) -> tuple[Work, Work]:
        """What is computed during the change, and behind it."""
        planned, before = request.planned, self._execution.assembly.work
        meant: tuple[Node, ...] = ()
        if running.revised:
            known = list(before.meant or before.nodes)
            for each in request.outputs:
                known[each.number] = meant_at_all_times(known[each.number], each.new, change.at)
            meant = tuple(known)
        return (
            replace(self.work_of(planned, change.both, change.both_nodes), meant=meant),
            replace(self.work_of(planned, change.then, change.then_nodes), meant=meant),
        )

    def work_of(self, planned: PlannedQueries, plan: PhysicalPlan, nodes: tuple[Node, ...]) -> Work:
        """What is computed by another plan."""
        work = replace(self._execution.assembly.work, priced=planned.priced)
        files = {each.name: each for each in (*planned.files, *work.files)}
        tables = {**planned.tables, **work.tables}
        return replace(
            work,
            plan=plan,
            nodes=nodes,
            files=tuple(each for name, each in files.items() if name in plan.sources),
            tables=tables,
            older=None,
            handed_over=(),
            properties=properties_of(work, nodes, planned.emit),
        )

    def prints(self) -> tuple[str, ...]:
        """The fingerprints that the query may be started with at present."""
        stored = read_query_record(self._execution.checkpoint)
        if stored is not None and stored.in_force is not None:
            return stored.in_force.asked
        return (self.fingerprint,)

    def expectations(self) -> tuple[str, ...]:
        """The files with what these plans were chosen by, if not by what the query began with."""
        stored = read_query_record(self._execution.checkpoint)
        return () if stored is None or stored.in_force is None else stored.in_force.expected
