"""`anabranch jumpstart`: a new copy of a query begins where another one is."""

from __future__ import annotations

from typing import Annotated

import typer


def jumpstart(
    log: Annotated[str, typer.Argument(help="The log folder of the query.")],
    new: Annotated[str, typer.Argument(help="The log folder of the new copy.")],
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The checkpoint of the query; by default the one that its log names."),
    ] = None,
    new_checkpoint: Annotated[
        str | None, typer.Option(help="The checkpoint of the new copy; by default in its log.")
    ] = None,
) -> None:
    r"""Prepare a new copy of a query from its checkpoint and its log.

    The query may keep running meanwhile. Start the same script with the new log as its output: it
    resumes from the checkpoint, and need not read everything again. The new log begins with the
    events that have not ended, and a merge uses it from there on.

    \b
    $ anabranch jumpstart copies/a copies/b
    $ anabranch run highest.sql --canonical --follow --to copies/b
    """
    from anabranch.merging.jumpstart import jumpstart as prepare
    from anabranch.runtime.sources.files.log_folder import LogFolder

    since = prepare(log, new, checkpoint=checkpoint, new_checkpoint=new_checkpoint)
    _, clock = LogFolder(new).about()
    shown = clock.format(since)
    typer.echo(f"{new}: complete for events that end at {shown} or later", err=True)
