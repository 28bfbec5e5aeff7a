"""`anabranch cutover`: a merge goes on with a new copy instead of an old one."""

from __future__ import annotations

from typing import Annotated

import typer


def cutover(
    merged: Annotated[str, typer.Argument(help="The log folder of the merge.")],
    old: Annotated[str, typer.Argument(help="The log folder of the copy to remove.")],
    new: Annotated[str, typer.Argument(help="The log folder of the copy to keep.")],
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The checkpoint of the merge; by default the one that its log names."),
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds within which the new copy must catch up.")
    ] = 3600.0,
) -> None:
    r"""Replace a copy of a running merge by another one.

    Waits until the new copy is settled as far as the merged stream, then detaches the old one,
    which may be stopped. Readers of the merged stream notice nothing.

    \b
    $ anabranch cutover highest/merged highest/copies/v1 highest/copies/v2
    """
    from anabranch.merging.cutover import cutover as change
    from anabranch.runtime.sources.files.log_folder import LogFolder

    reached = change(merged, old, new, checkpoint=checkpoint, patience=patience)
    _, clock = LogFolder(merged).about()
    shown = clock.format(reached)
    typer.echo(f"the merge continues with {new} from {shown} on; {old} may be stopped", err=True)
