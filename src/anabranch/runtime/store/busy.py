"""A mark in the checkpoint: somebody is computing revisions, so more will come.

A query that processes what is there and then ends must not end before the revisions of what it has
read are out. The planner of its batches is a process of its own; it looks for this mark when it has
nothing else to plan, and waits until it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from anabranch.runtime.store.folder import Folder

_MARK: Final = "busy"


@final
@dataclass(frozen=True, slots=True)
class BusyMark:
    """The mark in the folder `revisions` of a checkpoint."""

    folder: Folder

    @property
    def is_set(self) -> bool:
        """Whether revisions are being computed."""
        return self.folder.read(_MARK) is not None

    def set(self, busy: bool) -> None:
        """Put the mark there, or take it away."""
        if busy:
            self.folder.write(_MARK, b"")
        else:
            self.folder.remove(_MARK)
