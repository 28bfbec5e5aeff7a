"""Events that came late in one task, and that another task of the same batch moves in time."""

from __future__ import annotations

import numpy as np

from anabranch.algebra.analysis.spans import EVERYTHING
from anabranch.runtime.archive.arrived import BelowFolder, WithheldFolder
from anabranch.runtime.revisions.revised_query import RevisedQuery
from anabranch.runtime.sources.event_names import EventNames, Names, event_names


def hold_back(query: RevisedQuery, batch: int) -> bool:
    """Whether a batch has to run again, with moves put aside whose events came late in it.

    Once is enough: then all moves of an event are put aside wherever one of them is.
    """
    found = {source: _found(query, source, batch) for source in sorted(query.revised)}
    if not any(map(len, found.values())):
        return False
    # What the batch has left is named by what it held: the next attempt leaves something else. A
    # crash before the names are written repeats the first attempt, one behind it the second.
    BelowFolder.of(query.folder).forget(batch)
    for source in found:
        WithheldFolder.of(query.folder, source).forget(batch)
    for source, names in found.items():
        if len(names):
            held = EventNames.held(query.folder, source)
            before = held.read_held(batch)
            held.write(batch, names if before is None else np.union1d(before, names))
    return True


def _found(query: RevisedQuery, source: str, batch: int) -> Names:
    """The events of a source that were withheld in a batch, and taken in."""
    moved = EventNames.moved(query.folder, source).read(batch)
    if not len(moved):
        return moved
    held = EventNames.held(query.folder, source).read_held(batch)
    if held is not None:
        moved = np.setdiff1d(moved, held)
    folder = WithheldFolder.of(query.folder, source)
    late = folder.read(query.columns[source], EVERYTHING, batch, batch=batch)
    names = [event_names(rows) for _, rows in late]
    return np.intersect1d(moved, np.concatenate(names)) if names else moved[:0]


def forget_names(query: RevisedQuery, batch: int) -> None:
    """Forget the names of batches before one that is committed."""
    for source in query.revised:
        EventNames.moved(query.folder, source).clean(batch)
        EventNames.held(query.folder, source).clean(batch)
