"""The catalog of queries that an engine has started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.runtime.query.options import RUN_OPTIONS
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.declare.shared_results import Published, publish
from anabranch.runtime.sources.location import folder_for_all
from anabranch.stream import Place, Stream, Target


@final
@dataclass(slots=True, eq=False)
class Runs:
    """Runs under names of their own, and what they publish for others to read."""

    each: list[Run] = field(default_factory=list)
    _published: list[tuple[Run, Published]] = field(default_factory=list)
    _number: int = 0

    def next_name(self) -> str:
        """A name for a query that has none."""
        taken = {run.name for run in self.each}
        while True:
            self._number += 1
            name = f"query_{self._number}"
            if name not in taken:
                return name

    def add(self, run: Run, stream: Stream) -> Run:
        """Keep a run, under a name that no other has."""
        taken = {other.name for other in self.each}
        wanted = stream.name or self.next_name()
        run.name, number = wanted, 1
        while run.name in taken:
            number += 1
            run.name = f"{wanted}_{number}"
        run.uses = stream.uses
        self.each.append(run)
        folder = run.log_folder
        if folder is not None:
            self._published.append((run, publish(stream.node, run.name, folder)))
        return run

    def published(self) -> list[Published]:
        """What running queries write into log folders."""
        return [each for run, each in self._published if run.status == "running"]

    def uses(self) -> dict[str, frozenset[str]]:
        """What each query that runs depends on."""
        return {run.name: run.uses for run in self.each if run.status == "running"}

    def shown(self) -> pa.Table:
        """For `SHOW QUERIES`."""
        columns = {
            "name": [run.name for run in self.each],
            "status": [run.status for run in self.each],
            "columns": [", ".join(run.schema.names) for run in self.each],
        }
        return pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})

    def stop(self) -> None:
        """Stop them all, and forget them."""
        for run in self.each:
            run.stop()
        self.each, self._published = [], []


def unlike(queries: Sequence[Stream]) -> list[str]:
    """A name for each query that none of the others has."""
    names: list[str] = []
    for number, query in enumerate(queries, 1):
        wanted = query.name or f"query_{number}"
        count = sum(name == wanted or name.startswith(f"{wanted}_") for name in names)
        names.append(f"{wanted}_{count + 1}" if wanted in names else wanted)
    return names


def places(names: Sequence[str], to: Place | Sequence[Target]) -> tuple[list[Target], str | None]:
    """Where each of some queries writes, and where they live if one folder is for all.

    Raises:
        PlanError: There are no queries, or not as many places.
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
            f"{len(names)} queries for {len(targets)} places",
            where="start_all",
            hint="give at least one query, and a folder or a place for each",
        )
    return targets, home
