"""A large replay as a query of Spark of its own, beside the one that it corrects.

It has two batches that are planned before it starts: the past, of which nothing is settled, and
then the correction. What leaves in the second one is the difference between the two answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.batch import EventBatch
from anabranch.model.record import plain
from anabranch.runtime.archive.bucket import write_rows
from anabranch.runtime.revisions.large_replay import LargeReplay
from anabranch.runtime.sinks.sinks import MemorySink, Sink
from anabranch.runtime.sources.files.planned_batch import PlannedBatch
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder

_PAST: Final = 1
_CORRECTION: Final = 2


RunPlanned: TypeAlias = Callable[[PhysicalPlan, Sequence[FileSource], Sequence[Sink], str], None]
"""Runs a plan over sources to the end of what is planned, with these sinks, in a checkpoint."""


def replay_on_spark(
    task: LargeReplay, sources: Mapping[str, FileSource], parts: int, run: RunPlanned
) -> list[EventBatch]:
    """What leaves in the second batch, per output.

    Args:
        task: What to replay.
        sources: How the pieces of each source are read.
        parts: How many tasks read the past.
        run: Runs a query.
    """
    parent, _, name = task.home.rpartition("/")
    Folder.at(parent).drop(name)
    home = Folder.at(task.home)
    # Rows and corrections are read in different ways, so they are parts of their own.
    believed = {
        source: (
            *_shared(splits, parts),
            _written(home, f"missing-{n}", sources[source], task.missing[source]),
        )
        for n, (source, splits) in enumerate(task.past.items())
    }
    correction = _written(home, "correction", sources[task.source], task.changes)
    planned = home.child("planned")
    first = PlannedBatch(parts=believed, after={})
    second = PlannedBatch(parts={task.source: (correction,)}, after={})
    for number, entry in ((_PAST, first), (_CORRECTION, second)):
        planned.write_json(f"{number}.json", plain(entry))
    sinks = [MemorySink() for _ in task.plan.outputs]
    files = [_replayed(sources[name], task.home) for name in task.plan.sources]
    run(task.plan, files, sinks, task.home)
    found = [sink.batches()[-1] for sink in sinks]
    Folder.at(parent).drop(name)
    return found


def _replayed(source: FileSource, home: str) -> FileSource:
    """A source of which nothing comes but what is planned, and that promises nothing."""
    promise = replace(source.promise, delay=None, late="drop", heartbeat=None)
    nothing = f"{home}/nothing/*"
    return replace(source, promise=promise, path=nothing, ends=False, archive=None)


def _written(
    home: Folder, name: str, source: FileSource, moves: EventBatch
) -> tuple[FileSplit, ...]:
    """Moves of a source as a file of corrections; nothing where there are none."""
    if not len(moves):
        return ()
    clock = source.promise.clock
    piece = write_rows(home, f"{name}.parquet", moves, known=0, revision=None, clock=clock)
    return (FileSplit(f"{home.path}/{piece.split.path}", 0, WHOLE, change="corrections"),)


def _shared(splits: Sequence[FileSplit], parts: int) -> tuple[tuple[FileSplit, ...], ...]:
    """Splits for about so many tasks, neighbours together."""
    size = max(1, -(-len(splits) // max(1, parts)))
    found = [tuple(splits[first : first + size]) for first in range(0, len(splits), size)]
    return tuple(found) or ((),)
