"""`anabranch show`: what a stream says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.results import show_history, show_snapshot
from anabranch.cli.streams import InputFile, opened, with_forms
from anabranch.errors import AnabranchError, StreamError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.batch import EventBatch
    from anabranch.model.clock import Clock
    from anabranch.model.files.stream_file import StreamForm
    from anabranch.model.history import History
    from anabranch.model.revision import Revision


def show(
    file: Annotated[
        str, typer.Argument(help="A file, a folder, a pattern, or '-' for standard input.")
    ],
    at: Annotated[
        str | None,
        typer.Option(help="Show what holds at this instant: a number or an ISO timestamp."),
    ] = None,
    known: Annotated[
        int | None,
        typer.Option(min=0, help="As it was after the revision of this number (0: before any)."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="The largest number of rows to show (0: all).")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    r"""Show the events of a stream after all adjusts and revisions, or the snapshot at an instant.

    An event is final when it ends before the stable point: then only a revision can change it. With
    --json the events are a stream file again, with every event inserted once; a snapshot is one
    object per payload.

    \b
    $ anabranch show bids.jsonl
    itemID  price  start  end  final
         1   80.0      5    7  yes
    """
    with opened(file) as [source]:
        if at is None:
            history = with_forms([source], partial(_history, source, known))
            _show_history(*history, limit, as_json=as_json)
        else:
            snapshot = with_forms([source], partial(_snapshot, source, at, known))
            _show_snapshot(*snapshot, limit, as_json=as_json)


def _instant(text: str, form: StreamForm) -> int:
    try:
        return form.clock.instant(text)
    except AnabranchError as problem:
        raise StreamError(problem.what, where="option --at", hint=problem.hint) from None


def _history(
    source: InputFile, known: int | None, forms: list[StreamForm]
) -> tuple[History, StreamForm]:
    from anabranch.model.history import History
    from anabranch.model.revision import Revision, clipped_changes
    from anabranch.model.time import FOREVER

    [form] = forms

    def parts() -> Iterator[EventBatch | Revision]:
        for part in source.parts(form, known):
            if isinstance(part, Revision):
                # What is revised before the stream begins is no longer in it.
                changes = clipped_changes(part.changes, form.since, FOREVER)
                yield replace(part, changes=changes)
            else:
                yield part

    return History.of(parts(), form.schema), form


def _snapshot(
    source: InputFile, at: str, known: int | None, forms: list[StreamForm]
) -> tuple[pa.RecordBatch, StreamForm, int]:
    from anabranch.model.history import snapshot_of

    [form] = forms
    instant = _instant(at, form)
    if instant < form.since:
        raise StreamError(
            f"the snapshot at {form.clock.format(instant)} is no longer in the log",
            where=source.name,
            hint=f"it is complete from {form.clock.format(form.since)} on",
        )
    return snapshot_of(source.moves(form, known), instant, form.schema), form, instant


def _show_history(history: History, form: StreamForm, limit: int, *, as_json: bool) -> None:
    if as_json:
        _write_history(history, limit, clock=form.clock)
    else:
        show_history(history, clock=form.clock, limit=limit, since=form.since)


def _write_history(history: History, limit: int, *, clock: Clock) -> None:
    from anabranch.model.batch import EventBatch
    from anabranch.model.files.stream_file import write_stream

    shown = limit or len(history)
    start, end = history.start[:shown], history.end[:shown]
    batch = EventBatch(history.payload.slice(0, shown), start, start, end, history.stable)
    write_stream("-", [batch], clock=clock)


def _show_snapshot(
    rows: pa.RecordBatch, form: StreamForm, instant: int, limit: int, *, as_json: bool
) -> None:
    from anabranch.model.files.json_encode import row_text

    if not as_json:
        show_snapshot(rows, instant, clock=form.clock, limit=limit)
        return
    shown = rows.slice(0, limit or rows.num_rows)
    for text in row_text(shown, shown.num_rows).to_pylist():
        typer.echo(text)
