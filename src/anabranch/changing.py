"""Lets runs be changed while they run: what `run.migrate` does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Final, final, get_args

from anabranch.adapt.reoptimizer import Reoptimizer
from anabranch.algebra.node import Node
from anabranch.errors import EngineError, PlanError
from anabranch.host import Host
from anabranch.migrate.executed_queries import PlanAll
from anabranch.migrate.healing import in_form_of
from anabranch.migrate.membership import Membership
from anabranch.migrate.migration import Migration
from anabranch.migrate.migrator import Migrator
from anabranch.migrate.operators import has_other_code
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

if TYPE_CHECKING:
    from anabranch.runtime.query.committing import Output

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
        bind=partial(_bound, host, measurements, members),
        regroup=regroup,
    )
    group = RunningGroup(host, execution, migrator, members, measurements)
    for run in runs:
        group.take_in(run)
    found.append(group)
    ready.set()
    if host.reoptimize is not None:
        watched = _Watched(migrator, execution, measurements, plan_all, members)
        measurements.watch = Reoptimizer(watched, host.reoptimize).after_batch


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

    def change(self, output: int, statistics: PlanStatistics) -> None:
        """Give an output the plan that the optimizer chooses by these statistics."""
        query = self.migrator.queries.asked[output]
        self.migrator.migrate(output, query, what=self.members[output].name, statistics=statistics)


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
        run.changer = _changer(self._host, self._migrator, run, self._members, self._measurements)

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


def _changer(
    host: Host, migrator: Migrator, run: Run, members: Sequence[Run], measurements: Measurements
) -> Any:
    def change(query: Any = None, *, how: How = "auto", at: Any = None) -> Migration:
        _HOW.checked(how, where="migrate(...)")
        output = members.index(run)
        new: AskedQuery = (
            migrator.queries.asked[output]
            if query is None
            else _asked(host, query, where="migrate(...)")
        )
        # The same query: by what was measured of it.
        statistics = measurements.statistics.for_plans() if query is None else None
        return migrator.migrate(output, new, how=how, at=at, what=run.name, statistics=statistics)

    return change


def _bound(
    host: Host,
    measurements: Measurements,
    members: Sequence[Run],
    record: MigrationRecord,
    asked: Sequence[AskedQuery],
) -> tuple[int, AskedQuery, PlanStatistics | None]:
    """What another process has asked for: of several queries, the one that is not as it was."""
    if record.reoptimize:
        output = _named_output(record, members)
        return output, asked[output], measurements.statistics.for_plans()
    assert record.text is not None
    queries = host.read_apart(record.text, record.script, record.modules)
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
    changed = [n for n, (new, old) in pairs if _is_other(new, old, where=where)]
    if len(changed) != 1:
        raise PlanError(
            f"{len(changed)} queries of the script differ from those that run",
            where=where,
            hint="change one query at a time",
        )
    return changed[0], queries[changed[0]], None


def _is_other(new: AskedQuery, old: AskedQuery, *, where: str) -> bool:
    """Whether a query of a script has another plan than the one that runs, or calls other code."""
    node = in_form_of(old, new).node
    return node != old.node or has_other_code(node, old.node, where=where)


def _named_output(record: MigrationRecord, members: Sequence[Run]) -> int:
    """The number of the query whose output was named; the only one needs no name.

    Raises:
        PlanError: Several run together, and none of them was named.
    """
    if len(members) == 1:
        return 0
    logs = [None if run.log_folder is None else full_path(run.log_folder) for run in members]
    if record.to is not None and record.to in logs:
        return logs.index(record.to)
    known = ", ".join(log or run.name for run, log in zip(members, logs, strict=True))
    raise PlanError(
        f"{len(members)} queries run together: which of them shall be planned anew?",
        where=record.to or "anabranch migrate --reoptimize",
        hint=f"name the output of one instead of the checkpoint: {known}",
    )


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
