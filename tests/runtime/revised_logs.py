"""Log folders with revisions, for tests."""

from __future__ import annotations

from pathlib import Path

from tests.model.revised_streams import SCHEMA, Part

from anabranch.engine import Engine
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.files.stream_file import read_batches
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part, write_revision
from anabranch.runtime.sources.spec import LatePolicy


def written_log(path: Path, parts: list[Part]) -> LogFolder:
    """A log with these parts; a revision goes with the batch behind it."""
    log = LogFolder(str(path))
    log.create(SCHEMA, query="q", clock=INTEGERS)
    append_parts(log, parts)
    return log


def append_parts(log: LogFolder, parts: list[Part]) -> None:
    """The next batches of a log."""
    batch = max((entry.batch + 1 for entry in log.entries()), default=0)
    held: list[Revision] = []
    if parts and isinstance(parts[-1], Revision):
        parts = [*parts, EventBatch.empty(SCHEMA)]
    for part in parts:
        if isinstance(part, Revision):
            held.append(part)
            continue
        revisions = [write_revision(log.path, batch, each, clock=INTEGERS) for each in held]
        files = [write_part(log.path, batch, 0, part, clock=INTEGERS)] if len(part) else []
        log.commit(batch, max(part.stable, log.stable()), files, revisions)
        held = []
        batch += 1


def answer_of(
    source: Path | str, folder: Path, late: LatePolicy = "drop"
) -> tuple[LogicalStream, int]:
    """What a query without operators makes of a stream, and how many rows were late."""
    target = folder / f"{Path(source).name}-{late}.jsonl"
    run = Engine().stream(source, late=late).run_local(to=target)
    late_rows = sum(metrics["late"] for metrics in run.metrics())
    return LogicalStream.of_batches(read_batches(target, SCHEMA)), late_rows
