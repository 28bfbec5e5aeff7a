"""A mark in the checkpoint: somebody is computing revisions, so more will come.

A query that processes what is there and then ends must not end before the revisions of what it has
read are out. The planner of its batches is a process of its own; it looks for this mark when it has
nothing else to plan, and waits until it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from anabranch.runtime.store.folder import Folder

_BUSY: Final = "busy"
_HOLD: Final = "hold"


@final
@dataclass(frozen=True, slots=True)
class BusyMark:
    """The mark in the folder `revisions` of a checkpoint.

    A second mark says that no batch may be planned meanwhile: the state that is being computed is
    that after the last one.
    """

    folder: Folder

    @property
    def is_set(self) -> bool:
        """Whether revisions are being computed."""
        return self.folder.read(_BUSY) is not None

    @property
    def holds(self) -> bool:
        """Whether no batch may be planned."""
        return self.folder.read(_HOLD) is not None

    def set(self, *, busy: bool, hold: bool) -> None:
        """Put the marks there, or take them away; a batch is held before it is let go."""
        for name, wanted in ((_HOLD, hold), (_BUSY, busy)):
            if wanted:
                self.folder.write(name, b"")
            else:
                self.folder.remove(name)
