"""Heads of results that say no more than a test needs."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.time import BEGINNING
from anabranch.runtime.messages.heads import LogFile, OutputHead, OutputSummary


def output_head(
    *, stable: int = BEGINNING, before: int = BEGINNING, files: Sequence[LogFile] = ()
) -> OutputHead:
    return OutputHead(
        output=0,
        stable=int(stable),
        stable_before=int(before),
        said=OutputSummary(stable=int(stable)),
        files=tuple(files),
    )
