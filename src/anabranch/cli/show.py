"""`anabranch show`: what a stream says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.results import show_history, show_snapshot
from anabranch.cli.streams import InputFile, opened, with_forms
from anabranch.errors import AnabranchError, StreamError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.clock import Clock
    from anabranch.model.files.stream_file import StreamForm
    from anabranch.model.history import History


def show(
    file: Annotated[str, typer.Argument(help="A stream file, or '-' for standard input.")],
    at: Annotated[
        str | None,
        typer.Option(help="Show what holds at this instant: a number or an ISO timestamp."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="The largest number of rows to show (0: all).")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    r"""Show the events of a stream after all adjusts, or the snapshot at an instant.

    An event is final when it ends before the stable point: then nothing about it can change. With
    --json the events are a stream file again, with every event inserted once; a snapshot is one
    object per payload.

    \b
    $ anabranch show bids.jsonl
    itemID  price  start  end  final
         1   80.0      5    7  yes
    """
    with opened(file) as [source]:
        if at is None:
            history = with_forms([source], lambda forms: (_history(source, forms[0]), forms[0]))
            _show_history(*history, limit, as_json=as_json)
        else:
            snapshot = with_forms([source], partial(_snapshot, source, at))
            _show_snapshot(*snapshot, limit, as_json=as_json)


def _instant(text: str, form: StreamForm) -> int:
    try:
        return form.clock.instant(text)
    except AnabranchError as problem:
        raise StreamError(problem.what, where="option --at", hint=problem.hint) from None


def _history(source: InputFile, form: StreamForm) -> History:
    from anabranch.model.history import History

    return History.of((piece.batch for piece in source.pieces(form)), form.schema)


def _snapshot(
    source: InputFile, at: str, forms: list[StreamForm]
) -> tuple[pa.RecordBatch, StreamForm, int]:
    from anabranch.model.history import snapshot_of

    [form] = forms
    instant = _instant(at, form)
    batches = (piece.batch for piece in source.pieces(form))
    return snapshot_of(batches, instant, form.schema), form, instant


def _show_history(history: History, form: StreamForm, limit: int, *, as_json: bool) -> None:
    if as_json:
        _write_history(history, limit, clock=form.clock)
    else:
        show_history(history, clock=form.clock, limit=limit)


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
