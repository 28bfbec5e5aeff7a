"""`anabranch revise`: correct rows that a query has read."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def revise(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="The folder of a checkpoint, or the output beside it."
        ),
    ],
    source: Annotated[
        str, typer.Argument(help="The name of a source with LATE REVISE.", metavar="SOURCE")
    ],
    corrections: Annotated[
        str,
        typer.Argument(metavar="CORRECTIONS", help="A file of JSON lines, or Parquet elements."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Answer with a JSON object.")] = False,
) -> None:
    r"""Correct rows of a source that a query has read.

    The query may be running or stopped; it takes the corrections into its next batch. Results that
    were settled are corrected by revisions. Each line is a correction:

    \b
    {"insert": {row}, "start": T, "end": U}             a row that was missing
    {"delete": {columns}, "start": T}                   a row that is wrong
    {"replace": {columns}, "with": {columns}, "start": T}   other values for a row
    {"adjust": {row}, "start": T, "end": U, "new_end": V}   another end for an event

    A row is named by its start and as many of its columns as tell it from others. A correction that
    names no row, or several, goes into quarantine, and the others take effect; then the exit code
    is 1. `anabranch revisions` shows what became of all of them.

    \b
    $ anabranch revise out.jsonl Quote corrections.jsonl
    submission 1: 2 corrections of source Quote take effect in the next batch
    """
    from anabranch.model.record import plain
    from anabranch.runtime.query.state_view import find_checkpoint
    from anabranch.runtime.revisions.handing_in import hand_in

    path, _ = find_checkpoint(checkpoint)
    found = hand_in(path, source, corrections)
    if as_json:
        typer.echo(json.dumps(plain(found), ensure_ascii=False))
    else:
        for each in found.quarantined:
            typer.echo(f"line {each.line} is in quarantine: {each.reason}", err=True)
            typer.echo(f"  {each.text}", err=True)
        done = found.lines - len(found.quarantined)
        what = "1 correction" if done == 1 else f"{done:,} corrections"
        takes = "takes" if done == 1 else "take"
        typer.echo(
            f"submission {found.number}: {what} of source {source} {takes} effect in the next "
            "batch",
            err=True,
        )
    if found.quarantined:
        raise typer.Exit(1)
