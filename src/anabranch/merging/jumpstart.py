"""A new copy of a query that begins where another one is, not at the beginning."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.history import History
from anabranch.model.time import Time
from anabranch.runtime.query.checkpoint import read_facts
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part

CHECKPOINT: Final = "_checkpoint"
_TRIES: Final = 5
# Spark notes a batch before it runs and again when it is done; the other way round nothing fits.
_FIRST: Final = ("spark/commits", "spark/offsets", "planned", "state")
_NOT: Final = ("lock", "control")


def jumpstart(
    log: str | Path,
    to: str | Path,
    *,
    checkpoint: str | Path | None = None,
    new_checkpoint: str | Path | None = None,
) -> Time:
    """Prepare a copy of a query out of its checkpoint and its log, which may go on being written.

    The new log begins with the events that are not over yet, and says so: it vouches for all events
    that end at the stable point or later. Start the query with the new log as its output, and it
    goes on from there; a merge takes it in, and from then on the old one may end.

    Args:
        log: The log folder of the query.
        to: The log folder of the new copy, which must not exist.
        checkpoint: Where the query lives; None: beside its log.
        new_checkpoint: Where the copy shall live; None: beside the new log.

    Returns:
        The instant from which on the new log is complete.

    Raises:
        PlanError: There is no checkpoint, or the new folders exist.
    """
    old, new = Path(log), Path(to)
    source = Path(checkpoint) if checkpoint is not None else old / CHECKPOINT
    target = Path(new_checkpoint) if new_checkpoint is not None else new / CHECKPOINT
    facts = read_facts(str(source))
    if facts is None:
        raise PlanError(
            "there is no checkpoint to begin from",
            where=str(source),
            hint="name the checkpoint of the query; it is beside its log unless another folder "
            "was given",
        )
    for folder in (new, target):
        if folder.exists() and any(folder.iterdir()):
            raise PlanError(
                "the folder of the new copy is not empty",
                where=str(folder),
                hint="choose a new folder: a copy has a log and a checkpoint of its own",
            )
    last = _copied(source, target)
    origin = LogFolder(str(old))
    schema, clock = origin.about()
    stable, events = _alive(origin, last)
    fresh = LogFolder(str(new))
    fresh.create(
        schema,
        query=facts.query,
        clock=clock,
        since=int(stable),
        home=str(target.absolute()),
        revised=_newest_revision(origin, last),
    )
    files = []
    if len(events):
        files = [write_part(str(new), last, "begin", events, clock=clock)]
    fresh.commit(last, stable, files)
    return stable


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


def _copied(source: Path, target: Path) -> int:
    """Copy a checkpoint, of which old parts may be removed meanwhile; its last batch."""
    for attempt in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        try:
            return _copy(source, target)
        except FileNotFoundError:
            if attempt == _TRIES - 1:
                raise
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
    return last
