"""Remove the beginning of a log folder, so that what is left is a legal stream of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.history import History
from anabranch.model.record import plain
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sources.files.listing import ABOUT, LOG
from anabranch.runtime.sources.files.log_folder import LogFolder, write_base
from anabranch.runtime.sources.files.log_records import (
    REVISED,
    LogAbout,
    LogBase,
    LogEntry,
    log_entry,
)
from anabranch.runtime.store.folder import Folder

_BASE: Final = "base-"


def cut_log(path: str, before: int) -> Time | None:
    """Remove all entries of a log that are settled at an instant; a query may be writing to it.

    The last entry that is settled at `before` or earlier becomes the end of what is removed. Events
    that end at its stable point or later may still move, or hold: they are written to a new file,
    the base, as they were announced. The log begins with it, and says that it has all events that
    end at this stable point or later. Revisions in what is removed end before it, so none is
    needed any more. The newest entry always stays.

    Readers that have not read all of what is removed fail with an error that says so; new ones
    begin with the base.

    One write makes the change: that of `_log/stream.json` with the base. Before it the base is a
    file that nobody names; after it the entries up to the base do not count, and removing them may
    stop at any moment. The next call removes what was left.

    Args:
        path: The log folder.
        before: Entries with a stable point up to this instant may be removed.

    Returns:
        The instant from which on the log is complete now; None: nothing was removed.

    Raises:
        StreamError: The folder is not a log.
    """
    log = LogFolder(path)
    about = log.record()
    if about is None:
        raise StreamError(
            "not a log folder",
            where=path,
            hint="a log folder is what a query with to='<folder>' writes",
        )
    _sweep(path, about)
    settled = [entry for entry in log.entries()[:-1] if BEGINNING < entry.stable <= before]
    if not settled:
        return None
    last = settled[-1]
    batches = (part for part in log.parts(last.batch) if isinstance(part, EventBatch))
    about = _cut(path, about, last, settled, History.of(batches, about.payload))
    Folder.at(path).child(LOG).write_json(ABOUT, plain(about), seal=False)
    _sweep(path, about)
    return Time(last.stable)


def _cut(
    path: str, about: LogAbout, last: LogEntry, removed: Iterable[LogEntry], history: History
) -> LogAbout:
    """Write the base of a log, and return what the log says of itself then."""
    events = EventBatch(history.payload, history.start, history.start, history.end)
    alive = events.where(history.end >= last.stable)
    files = (write_base(path, last.batch, alive, clock=about.clock),) if len(alive) else ()
    numbers = [revision.number for entry in removed for revision in entry.revisions]
    return replace(
        about,
        format=REVISED,
        since=last.stable,
        revised=max(numbers, default=about.revised),
        base=LogBase(batch=last.batch, stable=last.stable, files=files),
    )


def _sweep(path: str, about: LogAbout) -> None:
    """Remove what the base of a log has replaced, entry by entry: files first, then their list."""
    if about.base is None:
        return
    folder = Folder.at(path)
    entries = folder.child(LOG)
    numbers = [int(name[:-5]) for name in entries.names() if name[:-5].isdigit()]
    for number in sorted(number for number in numbers if number <= about.base.batch):
        name = f"{number}.json"
        content = entries.read_json(name)
        if content is not None:
            for file in log_entry(content, f"{path}/{LOG}/{name}").every_file:
                folder.remove(file.name)
        entries.remove(name)
    kept = {file.name for file in about.base.files}
    for name in folder.names():
        if name.startswith(_BASE) and name not in kept:
            folder.remove(name)
