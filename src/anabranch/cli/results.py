"""Histories and snapshots for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from anabranch.cli.tables import show_table
from anabranch.display.aligned import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.clock import Clock
    from anabranch.model.history import History


def show_history(
    history: History, *, clock: Clock, limit: int = 0, since: int | None = None
) -> None:
    """Print events with their lifetimes, at most so many, and how far they are final.

    All events that end at `since` or later are there, where that is not the beginning.
    """
    from anabranch.display.text_table import cells, numeric
    from anabranch.model.time import BEGINNING

    shown = limit or len(history)

    def times(column: list[int]) -> list[str]:
        return [clock.format(time) for time in column]

    schema = history.payload.schema
    names = [*schema.names, "start", "end", "final"]
    columns = [
        *cells(history.payload.slice(0, shown)),
        times(history.start[:shown].tolist()),
        times(history.end[:shown].tolist()),
        ["yes" if final else "" for final in history.is_final[:shown]],
    ]
    here = len(schema)
    show_table(names, columns, numeric(schema) | {here, here + 1})
    promised = history.stable != BEGINNING
    stable = clock.format(history.stable)
    progress = f"stable point {stable}" if promised else "no stable point"
    if since not in (None, BEGINNING):
        progress += f"; complete from {clock.format(since)} on"
    typer.echo(f"{counted(len(history), shown, 'event')}; {progress}", err=True)


def show_snapshot(rows: pa.RecordBatch, at: int, *, clock: Clock, limit: int = 0) -> None:
    """Print payloads that hold at an instant, at most so many."""
    from anabranch.display.text_table import cells, numeric

    shown = rows.slice(0, limit or rows.num_rows)
    show_table(rows.schema.names, cells(shown), numeric(rows.schema))
    when = clock.format(at)
    typer.echo(f"{counted(rows.num_rows, shown.num_rows, 'payload')} at {when}", err=True)
