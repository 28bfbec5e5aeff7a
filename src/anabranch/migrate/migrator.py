"""Changes the queries of one checkpoint while they run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from anabranch.algebra.node import clock_of
from anabranch.errors import AnabranchError, PlanError
from anabranch.kernels.contract.command import MIGRATE, Command
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.migrate.change import PlannedChange, RunningPlan, planned_change, taken_over
from anabranch.migrate.choice import Choice
from anabranch.migrate.executed_queries import ExecutedQueries, PlanAll
from anabranch.migrate.handover import Handover, ended_moves, reopened_states
from anabranch.migrate.healing import healed_handover, with_longest
from anabranch.migrate.in_force import PlanExchange, put_in_force, with_moves
from anabranch.migrate.migration import Migration, refused_by
from anabranch.migrate.replays import Replays
from anabranch.migrate.request import Request, WantedChange
from anabranch.migrate.requesting import choose_way, requested
from anabranch.model.clock import Clock
from anabranch.model.time import Time
from anabranch.planning import AskedQuery, PlannedQueries
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import (
    How,
    MigrationFolder,
    MigrationRecord,
)
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.query_record import read_query_record

if TYPE_CHECKING:
    from anabranch.runtime.query.execution import Execution
    from anabranch.runtime.query.switching import NextPlan

_LOG: Final = logging.getLogger("anabranch")


Bind = Callable[[MigrationRecord, Sequence[AskedQuery]], WantedChange]
"""What another process has asked for."""

Regroup = Callable[[MigrationRecord], None]
"""Lets a query join or leave, as another process has asked; returns when that is over."""


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
        bind: Bind | None = None,
        regroup: Regroup | None = None,
    ) -> None:
        """Take up a change that was interrupted, if there is one.

        Args:
            execution: What Spark executes.
            asked: The queries, as they were asked for.
            planned: What became of them.
            plan_all: Plans other queries in the same way.
            allow_unbounded: Accept state without bounds.
            when_switched: Called with the number of an output whose query has become another.
            bind: Reads what another process has asked for.
            regroup: Lets queries join and leave, as another process has asked.
        """
        self._execution = execution
        self.queries: ExecutedQueries = ExecutedQueries(
            execution, asked, planned, plan_all, allow_unbounded=allow_unbounded
        )
        self._when_switched = when_switched
        self._bind = bind
        self._regroup = regroup
        self._folder = MigrationFolder.of(execution.checkpoint)
        self._current: Migration | None = None
        self._begun: threading.Event | None = None
        self._gone: set[str] = set()
        self.replays: Replays = Replays(execution, self.queries.compile)
        execution.assembly.switcher.watch = self._watch
        self._resume()

    @property
    def current(self) -> Migration | None:
        """The change that was asked for last, if it is not over."""
        found = self._current
        return None if found is None or found.state in ("finished", "refused") else found

    def migrate(
        self,
        wanted: WantedChange,
        *,
        how: How = "auto",
        at: Any = None,
        record: MigrationRecord | None = None,
    ) -> Migration:
        """Change outputs; the next batch that begins does it, and all from the same T on.

        Args:
            wanted: What they become.
            how: By clip, by replay, or what is sooner done.
            at: T is not before this instant.
            record: The request of another process.

        Raises:
            PlanError: The change is not possible, or another one is not over.
        """
        self.refuse_second()
        request = requested(self._execution, self.queries, wanted, how=how, at=at, record=record)
        running = self.queries.running(self.queries.next_batch)
        choice = choose_way(self._execution, self.replays, running, request)
        add = self._folder.add if record is None else self._folder.write
        noted = add(replace(request.record, how=choice.how))
        request = replace(request, record=noted, reason=choice.reason)
        migration = self._tracked(noted, clock_of(request.outputs[0].old))
        self._current = migration
        if choice.how == "replay":
            request = request.by_replay(self.replays.prepared(request.answers, request.planned))
        elif not request.healed:
            self._begin_switch(request, migration)
            return migration
        threading.Thread(
            target=self._prepare,
            args=(request, migration),
            name="anabranch-replay",
            daemon=True,
        ).start()
        return migration

    def _begin_switch(self, request: Request, migration: Migration) -> None:
        self.begin(lambda batch: self._switch(request, migration, batch), migration.number)

    def _prepare(self, request: Request, migration: Migration) -> None:
        """Read again what was read or has left, beside the query; then let a batch change it."""
        try:
            if request.prepared is not None:
                self.replays.catch_up(request.prepared)
            else:
                # A long log takes a while; what has come meanwhile does not.
                for each in (*request.healed, *request.healed):
                    assert each.open_results is not None
                    committed = self._execution.assembly.outputs[each.number].committed
                    each.open_results.read(committed.stable)
            self._begin_switch(request, migration)
        except AnabranchError as problem:
            self.refuse(migration, problem)
        except Exception as problem:
            if self._execution.is_stopped:
                # Its files may be gone by now.
                return
            self.refuse(migration, problem)
            raise

    def noted(self, record: MigrationRecord, clock: Clock) -> Migration:
        """Write down a change that was asked for; no other one begins before it is over."""
        write = self._folder.write if record.number else self._folder.add
        migration = self._tracked(write(record), clock)
        self._current = migration
        return migration

    def _tracked(self, record: MigrationRecord, clock: Clock) -> Migration:
        return Migration(record, clock, self._execution.is_over)

    def take_requests(self) -> None:
        """Begin the oldest change that another process has asked for, in the background."""
        waiting = self._folder.waiting() if self.current is None and self._bind else []
        if waiting and not self._execution.assembly.switcher.is_asked:
            begin = threading.Thread(
                target=self._take, args=(waiting[0],), name="anabranch-migrate", daemon=True
            )
            begin.start()

    def _take(self, record: MigrationRecord) -> None:
        assert self._bind is not None
        try:
            if record.verb != "change":
                assert self._regroup is not None
                self._regroup(record)
                return
            wanted = self._bind(record, self.queries.asked)
            self.migrate(wanted, how=record.how, at=record.not_before, record=record)
        except Exception as problem:
            if self._execution.is_stopped:
                # It begins with the next start.
                return
            now = self._folder.read(record.number)
            if now is not None and now.state == "requested":
                self._folder.write(replace(now, **refused_by(problem)))
                _LOG.warning("change %d was refused: %s", record.number, problem)
            if not isinstance(problem, AnabranchError):
                raise

    def refuse_second(self) -> None:
        """Refuse a change while another one is not over.

        Raises:
            PlanError: There is one.
        """
        if self._current is not None and self._current.state == "finished" and self._begun:
            # Its plan is in force, but Spark's query may just be about to begin with it.
            self._begun.wait()
        if self.current is not None:
            raise PlanError(
                f"change {self.current.number} of this query is not over: {self.current.state}",
                where=self._execution.checkpoint,
                hint="wait for it: migration.await_finished(), or `anabranch migrations`",
            )

    def begin(self, decide: Callable[[int], NextPlan | None], number: int) -> threading.Event:
        """Let the next batch decide, and see to it that there is one.

        The event is set when that batch has begun with the plan that was decided on.
        """
        self._begun = begun = self._execution.assembly.switcher.ask(decide)
        control = ControlFolder(Folder.at(self._execution.assembly.opened.control))
        control.put(Command(verb=MIGRATE, value=number))
        return begun

    def _switch(self, request: Request, migration: Migration, batch: int) -> NextPlan | None:
        """A batch begins: make the plan with both answers the one in force."""
        try:
            running = self.queries.running(batch)
            choice = choose_way(self._execution, self.replays, running, request)
            at, seeded = choice.at, choice.how == "replay"
            by_state = choice.how == "state"
            is_settled = all(at <= running.stables[each.number] for each in request.outputs)
            change = planned_change(
                running,
                request.answers,
                at,
                seeded=seeded,
                at_once=(seeded or by_state) and is_settled,
                operators=taken_over(running, request.before)[0] if by_state else None,
            )
            both, then = self.queries.works(request, change, running)
            handover = self._handover(request, change, running, choice, batch)
            if handover is not None:
                cut = {each.number for each in request.outputs if not each.heals}
                both, then = with_moves(both, cut), with_moves(then, cut)
            if request.healed:
                handover = healed_handover(request, change, running.stables, handover, batch)
                both, then = with_longest(both, request), with_longest(then, request)
        except Exception as problem:  # noqa: BLE001  # it is logged, and the query runs on
            self.refuse(migration, problem)
            return None
        is_over = change.both is change.then
        self.note(
            migration,
            at=int(at),
            batch=batch,
            reason=request.reason,
            kept=change.kept,
            added=change.added,
        )
        reached("migration planned", batch)
        new_print = plan_fingerprint(request.planned.physical)
        # The same query by another plan may still be started as it always was.
        keeps = not is_over or request.record.reoptimize
        prints = (*self.queries.prints(), new_print) if keeps else (new_print,)
        known = self.queries.expectations() if keeps else ()
        expected = None if request.record.reoptimize else request.planned.priced
        step = PlanExchange(
            migration=migration.number,
            batch=batch,
            work=both,
            then=None if is_over else then,
            asked=prints,
            expected=expected,
            known=known,
            handover=handover,
        )
        try:
            next_plan = put_in_force(self._execution.assembly, step)
        except AnabranchError as problem:
            self.refuse(migration, problem)
            return None
        self.queries.become(request.asked, request.planned)
        for each in request.outputs:
            self._when_switched(each.number)
        self.note(migration, state="finished" if is_over else "switched")
        if is_over:
            self.note(migration, finished=batch)
        reached("migration switched", batch)
        return next_plan

    def _handover(
        self,
        request: Request,
        change: PlannedChange,
        running: RunningPlan,
        choice: Choice,
        batch: int,
    ) -> Handover | None:
        """What the new plans begin with; None: with nothing."""
        if choice.how == "state":
            outputs = self._execution.assembly.outputs
            moves = {
                each.number: ended_moves(outputs[each.number].sink, each.new, choice.at)
                for each in request.outputs
            }
            return reopened_states(change, running, moves)
        if choice.how == "replay":
            assert request.prepared is not None
            return self.replays.handed_over(request.prepared, choice.at, running.stables, batch)
        return None

    def _watch(self, batch: int, commands: Sequence[Command], stables: Sequence[Time]) -> None:
        """A batch is committed: perhaps nothing before T can change any more."""
        migration = self._current
        self._remove_moves(batch)
        if any(each.verb == MIGRATE for each in commands):
            self.take_requests()
        if migration is None or migration.state != "switched":
            return
        record = migration.record
        assert record.at is not None
        is_due = all(stables[output] >= record.at for output in record.outputs)
        if is_due and not self._execution.assembly.switcher.is_asked:
            _LOG.info("change %d: the old plan goes after batch %d", record.number, batch)
            self.begin(lambda at: self._finish(migration, at), record.number)

    def _remove_moves(self, committed: int) -> None:
        """Remove what outputs have taken over in a batch that is not done again."""
        for each in self._execution.assembly.work.handed_over:
            if each.batch < committed and each.file not in self._gone:
                self._folder.folder.remove(each.file)
                self._gone.add(each.file)

    def _finish(self, migration: Migration, batch: int) -> NextPlan | None:
        """A batch begins: take the old plan out."""
        stored = read_query_record(self._execution.checkpoint)
        assert stored is not None
        assert stored.in_force is not None
        from anabranch.runtime.query.switching import load_work

        then = load_work(self._folder, stored.in_force.then, self._execution.assembly.work)
        is_same = migration.record.reoptimize
        step = PlanExchange(
            migration=migration.number,
            batch=batch,
            work=then,
            then=None,
            asked=stored.in_force.asked if is_same else (self.queries.fingerprint,),
            expected=None if is_same else self.queries.expected,
            known=stored.in_force.expected if is_same else (),
        )
        next_plan = put_in_force(self._execution.assembly, step)
        self.note(migration, state="finished", finished=batch)
        reached("migration finished", batch)
        return next_plan

    def note(self, migration: Migration, **changed: Any) -> None:
        """Write down what has become of a change, and tell who waits for it."""
        migration.update(self._folder.write(replace(migration.record, **changed)))

    def refuse(self, migration: Migration, problem: Exception) -> None:
        """Write down that a change is not possible: the queries stay as they are."""
        is_ours = not isinstance(problem, AnabranchError)
        _LOG.warning(
            "change %d was refused: %s", migration.number, problem, exc_info=is_ours or None
        )
        self.note(migration, at=None, batch=None, kept=(), added=(), **refused_by(problem))

    def _resume(self) -> None:
        """Bring records up to date with `query.json`, and take up a change that goes on."""
        stored = read_query_record(self._execution.checkpoint)
        in_force = None if stored is None else stored.in_force
        for record in self._folder.records():
            is_last = in_force is not None and record.number == in_force.migration
            state = record.state
            if is_last and in_force is not None:
                state = "switched" if in_force.then else "finished"
            elif record.state == "requested" and _needs_its_process(record):
                record = replace(
                    record, reason="the process ended before the change began: ask for it again"
                )
                state = "refused"
            if state != record.state:
                record = self._folder.write(replace(record, state=state))
            if state == "switched":
                assert record.output is not None
                clock = self._execution.assembly.work.clocks[record.output]
                self._current = self._tracked(record, clock)
        self.take_requests()


def _needs_its_process(record: MigrationRecord) -> bool:
    """Whether a change was asked for in Python: nobody else can begin it."""
    from_outside = record.reoptimize or (record.verb == "drop" and record.script is not None)
    return record.text is None and not from_outside
