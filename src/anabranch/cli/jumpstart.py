"""`anabranch jumpstart`: a new copy of a query begins where another one is."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.scripts import Modules, last_query, register_operators
from anabranch.errors import PlanError


def jumpstart(
    log: Annotated[str, typer.Argument(help="The log folder of the query.")],
    new: Annotated[str, typer.Argument(help="The log folder of the new copy.")],
    script: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The script of the new copy, if it is another one of the same meaning.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The checkpoint of the query; by default the one that its log names."),
    ] = None,
    new_checkpoint: Annotated[
        str | None, typer.Option(help="The checkpoint of the new copy; by default in its log.")
    ] = None,
    modules: Modules = None,
) -> None:
    r"""Prepare a new copy of a query from its checkpoint and its log.

    The query may keep running meanwhile. Start the same script with the new log as its output: it
    resumes from the checkpoint, and need not read everything again. The new log begins with the
    events that have not ended, and a merge uses it from there on.

    With --script the new copy has another plan, and cannot use the state of the old one. It reads
    its sources from the beginning, but only works on rows that matter for events that have not
    ended.

    \b
    $ anabranch jumpstart copies/a copies/b
    $ anabranch run highest.sql --canonical --follow --to copies/b
    """
    from anabranch.merging.jumpstart import jumpstart as prepare
    from anabranch.runtime.sources.files.log_folder import LogFolder

    query = None
    if script is not None:
        from anabranch.engine import Engine

        if checkpoint is not None:
            raise PlanError(
                "another script does not use the checkpoint of the query",
                where="option --checkpoint",
                hint="leave out --checkpoint, or --script",
            )
        engine = Engine()
        register_operators(engine, modules)
        query = last_query(engine, script).canonical()
    since = prepare(log, new, query=query, checkpoint=checkpoint, new_checkpoint=new_checkpoint)
    _, clock = LogFolder(new).about()
    shown = clock.format(since)
    typer.echo(f"{new}: complete for events that end at {shown} or later", err=True)
