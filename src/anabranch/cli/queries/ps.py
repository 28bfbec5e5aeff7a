"""`anabranch ps`: which queries run on this machine?"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer

from anabranch.cli.queries.entries import RunningQueries, RunningQuery
from anabranch.cli.tables import show_table


def ps(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per query.")] = False,
) -> None:
    r"""List the queries that run on this machine.

    A query whose process has died is shown once, as 'gone'. One that is changed while it runs has
    a column for that, and so has a merge with copies that it cannot read. 'files written again'
    counts files that were changed after they were read: the query does not read them again.

    \b
    $ anabranch ps
    name     status   batch  stable  read  written  script       output     pid
    highest  running     12      80   240       95  highest.sql  out.jsonl  4711
    """
    entries = RunningQueries()
    shown = []
    for entry in entries.all():
        if entry.is_alive:
            shown.append(entry)
        else:
            shown.append(replace(entry, status="gone"))
            entries.remove(entry)
    if as_json:
        for entry in shown:
            typer.echo(json.dumps(asdict(entry), ensure_ascii=False))
    elif shown:
        _show(shown)
    else:
        typer.echo("no queries are running", err=True)


def _show(entries: list[RunningQuery]) -> None:
    columns = {
        "name": [entry.name for entry in entries],
        "status": [entry.status for entry in entries],
        "started": [entry.started for entry in entries],
        "batch": [_text(entry.batch) for entry in entries],
        "stable": [_text(entry.stable) for entry in entries],
        "read": [f"{entry.rows_in:,}" for entry in entries],
        "written": [f"{entry.rows_out:,}" for entry in entries],
        "script": [entry.script for entry in entries],
        "output": [entry.to for entry in entries],
        "pid": [str(entry.pid) for entry in entries],
    }
    if any(len(entry.queries) > 1 for entry in entries):
        columns["queries"] = [", ".join(entry.queries) for entry in entries]
    if any(entry.change for entry in entries):
        columns["change"] = [entry.change for entry in entries]
    if any(entry.problems for entry in entries):
        columns["not read"] = [
            "; ".join(f"{copy}: {why}" for copy, why in entry.problems.items()) for entry in entries
        ]
    if any(entry.rewritten for entry in entries):
        columns["files written again"] = [_text(entry.rewritten or None) for entry in entries]
    show_table(list(columns), list(columns.values()), {3, 4, 5, 6, 9})


def _text(value: object) -> str:
    return "" if value is None else str(value)
