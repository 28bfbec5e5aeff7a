"""Lets runs be changed while they run: what `run.migrate` does."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, final, get_args

from anabranch.adapt.decision import Reoptimize
from anabranch.adapt.reoptimizer import Reoptimizer, at_a_start
from anabranch.algebra.node import Node
from anabranch.changed_scripts import wanted_change
from anabranch.errors import EngineError, PlanError
from anabranch.host import Host
from anabranch.migrate.executed_queries import PlanAll
from anabranch.migrate.membership import Membership
from anabranch.migrate.migration import Migration
from anabranch.migrate.migrator import Migrator
from anabranch.migrate.request import WantedChange
from anabranch.model.time import BEGINNING
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.planning import AskedQuery, PlannedQueries
from anabranch.runtime.measure.measurements import Measurements
from anabranch.runtime.option import Option, word
from anabranch.runtime.query.execution import Execution
from anabranch.runtime.query.options import RUN_OPTIONS
from anabranch.runtime.query.run import Run
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.sources.location import full_path
from anabranch.runtime.store.migrations import How, MigrationRecord
from anabranch.runtime.store.query_statistics import BetterPlan

if TYPE_CHECKING:
    from anabranch.runtime.query.committing import Output

_LOG: Final = logging.getLogger("anabranch")

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
    # Changes with every query that joins or leaves.
    members = list(runs)
    measurements = execution.assembly.measurements
    assert measurements is not None
    ready = Event()
    found: list[RunningGroup] = []

    def regroup(record: MigrationRecord) -> None:
        # A request may wait since before the start.
        ready.wait()
        found[0].take(record)

    migrator = Migrator(
        execution,
        asked,
        planned,
        plan_all,
        allow_unbounded=allow_unbounded,
        when_switched=lambda output: host.runs.withdraw(members[output]),
        bind=partial(wanted_change, host, measurements, members),
        regroup=regroup,
    )
    group = RunningGroup(host, execution, migrator, members, measurements)
    for run in runs:
        group.take_in(run)
    found.append(group)
    ready.set()
    watched = _Watched(migrator, execution, measurements, plan_all, members)
    reoptimizer = None
    if host.reoptimize is not None:
        reoptimizer = Reoptimizer(watched, host.reoptimize)
        measurements.watch = reoptimizer.after_batch
    if not execution.assembly.opened.fresh and measurements.statistics.batches:
        Thread(
            target=_look_back,
            args=(watched, reoptimizer),
            name="anabranch-look-back",
            daemon=True,
        ).start()


def _look_back(watched: _Watched, reoptimizer: Reoptimizer | None) -> None:
    """Give the optimizer what was measured of a query before it was started again.

    Its state belongs to the plan that it has. Another one is taken by a change while it runs, or
    the query tells of it. What goes wrong here must not end the query.
    """
    measurements = watched.measurements
    try:
        if reoptimizer is not None:
            reoptimizer.resume(measurements.statistics.batches)
            return
        usual = Reoptimize()
        measurements.advise(
            BetterPlan(output=output, gain=verdict.gain, reason=verdict.reason)
            for output, verdict in enumerate(at_a_start(watched))
            if verdict.gain >= usual.factor
        )
    except Exception as problem:  # noqa: BLE001
        if not watched.execution.is_stopped:
            _LOG.warning("the plan could not be compared with others: %s", problem)


@final
@dataclass(frozen=True, slots=True)
class _Watched:
    """A query that is watched, as the reoptimizer sees it."""

    migrator: Migrator
    execution: Execution
    measurements: Measurements
    plan_all: PlanAll
    members: Sequence[Run]

    def measured(self) -> PlanStatistics:
        """What was measured of it by now."""
        return self.measurements.statistics.for_plans()

    def running(self) -> Sequence[Node]:
        """The plans that run, one per output."""
        return self.execution.assembly.work.nodes

    def best(self, statistics: PlanStatistics) -> Sequence[Node]:
        """The plans that the optimizer would choose."""
        return self.plan_all(self.migrator.queries.asked, statistics=statistics).workers

    def is_changing(self) -> bool:
        """Whether a change is under way."""
        return self.migrator.current is not None

    def change(self, outputs: Sequence[int], statistics: PlanStatistics) -> None:
        """Give outputs the plans that the optimizer chooses by these statistics."""
        asked = self.migrator.queries.asked
        self.migrator.migrate(
            WantedChange(
                {output: asked[output] for output in outputs},
                {output: self.members[output].name for output in outputs},
                statistics,
            )
        )


@final
class RunningGroup:
    """The runs that share one execution: each can change, others can join, and each can leave."""

    def __init__(
        self,
        host: Host,
        execution: Execution,
        migrator: Migrator,
        members: list[Run],
        measurements: Measurements,
    ) -> None:
        """Those of now, in the order of the outputs."""
        self._host = host
        self._execution = execution
        self._migrator = migrator
        self._members = members
        self._measurements = measurements
        self._membership = Membership(execution, migrator)

    @property
    def members(self) -> Sequence[Run]:
        """Those that run together now, in the order of the outputs."""
        return tuple(self._members)

    def take_in(self, run: Run) -> None:
        """Let a run of the group be changed."""
        run.group = self

        def change(query: Any = None, *, how: How = "auto", at: Any = None) -> Migration:
            queries = None if query is None else [query]
            return self.migrate([run], queries, how=how, at=at, where="migrate(...)")

        run.changer = change

    def migrate(
        self,
        runs: Sequence[Run],
        queries: Sequence[Any] | None,
        *,
        how: How = "auto",
        at: Any = None,
        where: str,
    ) -> Migration:
        """Change runs of the group from one T on; without queries by what was measured of them."""
        _HOW.checked(how, where=where)
        numbers = [self._members.index(run) for run in runs]
        asked = self._migrator.queries.asked
        new = (
            [asked[number] for number in numbers]
            if queries is None
            else [_asked(self._host, query, where=where) for query in queries]
        )
        wanted = WantedChange(
            dict(zip(numbers, new, strict=True)),
            dict(zip(numbers, (run.name for run in runs), strict=True)),
            self._measurements.statistics.for_plans() if queries is None else None,
        )
        return self._migrator.migrate(wanted, how=how, at=at)

    def add(
        self,
        query: Any,
        to: Any = None,
        *,
        foreach: Any = None,
        name: str | None = None,
        how: How = "auto",
        at: Any = None,
        record: MigrationRecord | None = None,
    ) -> Run:
        """Let a query join; see `Run.add`. `record` is the request of another process."""
        _HOW.checked(how, where="add(...)")
        RUN_OPTIONS["to"].checked(to, where="add(...)")
        RUN_OPTIONS["foreach"].checked(foreach, where="add(...)")
        asked = _asked(self._host, query, where="add(...)")
        self._refuse_taken(name)
        make_sink, _ = choose_sink(to, foreach)
        found: list[Run] = []

        def joined(output: Output) -> None:
            run = Run(self._execution, output)
            self._members.append(run)
            found.append(run)

        wanted = name or getattr(query, "name", None)
        migration, begun = self._membership.join(
            asked,
            make_sink,
            joined,
            how=how,
            at=at,
            what=wanted or "a query that joins",
            record=record,
        )
        self._await(migration, begun)
        [run] = found
        run.joined = migration
        uses: frozenset[str] = getattr(query, "uses", frozenset())
        reads = frozenset(source.path for source in self._execution.assembly.work.files)
        is_whole = migration.at == BEGINNING
        self._host.runs.add(run, wanted, asked.node, uses, reads, publishes=is_whole)
        self.take_in(run)
        return run

    def take(self, record: MigrationRecord) -> None:
        """Let a query join or leave, as another process has asked.

        Raises:
            PlanError: It cannot.
        """
        if record.verb == "drop":
            self.leave(self._named(record.what), force=record.force, record=record)
            return
        assert record.text is not None
        queries = self._host.read_apart(record.text, record.script, record.modules)
        if not queries:
            where = record.script or "the query that joins"
            raise PlanError("the script has no query", where=where, hint="end it with a SELECT")
        self.add(
            queries[-1],
            record.to,
            name=record.what or None,
            how=record.how,
            at=record.not_before,
            record=record,
        )

    def _refuse_taken(self, name: str | None) -> None:
        """Refuse a name by which another query of the engine is told to leave or to change.

        Raises:
            PlanError: A query that runs has it.
        """
        taken = [run.name for run in self._host.runs.each if run.status == "running"]
        if name is not None and name.lower() in map(str.lower, taken):
            raise PlanError(
                f"a query '{name}' runs already",
                where=self._execution.checkpoint,
                hint=f"choose another name; queries that run: {', '.join(taken)}",
            )

    def _named(self, name: str) -> Run:
        """The query of the group that has a name, or writes to a folder."""
        for run in self._members:
            path = None if run.log_folder is None else full_path(run.log_folder)
            if name == run.name or (path is not None and full_path(name) == path):
                return run
        raise PlanError(
            f"no query '{name}' runs here",
            where=self._execution.checkpoint,
            hint=f"queries that run: {', '.join(run.name for run in self._members)}; name one of "
            "them, or its output folder",
        )

    def leave(
        self, run: Run, *, force: bool = False, record: MigrationRecord | None = None
    ) -> None:
        """Let a query leave; see `Run.leave`. `record` is the request of another process."""
        readers = [] if force else self._host.runs.readers_of(run)
        if readers:
            raise PlanError(
                f"other queries read the results of '{run.name}': {', '.join(readers)}",
                where=str(run.log_folder),
                hint="stop them first, or let it leave nevertheless with leave(force=True), "
                "anabranch drop --force: they get no more of it",
            )

        def left() -> None:
            self._members.remove(run)
            self._host.runs.withdraw(run)
            run.has_left = True

        output = self._members.index(run)
        self._await(*self._membership.leave(output, left, what=run.name, record=record))

    def _await(self, migration: Migration, begun: Event) -> None:
        """Wait until the plan of a change runs.

        Raises:
            PlanError: The change was refused.
            EngineError: The queries have ended before.
        """
        while migration.state == "requested":
            with suppress(EngineError):
                migration.await_switched(1.0)
            others = [run for run in self._members if not run.has_left]
            if migration.state == "requested" and others[0].status != "running":
                raise EngineError(
                    "the queries ended before the change began",
                    where=self._execution.checkpoint,
                    hint="start them again, and ask for it again",
                )
        migration.await_finished()
        begun.wait()


def migrate_all(
    runs: Sequence[Run], queries: Sequence[Any] | None, *, how: How, at: Any
) -> Migration:
    """Change several runs from one T on; see `Engine.migrate_all`."""
    where = "migrate_all(...)"
    groups = {id(run.group) for run in runs if not run.has_left}
    group = runs[0].group if runs else None
    if not isinstance(group, RunningGroup) or len(groups) != 1 or any(r.has_left for r in runs):
        raise PlanError(
            "the queries do not run together",
            where=where,
            hint="pass runs of one start_all(...), or change each with run.migrate(query)",
        )
    if runs[0].status != "running":
        raise PlanError(
            f"the queries do not run: they have {runs[0].status}",
            where=where,
            hint="start them again with the same checkpoint, and change them then",
        )
    if len(set(map(id, runs))) != len(runs) or (queries is not None and len(queries) != len(runs)):
        raise PlanError(
            f"{len(runs)} runs cannot become {len(queries or runs)} queries",
            where=where,
            hint="name each run once, and pass the query that it becomes for each, in their order",
        )
    return group.migrate(runs, queries, how=how, at=at, where=where)


def _asked(host: Host, query: Any, *, where: str) -> AskedQuery:
    """A query out of SQL, or as it is."""
    if isinstance(query, str):
        query = host.sql(query)
    if not hasattr(query, "node") or not hasattr(query, "sources"):
        raise PlanError(
            f"a query is needed, not {type(query).__name__}",
            where=where,
            hint="pass the result of engine.sql('SELECT ...'), or the text of the query itself",
        )
    found: AskedQuery = query
    return found
