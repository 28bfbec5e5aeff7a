"""Replace a running query by another one, without the reader of the merged stream noticing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from anabranch.errors import PlanError, StreamError
from anabranch.kernels.contract.command import Command
from anabranch.model.time import Time
from anabranch.runtime.query.state_view import find_checkpoint
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder

_LOOK: Final = 0.2


def cutover(
    merged: str | Path,
    old: str | Path,
    new: str | Path,
    *,
    checkpoint: str | Path | None = None,
    patience: float = 3600.0,
) -> Time:
    """Let a merge go on with a new copy instead of an old one.

    Waits until the new copy is settled as far as the merged stream; then the old one is detached,
    and may be stopped. Until then both count, so that nothing is lost if the new one fails.

    Args:
        merged: The log folder of the merge, which is running.
        old: The log folder of the copy that goes.
        new: The log folder of the copy that stays.
        checkpoint: Where the merge lives; None: beside its log.
        patience: So many seconds the new copy has to come as far.

    Returns:
        How far the merged stream was settled at the change.

    Raises:
        PlanError: There is no such merge, or no such copy in it.
        StreamError: The new copy has not come far enough in time.
    """
    path, facts = find_checkpoint(str(checkpoint or merged))
    if not facts.copies:
        raise PlanError(
            "the query does not merge copies",
            where=path,
            hint="name the log folder of 'anabranch merge --follow', or of a merge of copies",
        )
    output, successor = LogFolder(str(merged)), LogFolder(str(new))
    deadline = time.monotonic() + patience
    while not successor.exists() or successor.stable() < output.stable():
        if time.monotonic() > deadline:
            raise StreamError(
                f"the new copy has not caught up in {patience:g} seconds",
                where=str(new),
                hint="give it more time, or find out why it is slow; nothing was changed",
            )
        time.sleep(_LOOK)
    folder = ControlFolder(Folder.at(f"{path}/control"))
    command = Command(verb="detach", source=facts.copies[0], copy=Path(old).name)
    name = folder.put(command)
    while True:
        note = next(note for note in folder.notes() if note.name == name)
        if note.status == "taken":
            return output.stable()
        if note.status == "refused":
            raise PlanError(
                f"the merge refused to detach '{Path(old).name}': {note.why}",
                where=path,
                hint="a copy has the name of its log folder",
            )
        if time.monotonic() > deadline:
            raise StreamError(
                "the merge has not executed the command",
                where=path,
                hint="check that the merge is running; the command waits for it",
            )
        time.sleep(_LOOK)
