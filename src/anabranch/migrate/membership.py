"""Queries join a running group, and leave it, while the others go on.

A query that joins shares the stages that already run. By clip it begins with the rows of now, and
answers from the instant on at which earlier rows do not matter to it any more. By replay it first
reads again what the group has read, and answers from the beginning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, final

from anabranch.algebra.node import Node, clock_of
from anabranch.errors import AnabranchError, PlanError
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.migrate.change import (
    NewAnswer,
    RunningPlan,
    clip_instant,
    plan_without,
    planned_change,
)
from anabranch.migrate.handover import Handover
from anabranch.migrate.in_force import (
    PlanExchange,
    put_in_force,
    refuse_other_sources,
    refuse_revised,
)
from anabranch.migrate.migration import Migration
from anabranch.migrate.migrator import Migrator
from anabranch.migrate.operators import revised_plan
from anabranch.migrate.preparing import PreparedReplay
from anabranch.migrate.request import earliest
from anabranch.model.time import BEGINNING, Time
from anabranch.planning import AskedQuery, PlannedQueries
from anabranch.runtime.sinks.sinks import Sink
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import How, MigrationRecord
from anabranch.runtime.store.phases import reached

if TYPE_CHECKING:
    from anabranch.runtime.query.committing import Output
    from anabranch.runtime.query.execution import Execution
    from anabranch.runtime.query.switching import NextPlan


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningQuery:
    """A query that waits for a batch to join with.

    Attributes:
        asked: All queries as they will be; it is the last of them.
        planned: The same, planned as a user would start them.
        node: Its plan.
        how: By clip or by replay.
        not_before: The earliest T.
        make_sink: What makes its sink.
        joined: Called with its output once it is one of the group.
        prepared: By replay: its plan after what has been read by now.
    """

    asked: Sequence[AskedQuery]
    planned: PlannedQueries
    node: Node
    how: Literal["clip", "replay"]
    not_before: Time
    make_sink: Callable[[Folder], Sink]
    joined: Callable[[Output], None]
    prepared: PreparedReplay | None = None


@final
class Membership:
    """Which queries share one execution."""

    def __init__(self, execution: Execution, migrator: Migrator) -> None:
        """Those of now; the migrator sees to it that there is one change at a time."""
        self._execution = execution
        self._migrator = migrator

    def join(
        self,
        query: AskedQuery,
        make_sink: Callable[[Folder], Sink],
        joined: Callable[[Output], None],
        *,
        how: How = "auto",
        at: Any = None,
        what: str = "",
        record: MigrationRecord | None = None,
    ) -> tuple[Migration, threading.Event]:
        """Add a query; the next batch that begins does it.

        Args:
            query: The query.
            make_sink: What makes its sink.
            joined: Called with its output once it is one of the group.
            how: By clip, by replay, or by clip where that is possible.
            at: By clip, T is not before this instant.
            what: What messages call it.
            record: The request of another process.

        Returns:
            The change, and what is set when a batch has begun with the new plan.

        Raises:
            PlanError: The query cannot join, or another change is not over.
        """
        migrator = self._migrator
        migrator.refuse_second()
        asked = [*migrator.queries.asked, query]
        planned = migrator.queries.planned_with(asked)
        refuse_revised((*self._execution.assembly.work.promises.values(), *planned.promises), what)
        refuse_other_sources(self._execution.assembly, planned, what)
        running = migrator.queries.running(migrator.queries.next_batch)
        new = revised_plan(planned.workers[-1], running.nodes, where=what).node
        not_before = earliest(at, clock_of(new), where=what)
        way = self._way(running, new, planned, how, what)
        if way == "replay" and at is not None:
            raise PlanError(
                "a query that joins by replay answers from the beginning, so `at` has no meaning",
                where=what,
                hint="leave `at` out, or use how='clip' where that is possible",
            )
        wanted = record or MigrationRecord(number=0, requested_at=time.time(), verb="add")
        wanted = replace(
            wanted,
            how=way,
            output=None,
            not_before=None if at is None else int(not_before),
            what=what,
        )
        joining = JoiningQuery(
            asked=asked,
            planned=planned,
            node=new,
            how=way,
            not_before=not_before,
            make_sink=make_sink,
            joined=joined,
            prepared=self._prepared(new, planned) if way == "replay" else None,
        )
        migration = migrator.noted(wanted, clock_of(new))
        begun = migrator.begin(
            lambda batch: self._begins(joining, migration, batch), migration.number
        )
        return migration, begun

    def leave(
        self,
        output: int,
        left: Callable[[], None],
        *,
        what: str = "",
        record: MigrationRecord | None = None,
    ) -> tuple[Migration, threading.Event]:
        """Drop a query; the next batch that begins is the first without it.

        Args:
            output: The number of its output.
            left: Called once it is gone.
            what: What messages call it.
            record: The request of another process.

        Raises:
            PlanError: It cannot leave, or another change is not over.
        """
        migrator = self._migrator
        migrator.refuse_second()
        asked = [each for number, each in enumerate(migrator.queries.asked) if number != output]
        if not asked:
            raise PlanError(
                "it is the only query of its execution, and nothing would be left",
                where=what,
                hint="end it with run.stop()",
            )
        work = self._execution.assembly.work
        refuse_revised(work.promises.values(), what)
        planned = migrator.queries.planned_with(asked)
        running = migrator.queries.running(migrator.queries.next_batch)
        plan = plan_without(running, output)
        unread = [each.name for each in work.frames if each.name not in plan.sources]
        if unread:
            raise PlanError(
                f"no other query reads the DataFrame '{unread[0]}', and Spark's part of a running "
                "query cannot change",
                where=what,
                hint="let it run on, or stop all queries and start the others with a new "
                "checkpoint",
            )
        wanted = record or MigrationRecord(number=0, requested_at=time.time(), verb="drop")
        wanted = replace(wanted, how="clip", output=None, what=what)
        migration = migrator.noted(wanted, work.clocks[output])

        def decide(batch: int) -> NextPlan | None:
            kept = [number for number in range(len(work.nodes)) if number != output]
            new = replace(
                migrator.queries.work_of(planned, plan, tuple(work.nodes[each] for each in kept)),
                clocks=tuple(work.clocks[each] for each in kept),
                properties=tuple(work.properties[each] for each in kept if work.properties),
            )
            step = PlanExchange(
                migration=migration.number,
                batch=batch,
                work=new,
                then=None,
                asked=(plan_fingerprint(planned.physical),),
                expected=planned.priced,
                outputs=kept,
            )
            return self._exchanged(
                step, migration, "a query left", lambda _: left(), asked, planned
            )

        return migration, migrator.begin(decide, migration.number)

    def _way(
        self, running: RunningPlan, new: Node, planned: PlannedQueries, how: How, where: str
    ) -> Literal["clip", "replay"]:
        """By clip where that is possible, unless the other way was asked for."""
        answers = [NewAnswer(None, new)]
        _, no_clip = clip_instant(running, answers)
        no_replay = self._migrator.replays.unreplayable(answers, planned)
        own = "start the query by itself, with a checkpoint of its own"
        if how == "state":
            raise PlanError(
                "a query that joins has no state to go on with",
                where=where,
                hint="use how='clip', 'replay' or 'auto'",
            )
        if how == "clip" and no_clip is not None:
            hint = "use how='replay'" if no_replay is None else own
            raise PlanError(f"the query cannot join by clip: {no_clip}", where=where, hint=hint)
        if how == "replay" and no_replay is not None:
            hint = "use how='clip'" if no_clip is None else own
            raise PlanError(f"the query cannot join by replay: {no_replay}", where=where, hint=hint)
        if no_clip is not None and no_replay is not None:
            raise PlanError(
                f"the query cannot join those that run: by clip not, for {no_clip}; by replay "
                f"not, for {no_replay}",
                where=where,
                hint=own,
            )
        return "clip" if how == "clip" or (how == "auto" and no_clip is None) else "replay"

    def _prepared(self, new: Node, planned: PlannedQueries) -> PreparedReplay:
        replays = self._migrator.replays
        prepared = replays.prepared([NewAnswer(None, new)], planned)
        replays.catch_up(prepared)
        return prepared

    def _begins(self, joining: JoiningQuery, migration: Migration, batch: int) -> NextPlan | None:
        """A batch begins: the query is one of the group."""
        migrator, new, planned = self._migrator, joining.node, joining.planned
        try:
            running = migrator.queries.running(batch)
            at, handover = BEGINNING, None
            answers = [NewAnswer(None, new)]
            if joining.how == "clip":
                at, why = clip_instant(running, answers)
                if why is not None:
                    raise PlanError(f"the query cannot join by clip: {why}")
                at = Time(max(at, joining.not_before))
            else:
                handover = self._handover(joining, batch)
            change = planned_change(running, answers, at, seeded=handover is not None)
            before = self._execution.assembly.work
            known = LogProperties.of(change.then_nodes[-1], planned.emit)
            work = replace(
                migrator.queries.work_of(planned, change.then, change.then_nodes),
                clocks=(*before.clocks, clock_of(new)),
                properties=(*before.properties, known) if before.properties else (),
            )
        except Exception as problem:  # noqa: BLE001  # it is logged, and the others run on
            migrator.refuse(migration, problem)
            return None
        migrator.note(migration, at=int(at), batch=batch, kept=change.kept, added=change.added)
        reached("migration planned", batch)
        step = PlanExchange(
            migration=migration.number,
            batch=batch,
            work=work,
            then=None,
            asked=(plan_fingerprint(planned.physical),),
            expected=planned.priced,
            handover=handover,
            outputs=[*range(len(running.nodes)), None],
            make_sinks=[joining.make_sink],
        )
        return self._exchanged(
            step, migration, "a query joined", joining.joined, joining.asked, planned
        )

    def _exchanged(
        self,
        step: PlanExchange,
        migration: Migration,
        reason: str,
        tell: Callable[[Output], None],
        asked: Sequence[AskedQuery],
        planned: PlannedQueries,
    ) -> NextPlan | None:
        try:
            next_plan = put_in_force(self._execution.assembly, step)
        except AnabranchError as problem:
            self._migrator.refuse(migration, problem)
            return None
        self._migrator.queries.become(asked, planned)
        tell(next_plan.outputs[-1])
        self._migrator.note(
            migration, state="finished", batch=step.batch, finished=step.batch, reason=reason
        )
        reached("migration switched", step.batch)
        return next_plan

    def _handover(self, joining: JoiningQuery, batch: int) -> Handover:
        assert joining.prepared is not None
        return self._migrator.replays.handed_over(joining.prepared, BEGINNING, (), batch)
