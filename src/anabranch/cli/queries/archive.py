"""`anabranch archive`: what is kept of the input of a query?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.tables import show_table
from anabranch.errors import AnabranchError, StreamError

if TYPE_CHECKING:
    from anabranch.model.clock import Clock
    from anabranch.runtime.archive.archive import Archive


def archive(
    path: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT|PATH",
            help="The checkpoint of a query or its output, the folder of an archive, or with "
            "--before a log folder.",
        ),
    ],
    cut: Annotated[
        bool, typer.Option("--cut", help="Drop what KEEP no longer wants, then show the rest.")
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(
            help="With --cut, of a log folder: drop what was settled at this instant, a number or "
            "an ISO timestamp."
        ),
    ] = None,
    buckets: Annotated[
        bool, typer.Option("--buckets", help="Show every bucket, in order of arrival.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per archive, or per bucket.")
    ] = False,
) -> None:
    r"""Show the archives of a query: buckets, times, sizes.

    The query may be running. An archive by reference has no rows of its own: it says where in the
    files of the source they are.

    With --cut --before a log folder loses what was settled at an instant: the results of a query
    need not be kept for ever. What still holds then stays, and new readers begin there.

    \b
    $ anabranch archive archive/quotes
    source  kind    batches  buckets  rows  from  until  oldest   bytes  index bytes
    Quote   copied       12       24   240    21     81      21  18,432        3,102
    """
    if before is not None:
        _cut_log(path, before)
        return
    from anabranch.model.time import FOREVER
    from anabranch.runtime.archive.finding import archives_at
    from anabranch.runtime.revisions.archived_sources import readable

    found = readable(archives_at(path), path)
    for each in found if cut else ():
        old = each.stats()
        each.cut(FOREVER if old.promised == FOREVER else old.promised)
        new = each.stats()
        typer.echo(
            f"{new.source}: dropped {old.pieces - new.pieces:,} buckets with "
            f"{old.rows - new.rows:,} rows",
            err=True,
        )
    for name, each in zip(_names(found), found):
        if buckets:
            _show_buckets(each, name if len(found) > 1 else "", as_json=as_json)
    if not buckets:
        _show(found, as_json=as_json)


def _cut_log(path: str, before: str) -> None:
    """`--cut --before`: remove the beginning of a log folder."""
    from anabranch.runtime.sources.files.log_cut import cut_log
    from anabranch.runtime.sources.files.log_folder import LogFolder

    about = LogFolder(path).record()
    if about is None:
        raise StreamError(
            "not a log folder",
            where=path,
            hint="--before cuts the log folder that a query writes; an archive keeps what KEEP "
            "says: leave --before out",
        )
    try:
        instant = about.clock.instant(before)
    except AnabranchError as problem:
        raise StreamError(problem.what, where="option --before", hint=problem.hint) from None
    files = len(LogFolder(path).files())
    since = cut_log(path, int(instant))
    if since is None:
        typer.echo(f"{path}: nothing to drop: no earlier entry was settled then", err=True)
        return
    left = len(LogFolder(path).files())
    typer.echo(
        f"{path}: complete from {about.clock.format(since)} on, {files} files before, {left} now",
        err=True,
    )


def _names(archives: list[Archive]) -> list[str]:
    return [each.about().source for each in archives]


def _show(archives: list[Archive], *, as_json: bool) -> None:
    every = [(each.stats(), each.about().clock) for each in archives]
    if as_json:
        for stats, clock in every:
            times = {
                name: _time_json(getattr(stats, name), clock)
                for name in ("first", "last", "oldest", "promised")
            }
            typer.echo(json.dumps(asdict(stats) | times, ensure_ascii=False))
        return
    columns = {
        "source": [each.source for each, _ in every],
        "kind": ["copied" if each.copied else "reference" for each, _ in every],
        "batches": [f"{each.batches:,}" for each, _ in every],
        "buckets": [f"{each.pieces:,}" for each, _ in every],
        "rows": [f"{each.rows:,}" for each, _ in every],
        "from": [_time(each.first, clock) if each.rows else "" for each, clock in every],
        "until": [_time(each.last, clock) if each.rows else "" for each, clock in every],
        "oldest": [_time(each.oldest, clock) for each, clock in every],
        "corrections": [f"{each.corrections:,}" for each, _ in every],
        "bytes": [f"{each.bytes:,}" for each, _ in every],
        "index bytes": [f"{each.index_bytes:,}" for each, _ in every],
    }
    show_table(list(columns), list(columns.values()), set(range(2, 11)))


def _show_buckets(archive: Archive, source: str, *, as_json: bool) -> None:
    clock = archive.about().clock
    pieces = archive.pieces()
    if as_json:
        for batch, piece in pieces:
            shown: dict[str, Any] = {
                "source": archive.about().source,
                "batch": batch,
                "file": piece.split.path,
                "first": _time_json(piece.first, clock),
                "last": _time_json(piece.last, clock),
                "rows": piece.rows,
                "bytes": archive.size(piece),
            }
            typer.echo(json.dumps(shown, ensure_ascii=False))
        return
    if source:
        typer.echo(f"{source}:")
    columns = {
        "batch": [str(batch) for batch, _ in pieces],
        "rows": [f"{piece.rows:,}" for _, piece in pieces],
        "from": [_time(piece.first, clock) for _, piece in pieces],
        "until": [_time(piece.last, clock) for _, piece in pieces],
        "bytes": [
            "" if (size := archive.size(each)) is None else f"{size:,}" for _, each in pieces
        ],
        "file": [piece.split.path for _, piece in pieces],
    }
    show_table(list(columns), list(columns.values()), {0, 1, 2, 3, 4})


def _time(time: int, clock: Clock) -> str:
    from anabranch.model.time import BEGINNING

    return "" if time == BEGINNING else clock.format(time)


def _time_json(time: int, clock: Clock) -> int | str | None:
    from anabranch.model.time import BEGINNING, FOREVER

    if time in (BEGINNING, FOREVER):
        return None if time == BEGINNING else "forever"
    return clock.format(time) if clock.timestamps else int(time)
