"""The catalog of queries that an engine has started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, final

import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.language.text.script import Script
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.runtime.sources.declare.shared_results import Published, publish
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.location import full_path
from anabranch.runtime.sources.spec import FileSource

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run


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

    def add(
        self,
        run: Run,
        name: str | None,
        node: Node,
        uses: frozenset[str],
        reads: frozenset[str] = frozenset(),
        *,
        publishes: bool = True,
    ) -> Run:
        """Keep a run of a plan, under a name that no other has.

        `uses` are the names that it needs, `reads` the paths of its sources. One that answers only
        from an instant on does not publish the answer of its plan, nor does one whose log begins
        in the middle.
        """
        # A query that has left does not come back, and its name is free again.
        taken = {other.name for other in self.each if not other.has_left}
        wanted = name or self.next_name()
        run.name, number = wanted, 1
        while run.name in taken:
            number += 1
            run.name = f"{wanted}_{number}"
        run.uses, run.reads = uses, frozenset(map(full_path, reads))
        run.read_by = partial(self._readers, run)
        self.each.append(run)
        folder = run.log_folder
        if folder is not None and publishes and not _begins_in_the_middle(folder):
            self._published.append((run, publish(node, run.name, folder)))
        return run

    def named(self, name: str, script: Script, span: tuple[int, int]) -> Run:
        """The running query of this name, in any case if no other one is written like that.

        Raises:
            QueryError: There is none.
        """
        running = {run.name: run for run in self.each if run.status == "running"}
        if name in running:
            return running[name]
        alike = [run for each, run in running.items() if each.lower() == name.lower()]
        if len(alike) == 1:
            return alike[0]
        near = get_close_matches(name, running, 1)
        known = f"running queries: {', '.join(running)}" if running else "no query is running"
        hint = f"did you mean '{near[0]}'? {known}" if near else known
        raise script.wrong(f"there is no running query '{name}'", span, hint)

    def only_group(self, script: Script, span: tuple[int, int]) -> Run:
        """A running query that others can join: all that run must run together.

        Raises:
            QueryError: None runs, or several run each for itself.
        """
        running = [run for run in self.each if run.status == "running"]
        if not running:
            raise script.wrong(
                "no query is running that another one could join", span, "start one first"
            )
        if any(run.execution is not running[0].execution for run in running):
            names = ", ".join(run.name for run in running)
            raise script.wrong(
                "which queries shall it join? Several run, each for itself",
                span,
                f"running queries: {names}; in Python: run.add(query, to)",
            )
        return running[0]

    def withdraw(self, run: Run) -> None:
        """What a run publishes is no longer the answer of the plan that it began with."""
        self._published = [(each, what) for each, what in self._published if each is not run]

    def measured(self, sources: Mapping[str, Any]) -> PlanStatistics | None:
        """What running queries have measured that read the same files; None where none does.

        A query that reads something else by the name of one of these sources tells nothing.
        """
        found = None
        for execution in dict.fromkeys(
            run.execution for run in self.each if run.status == "running"
        ):
            assembly = execution.assembly
            known = {each.name: each for each in assembly.work.files}
            common = known.keys() & sources.keys()
            are_same = all(_is_same(known[name], sources[name]) for name in common)
            if not common or not are_same or assembly.measurements is None:
                continue
            own = assembly.measurements.statistics.for_plans()
            found = own if found is None else found | own
        return found

    def _readers(self, run: Run) -> list[str]:
        """Running queries that read what a run writes, or one that ends with it."""
        together = [each for each in self.each if each.execution is run.execution]
        logs = {full_path(each.log_folder) for each in together if each.log_folder is not None}
        return [
            each.name
            for each in self.each
            if each.status == "running" and each not in together and each.reads & logs
        ]

    def readers_of(self, run: Run) -> list[str]:
        """Running queries that read what one run writes, also of those that run with it."""
        own = {full_path(run.log_folder)} if run.log_folder is not None else set()
        others = [each for each in self.each if each is not run and each.status == "running"]
        return [each.name for each in others if each.reads & own]

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
            run.stop(force=True)
        self.each, self._published = [], []


def _is_same(known: FileSource, source: Any) -> bool:
    return isinstance(source, FileSource) and known.is_read_like(source)


def _begins_in_the_middle(folder: str) -> bool:
    """Whether a log is complete only for events that end at some instant or later."""
    about = LogFolder(folder).record()
    return about is not None and about.since is not None
