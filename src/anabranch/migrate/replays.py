"""What a running query has read, for plans that begin with all of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, final

from anabranch.algebra.node import Node, clock_of
from anabranch.migrate import large_replay
from anabranch.migrate.change import Compile
from anabranch.migrate.effort import Effort, effort_of
from anabranch.migrate.handover import Handover, unreplayable_plan
from anabranch.migrate.in_force import progress_of
from anabranch.migrate.preparing import PreparedReplay
from anabranch.migrate.replay import ReplayedPlan, needed_from
from anabranch.migrate.replayable import RereadableSources
from anabranch.migrate.rereading import ReadSoFar
from anabranch.model.time import BEGINNING, Time
from anabranch.planning import PlannedQueries
from anabranch.runtime.sinks.sinks import NothingSink
from anabranch.runtime.sources.files.planned_batch import last_entry, positions_after
from anabranch.runtime.store.folder import Folder

if TYPE_CHECKING:
    from anabranch.runtime.query.execution import Execution

_REPLAY: Final = "replay"
"""The folder of a query that reads again, beside the records of changes."""


@final
class Replays:
    """Plans that read again what a running query has read.

    `output` is the number of the output that changes, None for a query that joins: of an output
    only the answers from its stable point on are needed, of a query that joins all of them.
    """

    def __init__(self, execution: Execution, compile_node: Compile) -> None:
        """Of what Spark executes; `compile_node` compiles plans as those of the query were."""
        self._execution = execution
        self._compile = compile_node

    def unreplayable(self, new: Node, planned: PlannedQueries, output: int | None) -> str | None:
        """Why a plan cannot begin with all that was read; None where it can."""
        assembly = self._execution.assembly
        sink = NothingSink() if output is None else assembly.outputs[output].sink
        why = unreplayable_plan(self._compile(new), sink, assembly.job.shards)
        if why is not None:
            return why
        sources = RereadableSources.of(assembly, planned.files)
        return sources.choose(needed_from(new, self._since(output)), self._read_by_now())[1]

    def effort(self, new: Node, planned: PlannedQueries, output: int, clip_at: Time) -> Effort:
        """What a change of an output would take, by clip and by replay."""
        committed = self._execution.assembly.outputs[output].committed
        rows = self._replayed(new, planned, output).rows_until(self._read_by_now())
        return effort_of(committed.times, rows, clip_at=clip_at, stable=self._since(output))

    def prepared(self, new: Node, planned: PlannedQueries, output: int | None) -> PreparedReplay:
        """A plan that is to read what was read; nothing of it is read yet."""
        outputs = self._execution.assembly.outputs
        sink = NothingSink() if output is None else outputs[output].sink
        return PreparedReplay(new, self._compile(new), self._replayed(new, planned, output), sink)

    def catch_up(self, prepared: PreparedReplay, output: int | None) -> None:
        """Read what has been read by now, until little is left to read."""

        def settled() -> Time:
            # What this process has committed, for states of batches are removed while it goes on.
            outputs = self._execution.assembly.outputs
            return BEGINNING if output is None else outputs[output].committed.stable

        read, replayed = self._read_by_now(), prepared.replayed
        if replayed.rows_until(read) >= large_replay.REPLAY_IN_TASKS_FROM_ROWS:
            assembly = self._execution.assembly
            home = f"{assembly.opened.path}/migrations/{_REPLAY}"
            run = partial(assembly.run_beside, clock_of(prepared.node))
            replayed.read_in_tasks(read, home, assembly.work.parts, run)
        prepared.catch_up(self._read_by_now, settled)

    def handed_over(
        self, prepared: PreparedReplay, at: Time, settled: Time, batch: int
    ) -> Handover:
        """The state of the plan before a batch, and what its output takes over."""
        promised = progress_of(self._execution.assembly, batch).sources
        return prepared.handed_over(at, settled, self._read_before(batch), promised)

    def _replayed(self, new: Node, planned: PlannedQueries, output: int | None) -> ReplayedPlan:
        since = self._since(output)
        sources = RereadableSources.of(self._execution.assembly, planned.files)
        found, _ = sources.choose(needed_from(new, since), self._read_by_now())
        return ReplayedPlan(new, self._compile(new), found, since)

    def _since(self, output: int | None) -> Time:
        """How far the output is settled by now."""
        if output is None:
            return BEGINNING
        assembly = self._execution.assembly
        plan = assembly.work.plan
        name = plan.stages[plan.outputs[output]].name
        return Time(progress_of(assembly, assembly.opened.next_batch).stables[name])

    def _read_by_now(self) -> ReadSoFar:
        return self._read_before(self._execution.assembly.opened.next_batch)

    def _read_before(self, batch: int) -> ReadSoFar:
        """How far the sources were read before a batch."""
        opened = self._execution.assembly.opened
        logged = Folder.at(f"{opened.spark}/offsets").read(str(batch - 1)) if batch else None
        entry = last_entry(logged)
        positions = {} if entry is None else positions_after(Folder.at(opened.plans), entry)
        return ReadSoFar(positions, batch)
