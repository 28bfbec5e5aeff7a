"""`anabranch stop`: end a query that runs on this machine."""

from __future__ import annotations

import time
from difflib import get_close_matches
from typing import Annotated, Final

import typer

from anabranch.cli.queries.entries import RunningQueries, RunningQuery
from anabranch.errors import QueryError

_PAUSE: Final = 0.1


def stop(
    name: Annotated[str, typer.Argument(help="The name of the query, as 'anabranch ps' shows it.")],
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the query to end.")
    ] = 60.0,
    force: Annotated[
        bool, typer.Option("--force", help="Stop it although other queries read its results.")
    ] = False,
) -> None:
    r"""Ask a query to stop after its batch, and wait until it has.

    Started again with the same script and output, the query resumes. The exit code is 0 when the
    query has ended, 1 when it has not ended in time, 2 when there is no such query, or when other
    queries on this machine read its results.

    \b
    $ anabranch stop highest
    """
    entries = RunningQueries()
    entry = entries.find(name)
    if entry is None or not entry.is_alive:
        raise _unknown(name, [each for each in entries.all() if each.is_alive])
    readers = [each.name for each in entries.all() if entry.log in each.reads and each.is_alive]
    if readers and not force:
        raise _read_by(name, readers, str(entry.log))
    entries.ask_to_stop(entry)
    deadline = time.monotonic() + timeout
    while _is_there(entries, entry):
        if time.monotonic() >= deadline:
            typer.echo(
                f"{name} has not ended within {timeout:g} s; it has been asked to stop",
                err=True,
            )
            raise typer.Exit(1)
        time.sleep(_PAUSE)
    typer.echo(f"{name} has stopped", err=True)


def _is_there(entries: RunningQueries, entry: RunningQuery) -> bool:
    now = entries.find(entry.name)
    return now is not None and now.mark == entry.mark and entry.is_alive


def _read_by(name: str, readers: list[str], log: str) -> QueryError:
    return QueryError(
        f"other queries read the results of '{name}': {', '.join(readers)}",
        where=f"anabranch stop {name}: {log}",
        hint="stop them first, or stop it nevertheless with --force: they wait until it is "
        "started again",
    )


def _unknown(name: str, running: list[RunningQuery]) -> QueryError:
    names = [entry.name for entry in running]
    near = get_close_matches(name, names, 3)
    guess = f"did you mean {' or '.join(repr(each) for each in near)}? " if near else ""
    listed = f"running are: {', '.join(names)}" if names else "no queries are running"
    return QueryError(
        f"there is no running query '{name}'", where=f"anabranch stop {name}", hint=guess + listed
    )
