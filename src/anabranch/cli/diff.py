"""`anabranch diff`: do two streams mean the same?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.streams import InputFile, opened, with_forms
from anabranch.errors import StreamError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.batch import EventBatch
    from anabranch.model.clock import Clock
    from anabranch.model.difference import SnapshotDifference
    from anabranch.model.files.stream_file import StreamForm


def diff(
    left: Annotated[
        str, typer.Argument(help="A file, a folder, a pattern, or '-' for standard input.")
    ],
    right: Annotated[str, typer.Argument(help="Another one.")],
    known: Annotated[
        int | None,
        typer.Option(
            min=0, help="Both as they were after the revision of this number (0: before any)."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="The largest number of payloads of a kind to show.")
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    r"""Compare the snapshots of two streams at every instant, after all revisions.

    The order of elements, the way lifetimes are cut, and stable points do not count; a column that
    a stream lacks is null. If the streams differ, the first instant is shown at which they do, with
    both snapshots: lines with '-' hold in the first stream only, lines with '+' in the second only.
    The exit code is 0 for equal streams, 1 for different ones, 2 where a file is not a stream.

    \b
    $ anabranch diff a.jsonl b.jsonl
    --- a.jsonl at 12: 2 payloads
    +++ b.jsonl at 12: 1 payload
    -{"itemID": 1, "price": 80.0}
     {"itemID": 2, "price": 15.0}
    """
    with opened(left, right) as [one, other]:
        compare = partial(_compare, one, other, known)
        instant, found, clock, since = with_forms([one, other], compare)

    if found is None:
        if as_json:
            typer.echo(json.dumps({"equal": True}))
        begins = f" from {clock.format(since)} on" if since is not None else ""
        typer.echo(f"equal: the same snapshot at every instant{begins}", err=True)
        return
    when = clock.format(instant)
    if as_json:
        shown_time = when if clock.timestamps else instant
        typer.echo(json.dumps(_as_json(shown_time, found), ensure_ascii=False))
    else:
        typer.echo(_as_text(left, right, when, found, limit), nl=False)
    typer.echo(f"different from instant {when} on", err=True)
    raise typer.Exit(1)


def _compare(
    one: InputFile, other: InputFile, known: int | None, forms: list[StreamForm]
) -> tuple[int, SnapshotDifference | None, Clock, int | None]:
    """The first instant at which the streams differ, how, by which clock, and since when."""
    from anabranch.model.clock import INTEGERS, MICROSECONDS
    from anabranch.model.coarser import in_microseconds
    from anabranch.model.difference import compare_snapshots, conformed, first_difference
    from anabranch.model.history import snapshot_of
    from anabranch.model.revision import clipped_changes
    from anabranch.model.time import BEGINNING, FOREVER, Time

    forms = _with_types_of_tables([one, other], forms)
    schema = _common_schema(*forms)
    clock = forms[0].clock if forms[0].clock == forms[1].clock else INTEGERS
    if all(form.timestamps for form in forms):
        clock = MICROSECONDS

    # A stream that begins in the middle is compared from there on.
    since = Time(max(_instant_of(form.since, form.clock, clock) for form in forms))

    begins = None if since == BEGINNING else since

    def batches(source: InputFile, form: StreamForm) -> Iterator[EventBatch]:
        for moves in source.moves(form, known):
            batch = in_microseconds(moves, form.clock) if clock.timestamps else moves
            if since > BEGINNING:
                batch = clipped_changes(batch, since, FOREVER)
            yield conformed(batch, schema)

    instant = first_difference(batches(one, forms[0]), batches(other, forms[1]))
    if instant is None:
        return 0, None, clock, begins
    snapshots = [
        snapshot_of(batches(path, form), instant, schema) for path, form in zip((one, other), forms)
    ]
    return instant, compare_snapshots(*snapshots), clock, begins


def _instant_of(time: int, clock: Clock, by: Clock) -> int:
    """An instant by another clock."""
    import numpy as np

    if not by.timestamps:
        return time
    return int(clock.microseconds(np.array([time], np.int64))[0])


def _with_types_of_tables(inputs: list[InputFile], forms: list[StreamForm]) -> list[StreamForm]:
    """The forms, with columns of JSON read as the other stream has them where that knows better.

    JSON has no timestamps, dates and decimals: a log folder and a stream file of one query have
    the same rows, and other types.
    """
    import pyarrow as pa

    found = []
    for source, form, other in zip(inputs, forms, reversed(forms), strict=True):
        if source.path.suffix == ".parquet":
            found.append(form)
            continue
        known = {each.name: each.type for each in other.schema}
        texts = [each for each in form.schema if pa.types.is_string(each.type)]
        typed = {each.name: known[each.name] for each in texts if _is_time(known.get(each.name))}
        fields = [each.with_type(typed.get(each.name, each.type)) for each in form.schema]
        found.append(replace(form, schema=pa.schema(fields)))
    return found


def _is_time(kind: pa.DataType | None) -> bool:
    import pyarrow as pa

    return kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _common_schema(one: StreamForm, other: StreamForm) -> pa.Schema:
    from anabranch.model.files.infer_schema import unify

    schema = unify(one.schema, other.schema)
    if schema is None:
        for field in one.schema:
            index = other.schema.get_field_index(field.name)
            theirs = other.schema.field(index).type if index >= 0 else field.type
            if unify(_only(field.name, field.type), _only(field.name, theirs)) is None:
                raise StreamError(
                    f"column '{field.name}' has two incompatible types",
                    where=f"{field.type} in the first stream, {theirs} in the second",
                    hint="streams are compared column by column, by name",
                )
    return schema


def _only(name: str, kind: pa.DataType) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, kind)])


def _as_text(left: str, right: str, when: str, found: SnapshotDifference, limit: int) -> str:
    from anabranch.model.files.json_encode import row_text

    both = found.both.num_rows
    sizes = [both + part.num_rows for part in (found.only_left, found.only_right)]
    lines = [
        f"{mark} {name} at {when}: {size:,} payload{'' if size == 1 else 's'}"
        for mark, name, size in (("---", left, sizes[0]), ("+++", right, sizes[1]))
    ]
    for mark, rows in (("-", found.only_left), ("+", found.only_right), (" ", found.both)):
        shown = rows.slice(0, limit)
        lines += [mark + text for text in row_text(shown, shown.num_rows).to_pylist()]
        if rows.num_rows > limit:
            lines.append(f"{mark}... and {rows.num_rows - limit:,} more")
    return "\n".join(lines) + "\n"


def _as_json(instant: int | str, found: SnapshotDifference) -> dict[str, Any]:
    from anabranch.model.files.json_encode import row_text

    def objects(rows: pa.RecordBatch) -> list[Any]:
        return [json.loads(text) for text in row_text(rows, rows.num_rows).to_pylist()]

    return {
        "equal": False,
        "instant": instant,
        "only_left": objects(found.only_left),
        "only_right": objects(found.only_right),
        "both": objects(found.both),
    }
