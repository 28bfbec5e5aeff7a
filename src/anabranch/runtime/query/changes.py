"""What can be changed of a query that runs: the past of its sources, its plan, its company."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from anabranch.errors import PlanError
from anabranch.model.record import plain
from anabranch.runtime.query.execution import Execution
from anabranch.runtime.revisions.correction_lines import Corrections
from anabranch.runtime.revisions.handing_in import hand_in
from anabranch.runtime.revisions.overview import correction_notes
from anabranch.runtime.revisions.submissions import Submission

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run
    from anabranch.runtime.store.migrations import How

Status = Literal["running", "ended", "failed"]


class Changer(Protocol):
    """Who changes a running query: the layer that knows how queries are planned."""

    def __call__(self, query: Any, *, how: How, at: Any) -> Any:
        """Change the query; see `Run.migrate`."""


class QueryGroup(Protocol):
    """Who lets queries join those that run, and leave them."""

    @property
    def members(self) -> Sequence[Run]:
        """Those that run together now."""

    def add(self, query: Any, to: Any, *, foreach: Any, name: str | None, how: How, at: Any) -> Run:
        """Let a query join; see `Run.add`."""

    def leave(self, run: Run, *, force: bool) -> None:
        """Let a query leave; see `Run.leave`."""


class Revisable:
    """A run whose sources can be corrected."""

    _execution: Execution

    def revise(self, source: str, corrections: Corrections) -> Submission:
        """Correct rows of a source that was declared with LATE REVISE, from the next batch on.

        Corrections are the path of a file of JSON lines, dictionaries, elements, or an Arrow table
        of elements: `{"insert": {...}, "start": t, "end": u}`, `{"adjust": ...}` with `new_end`,
        `{"replace": {...}, "with": {...}, "start": t}`, `{"delete": {...}, "start": t}`. A row is
        named by its start and as many of its columns as are needed to tell it from others; with
        `"all": True` the last two change all rows that are like that. What else names no row, or
        several, is in quarantine: see `quarantined` of the result.

        Raises:
            PlanError: There is no such source, or it cannot be corrected.
        """
        return hand_in(self._execution.checkpoint, source, corrections)

    def revisions(self) -> list[dict[str, Any]]:
        """The corrections of the sources and what became of them, oldest first.

        As `anabranch revisions --json` has them; see `CorrectionNote`.
        """
        return [plain(each) for each in correction_notes(self._execution.checkpoint)]


class Changeable:
    """A run whose plan can be exchanged, and that others can join."""

    name: str
    changer: Changer | None = None
    group: QueryGroup | None = None
    joined: Any = None
    has_left: bool = False

    @property
    @abstractmethod
    def status(self) -> Status:
        """Whether it is running, has ended, or has failed."""

    def migrate(self, query: Any = None, *, how: How = "auto", at: Any = None) -> Any:
        """Change the query while it runs: from an instant T on the answer is that of another one.

        Before T it is the answer of the old query, at every instant, and nothing is lost or
        doubled. The columns must have the same names and types; their order does not matter.

        Args:
            query: The new query: a `Stream`, or SQL. None: the same query, by the plan that the
                optimizer chooses now.
            how: `clip`: both plans run until no row that was read before matters any more, so T
                lies behind the windows of now. `replay`: the new plan first reads again what it
                needs, and T is the stable point. `auto` takes what is sooner done.
            at: T is not before this instant (a number, an ISO timestamp or a datetime).

        Returns:
            A `Migration`: `await_switched()`, `await_finished()`, `at`, `how`, `reason`.

        Raises:
            PlanError: The query cannot change to this one, or not in this way.
        """
        if self.changer is None or self.has_left:
            raise PlanError(
                "this query cannot be changed while it runs",
                where=self.name,
                hint="only queries that were started by an engine, and run, can",
            )
        if self.status != "running":
            raise PlanError(
                f"the query does not run: it has {self.status}",
                where=self.name,
                hint="start it again with the same checkpoint, and change it then; or hand in a "
                "script with `anabranch migrate`: the change begins with the next start",
            )
        return self.changer(query, how=how, at=at)

    def add(
        self,
        query: Any,
        to: Any = None,
        *,
        foreach: Any = None,
        name: str | None = None,
        how: How = "auto",
        at: Any = None,
    ) -> Run:
        """Let another query join this one while it runs: both are one query of Spark from then on.

        They share every batch, the checkpoint, and what they have in common. Waits for the next
        batch, with which it begins.

        Args:
            query: The query: a `Stream`, or SQL.
            to: Where its results go, as for `Stream.start`.
            foreach: As for `Stream.start`.
            name: What the catalog of queries calls it.
            how: `clip`: it answers from the instant T on at which the rows that were read before
                do not matter to it any more; from the beginning if nothing was. `replay`: it first
                reads again what was read, and answers from the beginning. `auto` takes clip where
                that is possible.
            at: By clip, T is not before this instant.

        Returns:
            Its run; `joined` has T (`joined.at`, `joined.instant`) and the way (`joined.how`).

        Raises:
            PlanError: The query cannot join this one, or not in this way.
        """
        return self._group("add").add(query, to, foreach=foreach, name=name, how=how, at=at)

    def _group(self, asked: str) -> QueryGroup:
        if self.group is None or self.status != "running":
            raise PlanError(
                f"{asked}(...) needs a query that runs",
                where=self.name,
                hint="only queries that were started by an engine, and run, can change",
            )
        return self.group
