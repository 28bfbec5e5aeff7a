"""Events that came late and are not in the state yet, while rows in time move them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from anabranch.algebra.analysis.spans import EVERYTHING
from anabranch.runtime.archive.arrived import BelowFolder, WithheldFolder
from anabranch.runtime.revisions.records import CorrectionRecord
from anabranch.runtime.revisions.revised_query import RevisedQuery
from anabranch.runtime.sources.event_names import EventNames, Names, event_names


@final
class EventHolder:
    """Tells tasks which events have moves that are to be put aside, in a query with exchanges."""

    def __init__(self, query: RevisedQuery) -> None:
        """Of a query."""
        self._query = query
        self._names: dict[int, Names] = {}

    def hold_open(self, batch: int, outside: Sequence[CorrectionRecord]) -> None:
        """Let a batch put aside what moves events of earlier corrections.

        An attempt that is repeated finds what the first one was told.

        Args:
            batch: The batch, which has not begun.
            outside: The corrections that are not in the state; the batch may begin with one of
                them, and puts aside a little too much then.
        """
        query = self._query
        assert query.swapper is not None
        own = [each for each in outside if each.batch < batch]
        self._names = {each.id: self._names_of(each) for each in own}
        for source in sorted({each.source for each in own}):
            held = EventNames.held(query.folder, source)
            if held.read_held(batch) is not None:
                continue
            promised, _ = query.swapper.job.progress_of(source, batch)
            # A row in time moves no event that is over.
            names = [
                self._names[each.id]
                for each in own
                if each.source == source and each.last >= promised
            ]
            if any(map(len, names)):
                held.write(batch, np.unique(np.concatenate(names)))

    def _names_of(self, correction: CorrectionRecord) -> Names:
        """The events of a correction."""
        known = self._names.get(correction.id)
        return self._late(correction.source, correction.batch) if known is None else known

    def _late(self, source: str, batch: int) -> Names:
        """The events of a source of which rows were withheld in a batch."""
        folder, schema = WithheldFolder.of(self._query.folder, source), self._query.columns[source]
        rows = [each for _, each in folder.read(schema, EVERYTHING, batch, batch=batch)]
        return np.concatenate([np.empty(0, np.uint64), *map(event_names, rows)])

    def hold_back(self, batch: int) -> bool:
        """Whether a batch has to run again, with moves put aside whose events came late in it.

        Once is enough: then all moves of an event are put aside wherever one of them is.
        """
        query = self._query
        found = {source: self._taken_in(source, batch) for source in sorted(query.revised)}
        if not any(map(len, found.values())):
            return False
        # What the batch has left is named by what it held: the next attempt leaves something else.
        # A crash before the names are written repeats the first attempt, one behind it the second.
        BelowFolder.of(query.folder).forget(batch)
        for source in found:
            WithheldFolder.of(query.folder, source).forget(batch)
        for source, names in found.items():
            if len(names):
                held = EventNames.held(query.folder, source)
                before = held.read_held(batch)
                held.write(batch, names if before is None else np.union1d(before, names))
        return True

    def _taken_in(self, source: str, batch: int) -> Names:
        """The events of a source that were withheld in a batch, and moved by rows in time."""
        moved = EventNames.moved(self._query.folder, source).read(batch)
        held = EventNames.held(self._query.folder, source).read_held(batch)
        if held is not None:
            moved = np.setdiff1d(moved, held)
        return np.intersect1d(moved, self._late(source, batch)) if len(moved) else moved

    def forget(self, batch: int) -> None:
        """Forget the names of batches before one that is committed."""
        for source in self._query.revised:
            EventNames.moved(self._query.folder, source).clean(batch)
            EventNames.held(self._query.folder, source).clean(batch)
