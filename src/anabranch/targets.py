"""Where the results of queries go, and where each of several writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from anabranch.errors import PlanError
from anabranch.runtime.query.options import RUN_OPTIONS
from anabranch.runtime.sinks.message_sink import Messages
from anabranch.runtime.sources.location import folder_for_all

PathText: TypeAlias = str | Path
Target: TypeAlias = str | Path | Messages


def unlike(names: Sequence[str | None]) -> list[str]:
    """A name for each query that none of the others has, after the one that it wants.

    >>> unlike(["top", None, "top"])
    ['top', 'query_2', 'top_2']
    """
    found: list[str] = []
    for number, name in enumerate(names, 1):
        wanted = name or f"query_{number}"
        count = sum(each == wanted or each.startswith(f"{wanted}_") for each in found)
        found.append(f"{wanted}_{count + 1}" if wanted in found else wanted)
    return found


def targets_of(
    names: Sequence[str], to: PathText | Sequence[Target]
) -> tuple[list[Target], str | None]:
    """Where each of several queries writes, and their checkpoint if one folder is for all.

    Raises:
        PlanError: There are no queries, or not as many targets.
    """
    if isinstance(to, str | Path):
        RUN_OPTIONS["to"].checked(to, where="start_all(...)")
        folder = folder_for_all(to)
        targets: list[Target] = [f"{folder}/{name}" for name in names]
        home: str | None = f"{folder}/_checkpoint"
    else:
        several: Any = to
        targets, home = list(to) if isinstance(several, Sequence) else [several], None
        for target in targets:
            RUN_OPTIONS["to"].checked(target, where="start_all(...)")
    if not names or len(targets) != len(names):
        raise PlanError(
            f"{len(names)} queries for {len(targets)} outputs",
            where="start_all",
            hint="give at least one query, and a folder for all or an output for each",
        )
    return targets, home
