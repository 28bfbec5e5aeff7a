"""`anabranch show`: what a stream says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.streams import Input, opened, with_forms
from anabranch.cli.tables import cells, show_table
from anabranch.errors import AnabranchError, StreamError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.history import History
    from anabranch.model.stream_file import StreamForm


def show(
    file: Annotated[str, typer.Argument(help="A stream file, or '-' for standard input.")],
    at: Annotated[
        str | None,
        typer.Option(help="Show what holds at this instant: a number or an ISO timestamp."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show so many rows at most (0: all).")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
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
    instant = None if at is None else _instant(at)
    with opened(file) as [source]:
        if instant is None:
            history = with_forms([source], lambda forms: (_history(source, forms[0]), forms[0]))
            _show_history(*history, limit, as_json=as_json)
        else:
            snapshot = with_forms([source], partial(_snapshot, source, instant))
            _show_snapshot(*snapshot, instant, limit, as_json=as_json)


def _instant(text: str) -> int:
    from anabranch.model.time import parse_time

    try:
        return parse_time(text)
    except AnabranchError as problem:
        raise StreamError(problem.what, where="option --at", hint=problem.hint) from None


def _history(source: Input, form: StreamForm) -> History:
    from anabranch.model.history import History

    return History.of((piece.batch for piece in source.pieces(form)), form.schema)


def _snapshot(
    source: Input, instant: int, forms: list[StreamForm]
) -> tuple[pa.RecordBatch, StreamForm]:
    from anabranch.model.history import snapshot_of

    [form] = forms
    batches = (piece.batch for piece in source.pieces(form))
    return snapshot_of(batches, instant, form.schema), form


def _show_history(history: History, form: StreamForm, limit: int, *, as_json: bool) -> None:
    from anabranch.model.time import BEGINNING, format_time

    if as_json:
        _write_history(history, limit, timestamps=form.timestamps)
        return
    shown = limit or len(history)

    def times(column: list[int]) -> list[str]:
        return [format_time(time, timestamps=form.timestamps) for time in column]

    names = [*form.schema.names, "start", "end", "final"]
    columns = [
        *cells(history.payload.slice(0, shown)),
        times(history.start[:shown].tolist()),
        times(history.end[:shown].tolist()),
        ["yes" if final else "" for final in history.is_final[:shown]],
    ]
    here = len(form.schema)
    show_table(names, columns, _numeric(form.schema) | {here, here + 1})
    promised = history.stable != BEGINNING
    stable = format_time(history.stable, timestamps=form.timestamps)
    progress = f"stable point {stable}" if promised else "no stable point"
    typer.echo(f"{_count(len(history), shown, 'event')}; {progress}", err=True)


def _write_history(history: History, limit: int, *, timestamps: bool) -> None:
    from anabranch.model.batch import EventBatch
    from anabranch.model.stream_file import write_stream

    shown = limit or len(history)
    start, end = history.start[:shown], history.end[:shown]
    batch = EventBatch(history.payload.slice(0, shown), start, start, end, history.stable)
    write_stream("-", [batch], timestamps)


def _show_snapshot(
    rows: pa.RecordBatch, form: StreamForm, instant: int, limit: int, *, as_json: bool
) -> None:
    from anabranch.model.json_encode import row_text
    from anabranch.model.time import format_time

    shown = rows.slice(0, limit or rows.num_rows)
    if as_json:
        for text in row_text(shown, shown.num_rows).to_pylist():
            typer.echo(text)
        return
    show_table(form.schema.names, cells(shown), _numeric(form.schema))
    when = format_time(instant, timestamps=form.timestamps)
    typer.echo(f"{_count(rows.num_rows, shown.num_rows, 'payload')} at {when}", err=True)


def _numeric(schema: pa.Schema) -> set[int]:
    import pyarrow as pa

    def is_number(kind: pa.DataType) -> bool:
        return bool(
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        )

    return {place for place, field in enumerate(schema) if is_number(field.type)}


def _count(total: int, shown: int, what: str) -> str:
    plural = what if total == 1 else f"{what}s"
    return f"{total:,} {plural}" if shown >= total else f"{shown:,} of {total:,} {plural}"
