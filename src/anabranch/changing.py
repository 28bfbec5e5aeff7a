"""Lets runs be changed while they run: what `run.migrate` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final, get_args

from anabranch.adapt.reoptimizer import Reoptimizer
from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.host import Host
from anabranch.migrate.migration import Migration
from anabranch.migrate.migrator import Migrator, PlanAll
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.planning import AskedQuery, PlannedQueries
from anabranch.runtime.measure.measurements import Measurements
from anabranch.runtime.option import Option, word
from anabranch.runtime.query.run import Execution, Run
from anabranch.runtime.store.migrations import How, MigrationRecord

_HOW: Final = Option(name="how", kind=word(*get_args(How)), default="auto", nullable=False)


def let_change(
    host: Host,
    runs: Sequence[Run],
    planned: PlannedQueries,
    asked: Sequence[AskedQuery],
    plan_all: PlanAll,
    *,
    allow_unbounded: bool,
) -> None:
    """Let runs that were started together be changed, and change by themselves if they shall."""
    execution = runs[0].execution
    measurements = execution.assembly.measurements
    assert measurements is not None
    migrator = Migrator(
        execution,
        asked,
        planned,
        plan_all,
        allow_unbounded=allow_unbounded,
        when_switched=lambda output: host.runs.withdraw(runs[output]),
        bind=partial(_bound, host, measurements),
    )
    for number, run in enumerate(runs):
        run.changer = _changer(host, migrator, run, number, measurements)
    if host.reoptimize is not None:
        watched = _Watched(migrator, execution, measurements, plan_all, [run.name for run in runs])
        measurements.watch = Reoptimizer(watched, host.reoptimize).after_batch


@final
@dataclass(frozen=True, slots=True)
class _Watched:
    """A query that is watched, as the reoptimizer sees it."""

    migrator: Migrator
    execution: Execution
    measurements: Measurements
    plan_all: PlanAll
    names: Sequence[str]

    def measured(self) -> PlanStatistics:
        """What was measured of it by now."""
        return self.measurements.statistics.for_plans()

    def running(self) -> Sequence[Node]:
        """The plans that run, one per output."""
        return self.execution.assembly.work.nodes

    def best(self, statistics: PlanStatistics) -> Sequence[Node]:
        """The plans that the optimizer would choose."""
        return self.plan_all(self.migrator.asked, statistics=statistics).workers

    def is_changing(self) -> bool:
        """Whether a change is under way."""
        return self.migrator.current is not None

    def change(self, output: int, statistics: PlanStatistics) -> None:
        """Give an output the plan that the optimizer chooses by these statistics."""
        query = self.migrator.asked[output]
        self.migrator.migrate(output, query, what=self.names[output], statistics=statistics)


def _changer(
    host: Host, migrator: Migrator, run: Run, output: int, measurements: Measurements
) -> Any:
    def change(query: Any = None, *, how: How = "auto", at: Any = None) -> Migration:
        _HOW.checked(how, where="migrate(...)")
        new: AskedQuery = migrator.asked[output] if query is None else _asked(host, query)
        # The same query: by what was measured of it.
        statistics = measurements.statistics.for_plans() if query is None else None
        return migrator.migrate(output, new, how=how, at=at, what=run.name, statistics=statistics)

    return change


def _bound(
    host: Host, measurements: Measurements, record: MigrationRecord, asked: Sequence[AskedQuery]
) -> tuple[int, AskedQuery, PlanStatistics | None]:
    """What another process has asked for: of several queries, the one that is not as it was."""
    if record.reoptimize:
        output = record.output or 0
        return output, asked[output], measurements.statistics.for_plans()
    assert record.text is not None
    queries = host.read_apart(record.text, record.script)
    where = record.script or "the changed query"
    if not queries:
        raise PlanError("the script has no query", where=where, hint="end it with a SELECT")
    if len(asked) == 1:
        return 0, queries[-1], None
    if len(queries) != len(asked):
        raise PlanError(
            f"the script has {len(queries)} queries, and {len(asked)} run together",
            where=where,
            hint="write all queries of the group, in their order",
        )
    pairs = enumerate(zip(queries, asked, strict=True))
    changed = [n for n, (new, old) in pairs if new.node != old.node]
    if len(changed) != 1:
        raise PlanError(
            f"{len(changed)} queries of the script differ from those that run",
            where=where,
            hint="change one query at a time",
        )
    return changed[0], queries[changed[0]], None


def _asked(host: Host, query: Any) -> AskedQuery:
    """A query out of SQL, or as it is."""
    if isinstance(query, str):
        query = host.sql(query)
    if not hasattr(query, "node") or not hasattr(query, "sources"):
        raise PlanError(
            f"a query is needed, not {type(query).__name__}",
            where="migrate(...)",
            hint="pass the result of engine.sql('SELECT ...'), or the text of the query itself",
        )
    found: AskedQuery = query
    return found
