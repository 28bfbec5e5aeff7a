"""`anabranch migrations`: how a query was changed while it ran."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from anabranch.cli.tables import show_table


def migrations(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="The folder of a checkpoint, or the output beside it."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per change.")] = False,
) -> None:
    r"""List the changes of a query while it ran, and what has become of them.

    \b
    requested  nothing has changed yet
    switched   both plans run: before T the old answer counts, from T on the new one
    finished   only the new plan runs
    refused    the query stays as it was; the reason says why
    """
    from anabranch.model.record import plain
    from anabranch.runtime.query.state_view import find_checkpoint
    from anabranch.runtime.store.migrations import MigrationFolder

    path, facts = find_checkpoint(checkpoint)
    found = MigrationFolder.of(path).records()
    if as_json:
        for each in found:
            typer.echo(json.dumps(plain(each), ensure_ascii=False))
        return
    if not found:
        typer.echo("the query was never changed while it ran", err=True)
        return
    columns: dict[str, list[str]] = {
        "change": [str(each.number) for each in found],
        "state": [each.state for each in found],
        "how": [each.how for each in found],
        "from": [each.since(facts.clock) for each in found],
        "batch": ["" if each.batch is None else str(each.batch) for each in found],
        "finished": ["" if each.finished is None else str(each.finished) for each in found],
        "new stages": [", ".join(each.added) for each in found],
        "kept": [", ".join(each.kept) for each in found],
        "reason": [each.reason for each in found],
    }
    show_table(list(columns), list(columns.values()), {0, 4, 5})
