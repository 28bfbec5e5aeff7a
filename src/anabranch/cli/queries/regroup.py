"""`anabranch add` and `anabranch drop`: queries join others that run, and leave them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.queries.entries import RunningQueries
from anabranch.cli.queries.migrate import handed_in
from anabranch.cli.scripts import Modules, module_paths, read_text
from anabranch.errors import PlanError

if TYPE_CHECKING:
    from anabranch.runtime.store.migrations import MigrationRecord

Checkpoint = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT", help="The folder of a checkpoint, or the output beside it."
    ),
]
Wait = Annotated[
    float, typer.Option(metavar="SECONDS", help="So long the command waits for the change.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with a JSON object.")]


def add(
    checkpoint: Checkpoint,
    script: Annotated[
        str, typer.Argument(metavar="MORE.SQL", help="The script with the query; '-' is stdin.")
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="Where its results go, as for run.")
    ],
    name: Annotated[
        str | None, typer.Option(help="What the query is called; else the name of the script.")
    ] = None,
    how: Annotated[str, typer.Option(help="clip, replay, or auto: clip where possible.")] = "auto",
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="By clip: answers begin not before this.")
    ] = None,
    wait: Wait = 30.0,
    as_json: AsJson = False,
    modules: Modules = None,
) -> None:
    r"""Let a query join those that run: one process, one checkpoint, and common parts run once.

    The last SELECT of the script joins with the next batch. The script declares its streams as the
    running ones are declared. By clip it answers from an instant T on, by replay from the
    beginning. It calls the modules that the others were started with, and those of --modules.
    Exit code 1: it was refused, and the others run on as they were.

    \b
    $ anabranch add report more.sql --to report/dear --name dear
    change 2: 'dear' has joined, by clip from 1080 on
    """
    from pathlib import Path

    from anabranch.runtime.sinks.choice import choose_sink
    from anabranch.runtime.sources.location import full_path, sink_scheme
    from anabranch.runtime.store.migrations import MigrationRecord

    if how not in ("auto", "clip", "replay"):
        raise PlanError(
            f"'{how}' is not a way to join", where="--how", hint="use auto, clip or replay"
        )
    choose_sink(to, None)
    text, file = read_text(script)
    wanted = MigrationRecord(
        number=0,
        verb="add",
        how=how,  # type: ignore[arg-type]
        output=None,
        text=text,
        script=full_path(file) if file else "standard input",
        what=name or (Path(file).stem if file else "added"),
        # The process that runs may have begun in another folder.
        to=to if sink_scheme(to) is not None else full_path(to),
        requested_at=time.time(),
        modules=module_paths(modules),
    )
    _tell(checkpoint, wanted, at, wait, as_json=as_json)


def drop(
    checkpoint: Checkpoint,
    name: Annotated[
        str, typer.Argument(help="The name of the query, or the folder that it writes to.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Drop it although other queries read its results.")
    ] = False,
    wait: Wait = 30.0,
    as_json: AsJson = False,
) -> None:
    r"""Let one of several queries leave; the others go on.

    What it has put out stays as it is; it cannot be resumed. The last query of a process cannot
    leave: stop it. Exit code 1: it was refused.

    \b
    $ anabranch drop report dear
    change 3: 'dear' has left
    """
    from anabranch.runtime.store.migrations import MigrationRecord

    if not force:
        _refuse_read(checkpoint, name)
    wanted = MigrationRecord(
        number=0,
        verb="drop",
        output=None,
        script="anabranch drop",
        what=name,
        force=force,
        requested_at=time.time(),
    )
    _tell(checkpoint, wanted, None, wait, as_json=as_json)


def _refuse_read(checkpoint: str, name: str) -> None:
    """Refuse to drop a query whose log other processes of this machine read."""
    from anabranch.runtime.query.state_view import find_checkpoint
    from anabranch.runtime.sources.location import full_path

    path, _ = find_checkpoint(checkpoint)
    alive = [each for each in RunningQueries().all() if each.is_alive]
    logs = {log for each in alive for own, log in each.queries.items() if log and own == name}
    logs = {log for log in logs if find_checkpoint(log)[0] == path}
    logs = {full_path(log) for log in {*logs, name}}
    readers = [each.name for each in alive if logs & set(each.reads)]
    if readers:
        raise PlanError(
            f"other queries read the results of '{name}': {', '.join(readers)}",
            where=checkpoint,
            hint="stop them first, or drop it nevertheless with --force: they get no more of it",
        )


def _tell(
    checkpoint: str, wanted: MigrationRecord, at: str | None, wait: float, *, as_json: bool
) -> None:
    from anabranch.model.record import plain

    record, clock, when = handed_in(checkpoint, wanted, at, wait)
    if as_json:
        typer.echo(json.dumps(plain(record), ensure_ascii=False))
    else:
        verb = {"add": "joins", "drop": "leaves"}[record.verb]
        text = f"'{record.what}' {verb} {when}"
        if record.state == "refused":
            text = f"refused: {record.error or record.reason}"
        elif record.state == "finished" and record.verb == "drop":
            text = f"'{record.what}' has left"
        elif record.state == "finished":
            since = record.since(clock) or "the beginning"
            text = f"'{record.what}' has joined, by {record.how} from {since} on"
        typer.echo(f"change {record.number}: {text}", err=True)
    if record.state == "refused":
        raise typer.Exit(1)
