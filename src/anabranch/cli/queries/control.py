"""`anabranch control`: tell a running query something."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.tables import show_table
from anabranch.errors import PlanError

if TYPE_CHECKING:
    from anabranch.runtime.store.control import ControlFolder


def control(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="The folder of a checkpoint, or the output beside it."
        ),
    ],
    verb: Annotated[
        str | None,
        typer.Argument(
            help="advance, pause, resume, limit, attach, detach, rejoin or feedback; without "
            "one, commands are listed."
        ),
    ] = None,
    source: Annotated[str | None, typer.Argument(help="The name of a source.")] = None,
    value: Annotated[
        str | None,
        typer.Argument(help="For advance and attach an instant, for limit a number of rows."),
    ] = None,
    copy: Annotated[
        str | None, typer.Option(help="The name of a copy, where the source has copies.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="List as JSON lines.")] = False,
) -> None:
    r"""Send a command to a query, or list its commands.

    A command takes effect in the next batch, of a query that runs or that is started later, and is
    repeated with that batch after a crash.

    \b
    advance SOURCE TIME   the source has reached this instant: earlier rows are late
    pause SOURCE          stop reading it
    resume SOURCE         continue reading it
    limit SOURCE ROWS     read at most this number of rows in a batch

    \b
    The inputs of a merge are sources, or with --copy NAME the copies of one source:
    attach SOURCE [TIME]  add it; it is complete for events that end at TIME or later
    detach SOURCE         ignore it from now on
    rejoin SOURCE         add it again

    \b
    feedback TIME [SINCE] only output that ends at TIME or later is needed, none of which starts
                          before SINCE

    \b
    $ anabranch control out.jsonl advance Bid 2026-11-15T12:00:00
    """
    from anabranch.runtime.query.state_view import find_checkpoint
    from anabranch.runtime.sources.files.planned_batch import copy_names
    from anabranch.runtime.store.control import ControlFolder, command_of, instant_of
    from anabranch.runtime.store.folder import Folder

    path, facts = find_checkpoint(checkpoint)
    folder = ControlFolder(Folder.at(f"{path}/control"))
    if verb is None:
        _list(folder, as_json=as_json)
        return
    since: str | None = None
    if verb == "feedback":
        source, value, since = None, source, value
    number = None
    if value is not None and verb == "limit":
        number = int(value) if value.isdigit() else None
        if number is None:
            raise PlanError(
                f"'{value}' is not a number of rows", where="limit", hint="give a whole number"
            )
    elif value is not None:
        number = instant_of(facts.clocks, source or "", value)
    first = None if since is None else instant_of(facts.clocks, "", since)
    content = {"verb": verb, "source": source, "value": number, "copy": copy, "since": first}
    copies = copy_names(Folder.at(f"{path}/planned"), facts.copies)
    command = command_of(content, facts.sources, copies, facts.inputs)
    folder.put(command)
    typer.echo(f"{command}: takes effect in the next batch", err=True)


def _list(folder: ControlFolder, *, as_json: bool) -> None:
    notes = folder.notes()
    if as_json:
        for note in notes:
            answer = {"status": note.status, "command": note.content, "why": note.why or None}
            typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    contents = [note.content if isinstance(note.content, dict) else {} for note in notes]
    columns = {
        "command": [str(each.get("verb", "")) for each in contents],
        "source": [str(each.get("source", "")) for each in contents],
        "copy": [str(each.get("copy") or "") for each in contents],
        "value": ["" if each.get("value") is None else str(each["value"]) for each in contents],
        "status": [note.status for note in notes],
        "why": [note.why.splitlines()[0] if note.why else "" for note in notes],
    }
    if not any(columns["copy"]):
        del columns["copy"]
    names = list(columns)
    show_table(names, list(columns.values()), {names.index("value")})
