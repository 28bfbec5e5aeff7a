"""Replace a running query by another one, without the reader of the merged stream noticing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from anabranch.display.option_hints import explained
from anabranch.errors import PlanError, StreamError
from anabranch.kernels.contract.command import Command
from anabranch.model.time import Time
from anabranch.runtime.query.state_view import find_checkpoint
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.planned_batch import copy_names
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder

_LOOK: Final = 0.2
_MEMBERSHIP: Final = ("attach", "detach", "rejoin")
"""The commands after which a merge reads a copy, or does not; others are about what it reads."""


@explained("ab.cutover")
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
        checkpoint: The checkpoint of the merge; None: the one that its log names.
        patience: So many seconds the new copy has to come as far.

    Returns:
        How far the merged stream was settled at the change.

    Raises:
        PlanError: There is no such merge, or no such copy in it; both copies are one, or the new
            one is detached.
        StreamError: The new copy has not come far enough in time.
    """
    path, facts = find_checkpoint(str(checkpoint or merged))
    if not facts.copies:
        raise PlanError(
            "the query does not merge copies",
            where=path,
            hint="name the log folder of 'anabranch merge --follow', or of a merge of copies",
        )
    names = copy_names(Folder.at(f"{path}/planned"), facts.copies)
    source = _source_of(Path(old).name, names, path)
    folder = ControlFolder(Folder.at(f"{path}/control"), facts.inputs)
    _refuse_gone(folder, source, Path(old).name, Path(new).name, str(merged))
    output, successor = LogFolder(str(merged)), LogFolder(str(new))
    deadline = time.monotonic() + patience
    while (reason := _waits_for(path, source, successor, output)) is not None:
        if time.monotonic() > deadline:
            raise StreamError(
                f"the new copy has not caught up in {patience:g} seconds",
                where=f"{new}: {reason}",
                hint="give it more time, or find out why it is slow; nothing was changed",
            )
        time.sleep(_LOOK)
    # Somebody may have detached the new copy meanwhile, or replaces it by the old one.
    _refuse_gone(folder, source, Path(old).name, Path(new).name, str(merged))
    command = Command(verb="detach", source=source, copy=Path(old).name)
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


def _refuse_gone(folder: ControlFolder, source: str, old: str, new: str, merged: str) -> None:
    """Refuse to leave a merge without the copy that it shall continue with.

    Raises:
        PlanError: The new copy is the old one, or detached.
    """
    if old == new:
        raise PlanError(
            f"'{new}' cannot take its own place: the merge would have no copy left",
            where=merged,
            hint="name the copy that goes, and another one that stays",
        )
    commands = [note.content for note in folder.notes() if note.status != "refused"]
    about = [
        each["verb"]
        for each in commands
        if each
        and each["verb"] in _MEMBERSHIP
        and (each.get("source"), each.get("copy")) == (source, new)
    ]
    if about and about[-1] == "detach":
        raise PlanError(
            f"the merge has detached '{new}', and does not read it",
            where=merged,
            hint=f"let it rejoin first: anabranch control {merged} rejoin {source} --copy {new}",
        )


def _waits_for(path: str, source: str, successor: LogFolder, output: LogFolder) -> str | None:
    """Why the merge cannot do with the new copy alone yet; None: it can."""
    if not successor.exists():
        return "the log does not exist yet"
    name = Path(successor.path).name
    if name not in copy_names(Folder.at(f"{path}/planned"), [source])[source]:
        return "the merge has not read it: is it in the folder of the copies?"
    if successor.stable() < output.stable():
        return "it is settled less far than the merged stream"
    return None


def _source_of(copy: str, names: Mapping[str, Sequence[str]], where: str) -> str:
    """The source that has a copy of this name.

    Raises:
        PlanError: None has.
    """
    for source, copies in names.items():
        if copy in copies:
            return source
    known = [name for copies in names.values() for name in copies]
    raise PlanError(
        f"the merge has no copy '{copy}'",
        where=where,
        hint=f"its copies are: {', '.join(known)}" if known else "it has not read a copy yet",
    )
