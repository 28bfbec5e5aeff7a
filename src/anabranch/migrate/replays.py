"""What a running query has read, for plans that begin with all of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, final

from anabranch.algebra.node import clock_of
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate import large_replay
from anabranch.migrate.change import Compile, NewAnswer
from anabranch.migrate.effort import Effort, effort_of
from anabranch.migrate.handover import Handover, unreplayable_plan
from anabranch.migrate.in_force import progress_of
from anabranch.migrate.preparing import PreparedReplay, ReplayedOutput
from anabranch.migrate.replay import ReplayedPlan, needed_from
from anabranch.migrate.replayable import RereadableSources
from anabranch.migrate.rereading import ReadSoFar
from anabranch.model.time import BEGINNING, Time
from anabranch.planning import PlannedQueries
from anabranch.runtime.sinks.sinks import NothingSink, Sink
from anabranch.runtime.sources.files.planned_batch import last_entry, positions_after
from anabranch.runtime.store.folder import Folder

if TYPE_CHECKING:
    from anabranch.runtime.query.execution import Execution

_REPLAY: Final = "replay"
"""The folder of a query that reads again, beside the records of changes."""


@final
class Replays:
    """Plans that read again what a running query has read.

    Of an output that changes only the answers from its stable point on are needed, of a query that
    joins all of them.
    """

    def __init__(self, execution: Execution, compile_node: Compile) -> None:
        """Of what Spark executes; `compile_node` compiles plans as those of the query were."""
        self._execution = execution
        self._compile = compile_node

    def unreplayable(self, new: Sequence[NewAnswer], planned: PlannedQueries) -> str | None:
        """Why a plan cannot begin with all that was read; None where it can."""
        assembly = self._execution.assembly
        plan = self._compiled(new)
        why = unreplayable_plan(plan, map(self._sink, new), assembly.job.shards)
        if why is not None:
            return why
        sources = RereadableSources.of(assembly, planned.files)
        first = needed_from((each.node for each in new), self._since(new))
        return sources.choose(first, self._read_by_now())[1]

    def effort(self, new: Sequence[NewAnswer], planned: PlannedQueries, clip_at: Time) -> Effort:
        """What a change of outputs would take, by clip and by replay."""
        output = new[0].output
        assert output is not None
        committed = self._execution.assembly.outputs[output].committed
        rows = self._replayed(new, planned).rows_until(self._read_by_now())
        return effort_of(committed.times, rows, clip_at=clip_at, stable=self._since(new))

    def prepared(self, new: Sequence[NewAnswer], planned: PlannedQueries) -> PreparedReplay:
        """A plan that is to read what was read; nothing of it is read yet."""
        joins = len(self._execution.assembly.outputs)
        outputs = [
            ReplayedOutput(
                number=joins if each.output is None else each.output,
                node=each.node,
                sink=self._sink(each),
            )
            for each in new
        ]
        return PreparedReplay(outputs, self._compiled(new), self._replayed(new, planned))

    def catch_up(self, prepared: PreparedReplay) -> None:
        """Read what has been read by now, until little is left to read."""

        def settled() -> dict[int, Time]:
            # What this process has committed: states of batches are removed while it goes on.
            stables = [each.committed.stable for each in self._execution.assembly.outputs]
            return _settled(prepared, stables)

        read, replayed = self._read_by_now(), prepared.replayed
        if replayed.rows_until(read) >= large_replay.REPLAY_IN_TASKS_FROM_ROWS:
            assembly = self._execution.assembly
            home = f"{assembly.opened.path}/migrations/{_REPLAY}"
            clocks = [clock_of(each.node) for each in prepared.outputs]
            run = partial(assembly.run_beside, clocks)
            replayed.read_in_tasks(read, home, assembly.work.parts, run)
        prepared.catch_up(self._read_by_now, settled)

    def handed_over(
        self, prepared: PreparedReplay, at: Time, stables: Sequence[Time], batch: int
    ) -> Handover:
        """The state of the plan before a batch, and what its outputs take over.

        Args:
            prepared: The plan.
            at: T.
            stables: How far each output of the running query is settled.
            batch: The batch.
        """
        promised = progress_of(self._execution.assembly, batch).sources
        read = self._read_before(batch)
        return prepared.handed_over(at, _settled(prepared, stables), read, promised)

    def _compiled(self, new: Sequence[NewAnswer]) -> PhysicalPlan:
        return self._compile(*(each.node for each in new))

    def _replayed(self, new: Sequence[NewAnswer], planned: PlannedQueries) -> ReplayedPlan:
        since, nodes = self._since(new), [each.node for each in new]
        sources = RereadableSources.of(self._execution.assembly, planned.files)
        found, _ = sources.choose(needed_from(nodes, since), self._read_by_now())
        return ReplayedPlan(nodes, self._compiled(new), found, since)

    def _sink(self, new: NewAnswer) -> Sink:
        outputs = self._execution.assembly.outputs
        return NothingSink() if new.output is None else outputs[new.output].sink

    def _since(self, new: Sequence[NewAnswer]) -> Time:
        """How far all of these outputs are settled by now."""
        assembly = self._execution.assembly
        plan = assembly.work.plan
        progress = progress_of(assembly, assembly.opened.next_batch)
        found: list[Time] = []
        for each in new:
            if each.output is None:
                return BEGINNING
            name = plan.stages[plan.outputs[each.output]].name
            found.append(Time(progress.stables[name]))
        return min(found)

    def _read_by_now(self) -> ReadSoFar:
        return self._read_before(self._execution.assembly.opened.next_batch)

    def _read_before(self, batch: int) -> ReadSoFar:
        """How far the sources were read before a batch."""
        opened = self._execution.assembly.opened
        logged = Folder.at(f"{opened.spark}/offsets").read(str(batch - 1)) if batch else None
        entry = last_entry(logged)
        positions = {} if entry is None else positions_after(Folder.at(opened.plans), entry)
        return ReadSoFar(positions, batch)


def _settled(prepared: PreparedReplay, stables: Sequence[Time]) -> dict[int, Time]:
    """How far its outputs are settled; nothing is where a query joins."""
    return {
        each.number: stables[each.number] if each.number < len(stables) else BEGINNING
        for each in prepared.outputs
    }
