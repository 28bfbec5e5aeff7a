"""`anabranch state`: what does a query remember?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.tables import show_table
from anabranch.model.record import plain

if TYPE_CHECKING:
    from anabranch.runtime.query.checkpoint import Facts
    from anabranch.runtime.query.state_view import ShardState


def state(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="The folder of a checkpoint, or the output beside it."
        ),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Read all files and compare checksums.")
    ] = False,
    quarantine: Annotated[
        bool,
        typer.Option("--quarantine", help="Show instead the windows for which modules failed."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per shard of a stage, or per window.")
    ] = False,
) -> None:
    r"""Show the state of a query, shard by shard.

    The query may be running: the last stored state is shown.

    \b
    $ anabranch state out.jsonl
    stage        shard  batch  stable  runs  rows   bytes  oldest  operators
    0-aggregate      0     12      80     3   240  18,432      21  Aggregate item: MAX(price)
    """
    from anabranch.runtime.query.state_view import rewritten_since_read, view_state

    if quarantine:
        _show_quarantine(checkpoint, as_json=as_json)
        return
    facts, shards = view_state(checkpoint, check=check)
    if as_json:
        for shard in shards:
            typer.echo(json.dumps(asdict(shard), ensure_ascii=False))
        return
    _show(facts, shards)
    rows, size = sum(each.rows for each in shards), sum(each.bytes for each in shards)
    checked = ", all checksums are right" if check else ""
    typer.echo(
        f"query {facts.query}, {facts.shards} shards: {rows:,} rows, {size:,} bytes{checked}",
        err=True,
    )
    for name, files in rewritten_since_read(checkpoint).items():
        many = "1 file" if len(files) == 1 else f"{len(files):,} files"
        shown = ", ".join(files[:3]) + (", ..." if len(files) > 3 else "")
        typer.echo(f"source {name}: {many} written again after being read: {shown}", err=True)


def _show_quarantine(checkpoint: str, *, as_json: bool) -> None:
    from anabranch.runtime.query.quarantine import Quarantine
    from anabranch.runtime.query.state_view import find_checkpoint

    windows = Quarantine(find_checkpoint(checkpoint)[0]).read()
    if as_json:
        for window in windows:
            typer.echo(json.dumps(plain(window), ensure_ascii=False))
        return
    columns = {
        "batch": [str(each.batch) for each in windows],
        "module": [each.module for each in windows],
        "window": ["[{}, {})".format(*each.window) for each in windows],
        "group": [each.group or "" for each in windows],
        "events": [f"{each.count or 0:,}" for each in windows],
        "reason": [each.reason for each in windows],
    }
    if windows:
        show_table(list(columns), list(columns.values()), {0, 4})
    many = "1 window" if len(windows) == 1 else f"{len(windows):,} windows"
    typer.echo(f"{many} in quarantine", err=True)


def _show(facts: Facts, shards: list[ShardState]) -> None:
    from anabranch.model.time import BEGINNING, FOREVER

    def time(value: int | None) -> str:
        if value is None or value == BEGINNING:
            return ""
        return "forever" if value == FOREVER else facts.clock.format(value)

    columns = {
        "stage": [each.stage for each in shards],
        "shard": [str(each.shard) for each in shards],
        "batch": [str(each.batch) for each in shards],
        "stable": [time(each.stable) for each in shards],
        "runs": [f"{each.runs:,}" for each in shards],
        "rows": [f"{each.rows:,}" for each in shards],
        "bytes": [f"{each.bytes:,}" for each in shards],
        "oldest": [time(each.oldest) for each in shards],
        "operators": ["; ".join(each.operators) for each in shards],
    }
    show_table(list(columns), list(columns.values()), {1, 2, 3, 4, 5, 6, 7})
