"""The state of a plan after all that a query has read, by reading it again.

A plan that begins in the middle of its sources with this state goes on as if it had run from the
beginning. Rows are judged late as they were: lateness depends on the order of rows in a source
alone, or for rows without order on what the source had promised before their batch, so what was
dropped is dropped again. Pieces that end before anything that matters are not read: what they
promise is known from their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

import numpy as np

from anabranch.algebra.analysis.reach import needed
from anabranch.algebra.node import Node
from anabranch.kernels.plan.compile import tables_of
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan, StageState
from anabranch.migrate.large_replay import RunPlanned, replayed_in_tasks
from anabranch.migrate.rereading import (
    FileReading,
    ReadSoFar,
    Rereadable,
    reading_of,
    rows_between,
)
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.time import BEGINNING, FOREVER, Time

STEP_ROWS: Final = 200_000
"""From this many rows on, what was read goes through the plan: memory is bounded."""


def needed_from(nodes: Iterable[Node], since: Time) -> dict[str, Time]:
    """Per source the instant from which on its rows matter to answers from another one on."""
    found: dict[str, Time] = {}
    for node in nodes:
        for name, (first, _) in needed(node, (since, FOREVER)).items():
            found[name] = min(first, found.get(name, first))
    return found


@final
class ReplayedPlan:
    """A plan that reads again what a query has read, step by step up to the present."""

    def __init__(
        self,
        nodes: Sequence[Node],
        plan: PhysicalPlan,
        sources: Mapping[str, Rereadable],
        since: Time,
    ) -> None:
        """Nothing is read yet; only the answers from `since` on have to be right."""
        self._runner = LocalRunner(plan)
        self._plan = plan
        first = needed_from(nodes, since)
        self._readings = {
            name: reading_of(sources[name], plan.sources[name], first[name])
            for name in plan.sources
        }
        self._since = since
        self._outs = [EventBatch.empty(plan.stages[index].schema) for index in plan.outputs]

    @property
    def rows(self) -> int:
        """How many rows have been read."""
        return sum(reading.rows for reading in self._readings.values())

    def rows_until(self, to: ReadSoFar) -> int:
        """About how many rows there are to read, up to where the query has read."""
        return sum(rows_between(reading, to) for reading in self._readings.values())

    def read(self, to: ReadSoFar) -> None:
        """Read on, up to where the query has read."""
        for name, reading in self._readings.items():
            waiting: list[EventBatch] = []
            for rows in reading.pieces(to):
                waiting.append(rows)
                if sum(map(len, waiting)) >= STEP_ROWS:
                    self._step(name, waiting, reading.promised)
                    waiting = []
            self._step(name, waiting, reading.promised)

    def read_in_tasks(self, to: ReadSoFar, home: str, parts: int, run: RunPlanned) -> bool:
        """Read everything up to there by a query of Spark of its own; false where that cannot be.

        Args:
            to: How far the query has read.
            home: A folder for it.
            parts: How many tasks read.
            run: Runs a query.
        """
        files = {
            name: reading
            for name, reading in self._readings.items()
            if isinstance(reading, FileReading) and not reading.positions
        }
        if files.keys() != self._readings.keys() or tables_of(self._plan):
            return False
        states, outs = replayed_in_tasks(
            self._plan, files, to, home, self._since, parts=parts, run=run
        )
        self._runner.resume(states)
        self._add(outs)
        return True

    def finished(
        self, promised: Mapping[str, int]
    ) -> tuple[Mapping[str, StageState], Sequence[EventBatch]]:
        """The state per stage once sources have promised this, and what each output has got.

        Of that, moves that say nothing of instants from `since` on are left out.
        """
        for name in self._plan.sources:
            self._step(name, [], Time(promised.get(name, int(BEGINNING))))
        return self._runner.states, tuple(self._outs)

    def _step(self, name: str, rows: list[EventBatch], promised: Time) -> None:
        schema = self._plan.arriving(name)
        batch = EventBatch.concat(rows) if rows else EventBatch.empty(schema)
        outs = self._runner.step_all({name: batch.with_stable(promised)})
        since = np.int64(self._since)
        self._add([out.where(np.maximum(out.end, out.new_end) > since) for out in outs])

    def _add(self, outs: Sequence[EventBatch]) -> None:
        both = zip(self._outs, outs, strict=True)
        self._outs = [net(EventBatch.concat([before, out])) for before, out in both]
