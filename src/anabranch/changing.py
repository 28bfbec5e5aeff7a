"""Lets runs be changed while they run: what `run.migrate` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

from anabranch.errors import PlanError
from anabranch.host import Host
from anabranch.migrate.migration import Migration
from anabranch.migrate.migrator import Migrator, PlanAll
from anabranch.planning import AskedQuery, PlannedQueries
from anabranch.runtime.option import Option, word
from anabranch.runtime.query.run import Run
from anabranch.runtime.store.migrations import How

_HOW: Final = Option(name="how", kind=word(*get_args(How)), default="auto", nullable=False)


def let_change(
    host: Host,
    runs: Sequence[Run],
    planned: PlannedQueries,
    asked: Sequence[AskedQuery],
    plan_all: PlanAll,
    *,
    allow_unbounded: bool,
) -> None:
    """Let runs that were started together be changed."""
    execution = runs[0].execution
    migrator = Migrator(
        execution,
        asked,
        planned,
        plan_all,
        allow_unbounded=allow_unbounded,
        when_switched=lambda output: host.runs.withdraw(runs[output]),
    )
    for number, run in enumerate(runs):
        run.changer = _changer(host, migrator, run, number)


def _changer(host: Host, migrator: Migrator, run: Run, output: int) -> Any:
    def change(query: Any = None, *, how: How = "auto", at: Any = None) -> Migration:
        _HOW.checked(how, where="migrate(...)")
        new: AskedQuery = migrator.asked[output] if query is None else _asked(host, query)
        text = query if isinstance(query, str) else None
        return migrator.migrate(output, new, how=how, at=at, what=run.name, text=text)

    return change


def _asked(host: Host, query: Any) -> AskedQuery:
    """A query out of SQL, or as it is."""
    if isinstance(query, str):
        query = host.sql(query)
    if not hasattr(query, "node") or not hasattr(query, "sources"):
        raise PlanError(
            f"a query is needed, not {type(query).__name__}",
            where="migrate(...)",
            hint="pass the result of engine.sql('SELECT ...'), or the text of the query itself",
        )
    found: AskedQuery = query
    return found
