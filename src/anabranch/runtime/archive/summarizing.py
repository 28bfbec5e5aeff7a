"""Sum up an archive with copied rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch.display.option_hints import explained
from anabranch.errors import PlanError
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.summary import ArchiveSummary
from anabranch.runtime.store.folder import Folder


@explained("ab.summarize")
def summarize(
    archive: str | Path, *, by: Sequence[str] = (), column: str, bucket: Any
) -> ArchiveSummary:
    """The summary of an archive with copied rows (`ARCHIVE 'path'`).

    Args:
        archive: Its folder.
        by: The columns that queries group by.
        column: The column that they add up.
        bucket: How long a bucket is: a duration. Windows whose size and slide are multiples of it
            are estimated without an error.

    Raises:
        PlanError: There is no such column, or it is not of numbers.
        StreamError: There is no archive, or its rows hold for longer than an instant.
    """
    found = Archive(Folder.at(str(archive)), None)
    width = found.about().clock.duration(bucket)
    names = [*dict.fromkeys([*by, column])]
    missing = [name for name in names if name not in found.about().payload.names]
    if missing:
        raise PlanError(
            f"the archive has no column '{missing[0]}'",
            where=str(archive),
            hint=f"it has the columns {', '.join(found.about().payload.names)}",
        )
    return ArchiveSummary.of(found.read(columns=names), by=by, column=column, width=int(width))
