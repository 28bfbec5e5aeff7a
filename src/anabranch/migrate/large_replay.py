"""A large replay is a query of Spark of its own, beside the one that changes.

It reads the pieces that matter in batches that are planned before it starts, in tasks and in the
pool of replays, so that the driver stays free for the batches of the query. It has one shard: tasks
read and prepare rows, which is most of the work, and its state goes on in the driver with the rows
that have come meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.kernels.plan.stage import PhysicalPlan, StageState
from anabranch.migrate.rereading import FileReading, ReadSoFar, is_over, units_between
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.record import plain
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sinks.sinks import Begin, ShardResult, Sink, rows_of_shards
from anabranch.runtime.sources.files.earlier_parts import promise_of
from anabranch.runtime.sources.files.planned_batch import PlannedBatch
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.sources.files.units import Unit, share_units
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import ShardStore

REPLAY_IN_TASKS_FROM_ROWS: Final = 50_000_000
"""From so many rows on, they are read by tasks of Spark; below, the driver is done sooner."""

REPLAYED_BATCH_ROWS: Final = 4_000_000
"""So many rows of a source are one batch: memory is bounded."""

RunPlanned: TypeAlias = Callable[[PhysicalPlan, Sequence[FileSource], Sequence[Sink], str], None]
"""Runs a plan with one shard over all that is planned in a checkpoint, until it ends.

There is a sink for each of its outputs.
"""

Parts: TypeAlias = tuple[tuple[FileSplit, ...], ...]


@final
class LaterResults(Sink):
    """Keeps the moves of results from or to an end behind an instant."""

    def __init__(self, schema: pa.Schema, since: Time) -> None:
        """Nothing has come."""
        self._since = since
        self._schema = schema
        self._rows: dict[int, EventBatch] = {}

    def open(self, begin: Begin) -> None:
        """There is nothing to get ready."""
        assert begin.schema.equals(self._schema)

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Keep the moves of a batch that matter."""
        del stable, revisions
        rows = rows_of_shards(results, self._schema)
        self._rows[batch] = rows.where(np.maximum(rows.end, rows.new_end) > np.int64(self._since))

    def rows(self) -> EventBatch:
        """All of them, added up."""
        empty = EventBatch.empty(self._schema)
        return net(EventBatch.concat([empty, *(self._rows[each] for each in sorted(self._rows))]))


def replayed_in_tasks(
    plan: PhysicalPlan,
    readings: Mapping[str, FileReading],
    to: ReadSoFar,
    home: str,
    since: Time,
    *,
    parts: int,
    run: RunPlanned,
) -> tuple[dict[str, StageState], list[EventBatch]]:
    """The state of a plan after what a query has read, and what it says of instants from one on.

    The latter is told by output.

    The readings go on from there.

    Args:
        plan: The stages.
        readings: The sources, of which nothing is read yet.
        to: How far the query has read.
        home: A folder for it.
        since: The instant.
        parts: How many tasks read a batch.
        run: Runs a query.
    """
    parent, _, name = home.rpartition("/")
    Folder.at(parent).drop(name)
    planned = Folder.at(home).child("planned")
    waiting = {each: _batches(reading, to, parts) for each, reading in readings.items()}
    batches = 0
    while True:
        entry = {each: found for each, rest in waiting.items() if (found := next(rest, None))}
        if not entry:
            break
        batches += 1
        planned.write_json(f"{batches}.json", plain(PlannedBatch(parts=entry, after={})))
    sinks = [LaterResults(plan.stages[index].schema, since) for index in plan.outputs]
    nothing = f"{home}/nothing/*"
    files = [
        replace(reading.source, path=nothing, ends=False, archive=None)
        for reading in readings.values()
    ]
    if batches:
        run(plan, files, sinks, home)
    states: dict[str, StageState] = {}
    for stage in plan.stages:
        store = ShardStore(folder=Folder.at(home).child("state").child(stage.name).child("0"))
        manifest = store.load(batches)
        states[stage.name] = stage.start()
        if manifest is not None:
            states[stage.name] = tuple(map(_unstored, store.traces(manifest)))
            for source in manifest.sources.keys() & readings.keys():
                promised = max(int(readings[source].promised), manifest.sources[source])
                readings[source].promised = Time(promised)
    # What is mapped stays readable.
    Folder.at(parent).drop(name)
    return states, [sink.rows() for sink in sinks]


def _batches(reading: FileReading, to: ReadSoFar, parts: int) -> Iterator[Parts]:
    """The pieces of a source that matter, batch by batch; what was promised before comes first."""
    source, until = reading.source, to.positions.get(reading.source.name, {})
    units: list[Unit] = []
    rows, before = 0, BEGINNING

    def shared() -> Parts:
        found = share_units(units, parts, by_file=source.form == "lines")
        if before > BEGINNING:
            # Promises of files are in their own steps of time.
            promised = FileSplit("", 0, 0, stable=int(before) * source.promise.step)
            found[0].insert(0, promised)
        return tuple(map(tuple, found))

    for unit in units_between(source, reading.positions, until):
        if not units and is_over(source, reading.leaf, unit, reading.first):
            promises = [promise_of(source, split) for split in unit.splits]
            before = Time(max([before, *(each for each in promises if each is not None)]))
            continue
        units.append(unit)
        rows += unit.rows
        reading.rows += unit.rows
        if rows >= REPLAYED_BATCH_ROWS:
            yield shared()
            units, rows, before = [], 0, BEGINNING
    if units:
        yield shared()
    elif before > BEGINNING:
        yield ((FileSplit("", 0, 0, stable=int(before) * source.promise.step),),)
    reading.positions = dict(until)


def _unstored(trace: Trace) -> Trace:
    """The same with runs that are stored nowhere yet."""
    runs = {name: tuple(SortedRun(run.rows) for run in each) for name, each in trace.runs.items()}
    return Trace(runs, trace.stable, trace.cut)
