"""A new copy of a query that begins where another one is, not at the beginning."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from anabranch.algebra.node import clock_of
from anabranch.algebra.union import columns_of
from anabranch.display.option_hints import explained
from anabranch.errors import PlanError, StreamError
from anabranch.kernels.contract.command import Command
from anabranch.language.text.types import type_name
from anabranch.model.batch import EventBatch
from anabranch.model.clock import Clock
from anabranch.model.history import History
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.query.state_view import find_checkpoint
from anabranch.runtime.sources.files.log_folder import ANY_QUERY, LogFolder, write_part
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import MigrationFolder
from anabranch.runtime.store.query_record import read_query_record
from anabranch.stream import Stream

CHECKPOINT: Final = "_checkpoint"
_TRIES: Final = 5
_LOOK: Final = 0.1
_COMMITS_AFTER: Final = 10.0
"""Seconds in which a batch that is in the log is finished, or its query is not running."""

# Spark notes a batch before it runs and again when it is done; the other way round nothing fits.
_FIRST: Final = ("spark/commits", "spark/offsets", "planned", "state")
_NOT: Final = ("lock", "control")


@explained("ab.jumpstart")
def jumpstart(
    log: str | Path,
    to: str | Path,
    *,
    query: Stream | None = None,
    checkpoint: str | Path | None = None,
    new_checkpoint: str | Path | None = None,
) -> Time:
    """Prepare a copy of a query out of its checkpoint and its log, which may go on being written.

    The new log begins with the events that are not over yet, and says so: it vouches for all events
    that end at the stable point or later. Start the query with the new log as its output, and it
    goes on from there; a merge takes it in, and from then on the old one may end.

    With `query` the new copy is another query of the same meaning, by another plan, which cannot
    use the state. It reads its sources from the beginning, and leaves out, before any work is done
    on them, the rows that cannot matter for what the log vouches for.

    Args:
        log: The log folder of the query.
        to: The log folder of the new copy, which must not exist.
        query: The query that the new copy will run, if it is another one.
        checkpoint: The checkpoint of the query; None: the one that its log names.
        new_checkpoint: The checkpoint of the copy; None: in the new log.

    Returns:
        The instant from which on the new log is complete.

    Raises:
        StreamError: There is no log, or no checkpoint.
        PlanError: The new folders exist, the query writes several outputs, or the other query has
            other columns.
    """
    old, new = Path(log), Path(to)
    origin = LogFolder(str(old))
    about = origin.record()
    if about is None:
        raise StreamError(
            "a copy can only begin from a log folder",
            where=str(old),
            hint="name the log folder that the query writes: what was given as --to",
        )
    target = Path(new_checkpoint) if new_checkpoint is not None else new / CHECKPOINT
    for folder in (new, target):
        if folder.exists() and any(folder.iterdir()):
            raise PlanError(
                "the folder of the new copy is not empty",
                where=str(folder),
                hint="choose a new folder: a copy has a log and a checkpoint of its own",
            )
    if query is not None:
        return _prepared(query, origin, new, target)
    found, _ = find_checkpoint(str(checkpoint or log))
    _refuse_several(found)
    if origin.entries():
        _await_commit(Path(found))
    last = _copied(Path(found), target)
    schema, clock = about.payload, about.clock
    stable, events = _alive(origin, last)
    fresh = LogFolder(str(new))
    fresh.create(
        schema,
        query=about.query,
        clock=clock,
        since=int(stable),
        home=str(target.absolute()),
        revised=_newest_revision(origin, last),
        made=uuid.uuid4().hex,
        properties=about.properties,
    )
    files = []
    if len(events):
        files = [write_part(str(new), last, "begin", events, clock=clock)]
    fresh.commit(last, stable, files)
    return stable


def _prepared(query: Stream, origin: LogFolder, new: Path, target: Path) -> Time:
    """A log for another query, which is told in its first batch what is still of interest."""
    schema, clock = origin.about()
    _refuse_columns(query, schema, clock, origin.path)
    entries = origin.entries()
    if not entries:
        raise StreamError(
            "the log has nothing to begin from",
            where=origin.path,
            hint="wait for the first batch of its query, or start the new one from the beginning",
        )
    stable, events = _alive(origin, entries[-1].batch)
    if not BEGINNING < stable < FOREVER:
        raise StreamError(
            "nothing of the log is settled yet" if stable == BEGINNING else "the log has ended",
            where=origin.path,
            hint="start the new copy from the beginning",
        )
    LogFolder(str(new)).create(
        schema,
        query=ANY_QUERY,
        clock=clock,
        since=int(stable),
        home=str(target.absolute()),
        revised=_newest_revision(origin, entries[-1].batch),
        made=uuid.uuid4().hex,
    )
    # An instant earlier: lifetimes are cut where that which holds begins, not before.
    first = min(int(events.start.min(initial=FOREVER)), int(stable)) - 1
    told = Command(verb="feedback", source="", value=int(stable), since=max(first, BEGINNING + 1))
    ControlFolder(Folder.at(f"{target}/control")).put(told)
    return stable


def _refuse_columns(query: Stream, schema: pa.Schema, clock: Clock, where: str) -> None:
    """Refuse a query that cannot mean the same as a log."""
    both = [columns_of(each) for each in (schema, query.schema)]
    if both[0] != both[1]:
        shown = [
            ", ".join(f"{name} {type_name(kind)}" for name, kind in columns) for columns in both
        ]
        raise PlanError(
            "the new query has columns that differ from those of the log",
            where=f"{where}: {shown[0]}\nthe query: {shown[1]}",
            hint="copies of one stream have the same columns, in the same order",
        )
    counted = clock_of(query.node)
    if (counted.timestamps, counted.chronon) != (clock.timestamps, clock.chronon):
        raise PlanError(
            "the new query counts time differently from the log",
            where=where,
            hint="copies of one stream have the same kind of times, and the same CHRONON",
        )


def _refuse_several(checkpoint: str) -> None:
    """Refuse a query that writes several outputs: the new copy would lack all but one of them."""
    record = read_query_record(checkpoint)
    outputs = 1 if record is None or record.layout is None else len(record.layout.outputs)
    if outputs > 1:
        raise PlanError(
            f"the query writes {outputs} outputs, and a copy of it can only have one",
            where=checkpoint,
            hint="start the new copy from the beginning, or run its queries one by one",
        )


def _alive(log: LogFolder, last: int) -> tuple[Time, EventBatch]:
    """The stable point after a batch, and the events that were not over then."""
    # As they were announced: so later adjusts name them. Revisions end before the stable point.
    batches = (part for part in log.parts(last) if isinstance(part, EventBatch))
    history = History.of(batches, log.about()[0])
    alive = history.end >= history.stable
    events = EventBatch(history.payload, history.start, history.start, history.end)
    return history.stable, events.where(alive)


def _newest_revision(log: LogFolder, last: int) -> int:
    """The number of the newest revision up to a batch."""
    about = log.record()
    entries = [entry for entry in log.entries() if entry.batch <= last]
    numbers = [revision.number for entry in entries for revision in entry.revisions]
    return max(numbers, default=0 if about is None else about.revised)


def _await_commit(source: Path) -> None:
    """Wait a moment for Spark to note a batch that the log has already."""
    deadline = time.monotonic() + _COMMITS_AFTER
    commits = source / "spark" / "commits"
    while not any(commits.glob("[0-9]*")) and time.monotonic() < deadline:
        time.sleep(_LOOK)


def _copied(source: Path, target: Path) -> int:
    """Copy a checkpoint, of which old parts may be removed meanwhile; its last batch."""
    for attempt in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        try:
            return _copy(source, target)
        except FileNotFoundError:
            if attempt == _TRIES - 1:
                raise PlanError(
                    "the query removes its old state faster than it can be copied",
                    where=str(source),
                    hint="give the query a trigger, or keep more versions of its state "
                    "(versions=... of the engine)",
                ) from None
    raise AssertionError("unreachable")


def _copy(source: Path, target: Path) -> int:
    done = [int(file.name) for file in (source / "spark" / "commits").glob("[0-9]*")]
    if not done:
        raise PlanError(
            "the query has not finished a batch yet",
            where=str(source),
            hint="wait for its first batch, or start the copy from the beginning",
        )
    last = max(done)
    for part in _FIRST:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part)
    for number in (int(f.name) for f in (target / "spark" / "commits").glob("[0-9]*")):
        if number > last:
            (target / "spark" / "commits" / str(number)).unlink()
            (target / "spark" / "commits" / f".{number}.crc").unlink(missing_ok=True)
    shutil.copytree(
        source,
        target,
        dirs_exist_ok=True,
        ignore=lambda folder, names: [
            name
            for name in names
            if name in _NOT
            or any((Path(folder) / name).relative_to(source) == Path(part) for part in _FIRST)
        ],
    )
    _demand_state(target / "state", last)
    _refuse_requests(str(target))
    # Spark ends a query when another one with the same identity is started in its session.
    (target / "spark" / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (target / "spark" / ".metadata.crc").unlink(missing_ok=True)
    return last


def _refuse_requests(checkpoint: str) -> None:
    """A change that waits was asked of the other query; what is in force is no request any more."""
    changes, stored = MigrationFolder.of(checkpoint), read_query_record(checkpoint)
    in_force = None if stored is None else stored.in_force
    for record in changes.waiting():
        if in_force is None or record.number != in_force.migration:
            why = "it was asked of the query that this one is a copy of: ask for it again"
            changes.write(replace(record, state="refused", reason=why))


def _demand_state(state: Path, last: int) -> None:
    """Make sure that every shard has a version to go on from: later ones do not count.

    Raises:
        FileNotFoundError: The query has removed it meanwhile.
    """
    shards = {file.parent for file in state.glob("*/*/*.json") if file.stem.isdigit()}
    for shard in shards:
        versions = [int(file.stem) for file in shard.glob("*.json") if file.stem.isdigit()]
        if min(versions) > last:
            raise FileNotFoundError(str(shard / f"{last}.json"))
