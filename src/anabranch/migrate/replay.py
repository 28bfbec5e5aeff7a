"""The state of a plan after all that a query has read, by reading it again.

A plan that begins in the middle of its sources with this state goes on as if it had run from the
beginning. Rows are judged late as they were: lateness depends on the order of rows in a source
alone, so what was dropped is dropped again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np

from anabranch.algebra.analysis.reach import needed
from anabranch.algebra.node import Node
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import PhysicalPlan, StageState
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.sources.files.next_units import candidates
from anabranch.runtime.sources.files.reader import WHOLE
from anabranch.runtime.sources.files.units import Position, Unit
from anabranch.runtime.sources.late import judge
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.workers.source_task import read_pieces

Positions = Mapping[str, Mapping[str, Position]]
"""By source and file, how far it has been read."""

STEP_ROWS: Final = 200_000
"""From this many rows on, what was read goes through the plan: memory is bounded."""


def unreplayable(sources: Mapping[str, FileSource], names: list[str]) -> str | None:
    """Why rows of some sources cannot be read again; None where they can."""
    for name in names:
        source = sources.get(name)
        if source is None:
            return f"the rows of '{name}' come from a DataFrame and are not kept"
        if source.copies:
            return f"the copies of '{name}' are read each for itself"
        if source.stamped:
            return f"the rows of '{name}' have got their times when they came"
        if not source.ordered:
            return f"the rows of '{name}' have no order, so which were late is not known"
        if source.form in ("delta", "archive"):
            return f"'{name}' is read by versions ({source.form})"
    return None


@final
@dataclass(slots=True)
class _Reading:
    """How far a source has been read again, and what it had promised there."""

    source: FileSource
    first: Time
    positions: dict[str, Position]
    promised: Time = BEGINNING


@final
class ReplayedPlan:
    """A plan that reads again what a query has read, step by step up to the present."""

    def __init__(
        self,
        node: Node,
        plan: PhysicalPlan,
        sources: Mapping[str, FileSource],
        since: Time,
    ) -> None:
        """Nothing is read yet; only the answers from `since` on have to be right."""
        self._runner = LocalRunner(plan)
        self._plan = plan
        spans = needed(node, (since, FOREVER))
        self._readings = {
            name: _Reading(sources[name], spans[name][0], {}) for name in plan.sources
        }
        self._since = since
        self._out = EventBatch.empty(plan.schema)
        self.rows: int = 0

    def read(self, to: Positions) -> None:
        """Read on, up to these positions."""
        for name, reading in self._readings.items():
            waiting: list[EventBatch] = []
            for rows in self._pieces(reading, to.get(name, {})):
                waiting.append(rows)
                if sum(map(len, waiting)) >= STEP_ROWS:
                    self._step(name, waiting, reading.promised)
                    waiting = []
            self._step(name, waiting, reading.promised)

    def finished(self, promised: Mapping[str, int]) -> tuple[Mapping[str, StageState], EventBatch]:
        """The state per stage once sources have promised this, and what the plan has put out.

        Of that, moves that say nothing of instants from `since` on are left out.
        """
        for name in self._plan.sources:
            self._step(name, [], Time(promised.get(name, int(BEGINNING))))
        return self._runner.states, self._out

    def _step(self, name: str, rows: list[EventBatch], promised: Time) -> None:
        schema = self._plan.arriving(name)
        batch = EventBatch.concat(rows) if rows else EventBatch.empty(schema)
        out = self._runner.step({name: batch.with_stable(promised)})
        ends = np.maximum(out.end, out.new_end)
        self._out = net(EventBatch.concat([self._out, out.where(ends > np.int64(self._since))]))

    def _pieces(self, reading: _Reading, to: Mapping[str, Position]) -> Iterator[EventBatch]:
        source, leaf = reading.source, self._plan.sources[reading.source.name]
        for unit in _units(source, reading.positions, to):
            for arrivals, where in read_pieces(source, unit.splits, source.schema.names):
                verdict = judge(source.promise, reading.promised, arrivals, where=where)
                reading.promised = verdict.promised
                rows = verdict.batch
                self.rows += len(rows)
                if leaf.insert_only:
                    rows = rows.where(rows.new_end > np.int64(reading.first))
                yield rows
        reading.positions = dict(to)


def _units(
    source: FileSource, at: Mapping[str, Position], to: Mapping[str, Position]
) -> Iterator[Unit]:
    """What lies between two positions, file by file in the order in which they were begun."""
    for file, end in to.items():
        start = at.get(file, Position())
        if start == end:
            continue
        size = end.offset
        if end.offset == WHOLE:
            size = Path(file).stat().st_size
        if source.form in ("parquet",) and end.offset != WHOLE:
            size = Path(file).stat().st_size
        for unit in candidates(source, {file: start}, [(Path(file), size)]):
            yield unit
            if unit.after == end:
                break
