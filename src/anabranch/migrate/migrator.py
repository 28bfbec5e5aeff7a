"""Changes the queries of one checkpoint while they run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from anabranch.algebra.node import Node, clock_of
from anabranch.errors import AnabranchError, PlanError
from anabranch.kernels.contract.command import MIGRATE, Command
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.kernels.plan.stage import PhysicalPlan, Stage
from anabranch.migrate.change import (
    PlannedChange,
    RunningPlan,
    clip_instant,
    planned_change,
    with_columns_of,
)
from anabranch.migrate.migration import Migration
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.planning import AskedQuery, PlannedQueries
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import StateLayout, migrated_layout
from anabranch.runtime.store.migrations import (
    How,
    MigrationFolder,
    MigrationRecord,
    PlanInForce,
)
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.query_record import read_query_record
from anabranch.runtime.store.seeding import QueryProgress, progress_before, seed_stage

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Execution
    from anabranch.runtime.query.switching import NextPlan
    from anabranch.runtime.query.work import Work

_LOG: Final = logging.getLogger("anabranch")


class PlanAll(Protocol):
    """Plans queries that run together, with the options that they were started with."""

    def __call__(
        self, queries: Sequence[AskedQuery], *, statistics: PlanStatistics | None = None
    ) -> PlannedQueries:
        """Plan them, by what was measured where that is given."""


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
    """

    record: MigrationRecord
    output: int
    new: Node
    planned: PlannedQueries
    not_before: Time


@final
class Migrator:
    """Changes the queries that share one execution, one change at a time."""

    def __init__(
        self,
        execution: Execution,
        asked: Sequence[AskedQuery],
        planned: PlannedQueries,
        plan_all: PlanAll,
        *,
        allow_unbounded: bool = False,
        when_switched: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Take up a change that was interrupted, if there is one.

        Args:
            execution: What Spark executes.
            asked: The queries, as they were asked for.
            planned: What became of them.
            plan_all: Plans other queries in the same way.
            allow_unbounded: Accept state without bounds.
            when_switched: Called with the number of an output whose query has become another.
        """
        self._execution = execution
        self._asked = list(asked)
        self._planned = planned
        self._plan_all = plan_all
        self._allow_unbounded = allow_unbounded
        self._when_switched = when_switched
        self._folder = MigrationFolder.of(execution.checkpoint)
        self._current: Migration | None = None
        execution.assembly.switcher.watch = self._watch
        self._resume()

    @property
    def current(self) -> Migration | None:
        """The change that was asked for last, if it is not over."""
        found = self._current
        return None if found is None or found.state in ("finished", "refused") else found

    @property
    def asked(self) -> Sequence[AskedQuery]:
        """The queries as they were asked for, or changed to, one per output."""
        return tuple(self._asked)

    def migrate(
        self,
        output: int,
        query: AskedQuery,
        *,
        how: How = "auto",
        at: Any = None,
        what: str = "",
        text: str | None = None,
        statistics: PlanStatistics | None = None,
    ) -> Migration:
        """Change an output; the next batch that begins does it.

        With `statistics` it is the same query by the plan that these lead to.

        Raises:
            PlanError: The change is not possible, or another one is not over.
        """
        self._refuse_second()
        asked = [*self._asked]
        asked[output] = query
        planned = self._plan_all(asked, statistics=statistics)
        planned.refuse(allow_unbounded=self._allow_unbounded)
        running = self._running(self._next_batch)
        old = running.nodes[output]
        where = what or f"output {output} of {self._execution.checkpoint}"
        self._refuse_unsupported(planned, where)
        new = with_columns_of(planned.workers[output], old, where=where)
        not_before = BEGINNING if at is None else clock_of(old).instant(at)
        request = Request(
            record=MigrationRecord(
                number=0,
                how=how,
                output=output,
                text=text,
                not_before=None if at is None else int(not_before),
                what=what,
                reoptimize=statistics is not None,
                requested_at=time.time(),
            ),
            output=output,
            new=new,
            planned=planned,
            not_before=not_before,
        )
        self._chosen(running, request)
        record = self._folder.add(request.record)
        request = replace(request, record=record)
        migration = Migration(record, clock_of(old))
        self._current = migration
        self._begin(lambda batch: self._switch(request, migration, asked, batch), record.number)
        return migration

    def _refuse_second(self) -> None:
        if self.current is not None:
            raise PlanError(
                f"change {self.current.number} of this query is not over: {self.current.state}",
                where=self._execution.checkpoint,
                hint="wait for it: migration.await_finished(), or `anabranch migrations`",
            )

    def _refuse_unsupported(self, planned: PlannedQueries, where: str) -> None:
        work = self._execution.assembly.work
        for promise in (*work.promises.values(), *planned.promises):
            if promise.late == "revise":
                raise PlanError(
                    f"a query over '{promise.source}' cannot change while it runs: with LATE "
                    "REVISE its past is corrected by the plan of now",
                    where=where,
                    hint="declare LATE DROP or LATE ADJUST, or start the new query with a "
                    "checkpoint of its own",
                )
        now = {each.name for each in work.frames if each.frame.isStreaming}
        new = {name for name, each in planned.frames.items() if each.frame.isStreaming}
        if not new <= now:
            raise PlanError(
                f"the changed query reads the DataFrame '{min(new - now)}' in another way",
                where=where,
                hint="Spark evaluates conditions right above a DataFrame, and its part of a "
                "running query cannot change: keep these conditions, or read files",
            )
        kept = {each.name: each for each in work.files}
        for source in planned.files:
            if source.name in kept and kept[source.name] != source:
                raise PlanError(
                    f"the source '{source.name}' is declared in another way than in the running "
                    "query",
                    where=where,
                    hint="a source that is being read cannot change: declare it as it was",
                )

    def _chosen(self, running: RunningPlan, request: Request) -> tuple[Time, str, str]:
        """T, the way, and why; as far as it can be told now."""
        how = request.record.how
        at, why = clip_instant(running, request.output, request.new)
        if how == "replay":
            raise PlanError(
                "a change by replay is not possible", where=request.record.what, hint="use clip"
            )
        if why is not None:
            raise PlanError(
                f"the query cannot change by clip: {why}",
                where=request.record.what,
                hint="start the new query with a checkpoint of its own",
            )
        at = Time(max(at, request.not_before))
        if at == FOREVER:
            raise PlanError(
                "the query has ended: all its answers are final",
                where=request.record.what,
                hint="start the new query with a checkpoint of its own",
            )
        return at, "clip", "all that was read before is over by then"

    @property
    def _next_batch(self) -> int:
        return self._execution.assembly.opened.next_batch

    def _running(self, batch: int) -> RunningPlan:
        """What the query computes, and what it knows before a batch."""
        assembly = self._execution.assembly
        work, progress = assembly.work, self._progress(batch)
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
            compile=self._compile,
        )

    def _compile(self, node: Node) -> PhysicalPlan:
        tables = frozenset(self._execution.assembly.work.tables) | frozenset(self._planned.tables)
        return compile_plan(node, emit=self._planned.emit, tables=tables)

    def _progress(self, batch: int) -> QueryProgress:
        assembly = self._execution.assembly
        opened = assembly.opened
        shards = assembly.job.shards_of
        state = Folder.at(opened.state)
        return progress_before(assembly.work.plan, opened.layout, state, batch, shards)

    def _begin(self, decide: Callable[[int], NextPlan | None], number: int) -> None:
        """Let the next batch decide, and see to it that there is one."""
        self._execution.assembly.switcher.ask(decide)
        self._execution.follow()
        control = ControlFolder(Folder.at(self._execution.assembly.opened.control))
        control.put(Command(verb=MIGRATE, value=number))

    def _switch(
        self, request: Request, migration: Migration, asked: list[AskedQuery], batch: int
    ) -> NextPlan | None:
        """A batch begins: make the plan with both answers the one in force."""
        try:
            running = self._running(batch)
            at, how, reason = self._chosen(running, request)
            change = planned_change(running, request.output, request.new, at)
            both, then = self._works(request, change)
        except AnabranchError as problem:
            _LOG.warning("%s", problem)
            self._note(migration, state="refused", reason=problem.what)
            return None
        is_over = change.both is change.then
        self._note(
            migration,
            how=how,
            at=int(at),
            batch=batch,
            reason=reason,
            kept=change.kept,
            added=change.added,
        )
        reached("migration planned", batch)
        new_print = plan_fingerprint(request.planned.physical)
        # The same query by another plan may still be started as it always was.
        keeps = not is_over or request.record.reoptimize
        prints = (*self._prints(), new_print) if keeps else (new_print,)
        next_plan = self._put_in_force(both, None if is_over else then, migration, prints, batch)
        self._asked, self._planned = asked, request.planned
        self._when_switched(request.output)
        self._note(migration, state="finished" if is_over else "switched")
        if is_over:
            self._note(migration, finished=batch)
        reached("migration switched", batch)
        return next_plan

    def _works(self, request: Request, change: PlannedChange) -> tuple[Work, Work]:
        """What is computed during the change, and behind it."""
        work, planned = self._execution.assembly.work, request.planned
        work = replace(work, priced=planned.priced)
        files = {each.name: each for each in (*planned.files, *work.files)}
        every = {**planned.tables, **work.tables}
        return (
            self._with_plan(work, change.both, change.both_nodes, files, every),
            self._with_plan(work, change.then, change.then_nodes, files, every),
        )

    def _with_plan(
        self,
        work: Work,
        plan: PhysicalPlan,
        nodes: tuple[Node, ...],
        files: Any,
        tables: Any,
    ) -> Work:
        return replace(
            work,
            plan=plan,
            nodes=nodes,
            files=tuple(each for name, each in files.items() if name in plan.sources),
            tables=tables,
            older=None,
        )

    def _put_in_force(
        self,
        work: Work,
        then: Work | None,
        migration: Migration,
        prints: Sequence[str],
        batch: int,
    ) -> NextPlan:
        """Write down the state of new stages and the plan, and last that it is the one in force."""
        from anabranch.runtime.query.switching import NextPlan, seal_work

        assembly = self._execution.assembly
        opened, before = assembly.opened, assembly.work.plan
        layout = migrated_layout(
            opened.layout,
            before,
            work.plan,
            query=opened.query,
            batch=batch,
            outputs=range(len(work.plan.outputs)),
        )
        self._seed(work.plan, layout, batch)
        reached("migration seeded", batch)
        in_force = PlanInForce(
            migration=migration.number,
            file=self._folder.write_plan(seal_work(work)),
            then="" if then is None else self._folder.write_plan(seal_work(then)),
            asked=tuple(dict.fromkeys(prints)),
        )
        streaming = [each.name for each in work.frames if each.frame.isStreaming]
        opened.adopt(work.plan, layout, in_force, streaming)
        return NextPlan(work, assembly.outputs)

    def _seed(self, plan: PhysicalPlan, layout: StateLayout, batch: int) -> None:
        """Write what new stages begin with: nothing, but what the others know of the sources."""
        if batch == 0:
            return
        assembly = self._execution.assembly
        progress = self._progress(batch)
        old = assembly.work.plan
        stables = {
            plan.stages[new].name: progress.stables[old.stages[was].name]
            for new, was in zip(plan.outputs, old.outputs, strict=False)
        }
        for stage in plan.stages:
            home = layout.stages[stage.name]
            if home.since == batch:
                folder = Folder.at(assembly.opened.state).child(home.folder)
                states = ((shard, stage.start()) for shard in range(self._shards(stage)))
                stable = stables.get(stage.name, int(BEGINNING))
                seed_stage(stage, folder, batch, progress, states, stable=stable)

    def _shards(self, stage: Stage) -> int:
        return self._execution.assembly.job.shards_of(stage)

    def _prints(self) -> tuple[str, ...]:
        """The fingerprints that the query may be started with at present."""
        stored = read_query_record(self._execution.checkpoint)
        if stored is not None and stored.in_force is not None:
            return stored.in_force.asked
        return (plan_fingerprint(self._planned.physical),)

    def _watch(self, batch: int, commands: Sequence[Command], stables: Sequence[Time]) -> None:
        """A batch is committed: perhaps nothing before T can change any more."""
        del commands
        migration = self._current
        if migration is None or migration.state != "switched":
            return
        record = migration.record
        assert record.at is not None
        is_due = record.output is not None and stables[record.output] >= record.at
        if is_due and not self._execution.assembly.switcher.is_asked:
            _LOG.info("change %d: the old plan goes after batch %d", record.number, batch)
            self._begin(lambda at: self._finish(migration, at), record.number)

    def _finish(self, migration: Migration, batch: int) -> NextPlan | None:
        """A batch begins: take the old plan out."""
        stored = read_query_record(self._execution.checkpoint)
        assert stored is not None
        assert stored.in_force is not None
        from anabranch.runtime.query.switching import load_work

        then = load_work(self._folder, stored.in_force.then, self._execution.assembly.work)
        prints: tuple[str, ...] = (plan_fingerprint(self._planned.physical),)
        if migration.record.reoptimize:
            prints = stored.in_force.asked
        next_plan = self._put_in_force(then, None, migration, prints, batch)
        self._note(migration, state="finished", finished=batch)
        reached("migration finished", batch)
        return next_plan

    def _note(self, migration: Migration, **changed: Any) -> None:
        migration.update(self._folder.write(replace(migration.record, **changed)))

    def _resume(self) -> None:
        """Bring records up to date with `query.json`, and take up a change that goes on."""
        stored = read_query_record(self._execution.checkpoint)
        in_force = None if stored is None else stored.in_force
        for record in self._folder.records():
            is_last = in_force is not None and record.number == in_force.migration
            state = record.state
            if is_last and in_force is not None:
                state = "switched" if in_force.then else "finished"
            elif record.state == "requested" and record.text is None:
                record = replace(
                    record, reason="the process ended before the change began: ask for it again"
                )
                state = "refused"
            if state != record.state:
                record = self._folder.write(replace(record, state=state))
            if state == "switched":
                assert record.output is not None
                clock = self._execution.assembly.work.clocks[record.output]
                self._current = Migration(record, clock)
