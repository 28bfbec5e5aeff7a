"""Events whose moves a query puts aside, because it does not know the events yet.

Where state is exchanged, a late insert is not taken in until then. An adjust of that event may be
in time: with the stable point 20, an insert for [5, 30) is late and its adjust to [5, 25) is not.
The adjust has to wait as well, whichever task reads it. Tasks do not know of each other. So each
leaves in `moved/<source>/` the names of events that began before the stable point and that it moves
in time; the driver compares them with what was withheld. Where both name an event, the driver puts
its name into `held/<source>/<batch>` and the batch runs again: tasks put aside what is named there.

A name is a hash of payload and start. Two events with one name are put aside together, which is
right for any event, only not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import Time
from anabranch.runtime.store.folder import Folder

HELD: Final = "held"
MOVED: Final = "moved"

Names: TypeAlias = npt.NDArray[np.uint64]
"""Hashes of payload and start."""


def event_names(rows: EventBatch) -> Names:
    """The names of the events that rows are about."""
    return stable_hash([*rows.payload.columns, pa.array(rows.start)], len(rows))


def moved_in_time(rows: EventBatch, promised: Time) -> Names:
    """The events before the stable point that rows in time move; they may have come late."""
    is_move = (rows.end != rows.start) & (rows.start < np.int64(promised))
    return np.unique(event_names(rows.where(is_move))) if is_move.any() else np.empty(0, np.uint64)


@final
@dataclass(frozen=True, slots=True)
class EventNames:
    """Names of events of one source, in files of a folder, by batch."""

    folder: Folder

    @staticmethod
    def held(revisions: str, source: str) -> EventNames:
        """The events whose moves are put aside; a file per batch."""
        return EventNames(Folder.at(revisions).child(HELD).child(quote(source, safe="")))

    @staticmethod
    def moved(revisions: str, source: str) -> EventNames:
        """The events that tasks move in time; a file per batch and task."""
        return EventNames(Folder.at(revisions).child(MOVED).child(quote(source, safe="")))

    def write(self, batch: int, names: Names, part: int = 0) -> None:
        """Leave names."""
        data = np.ascontiguousarray(names, np.dtype("<u8")).tobytes()
        self.folder.write(f"{batch}-{part}", data, mark=str(batch))

    def read(self, batch: int) -> Names:
        """All names of a batch."""
        found = [np.empty(0, np.uint64)]
        for name in sorted(self.folder.names()):
            if name.partition("-")[0] == str(batch):
                data = self.folder.read(name)
                assert data is not None
                found.append(np.frombuffer(data, np.dtype("<u8")).astype(np.uint64))
        return np.unique(np.concatenate(found))

    def read_held(self, batch: int) -> Names | None:
        """The names in the only file of a batch; None if there is none."""
        data = self.folder.read(f"{batch}-0")
        return None if data is None else np.frombuffer(data, np.dtype("<u8")).astype(np.uint64)

    def clean(self, batch: int) -> None:
        """Forget what came before a batch that is committed."""
        for name in self.folder.names():
            number = name.partition("-")[0]
            if number.isdigit() and int(number) < batch:
                self.folder.remove(name)
