"""The third act of the demo: yesterday's price was wrong, and yesterday's answer changes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from anabranch.bench.demo.process import DemoProcess
from anabranch.bench.demo.quotes import (
    HOUR,
    Means,
    believed,
    corrected,
    hourly_means,
    write_correction,
    write_feed,
)
from anabranch.bench.demo.quotes_query import CHECKPOINT, CORRECTION, MEANS, QUOTES
from anabranch.errors import EngineError
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.model.time import Time, format_time
from anabranch.runtime.revisions.records import CorrectionFolder
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.folder import Folder

_MODULE: Final = "anabranch.bench.demo.quotes_query"


def run_correction(root: Path, console: Console) -> None:
    """Run a query over two days of quotes, correct the first day, compare before and after.

    Raises:
        EngineError: The answer is not that of an independent computation, before or after.
    """
    began = time.monotonic()
    folder = root / "correction"
    console.print(
        "[bold]Third act[/]: the past was wrong. A query has the mean price of shares, hour by\n"
        "hour. Today the exchange corrects two of yesterday's quotes.\n"
    )
    rows = write_feed(folder / QUOTES)
    write_correction(folder / CORRECTION)
    with (
        console.status("the query runs"),
        DemoProcess(_MODULE, [str(folder)], folder / "query.log") as process,
    ):
        process.await_end()
        first, second = process.messages
    console.print(
        f"[bold]1.[/] {rows:,} quotes were read. All hours until {_shown(first['stable'])}\n"
        "   are final: the stream has promised that nothing before will change.\n"
    )
    replayed = sum(
        step.replayed
        for each in CorrectionFolder(Folder.at(str(folder / CHECKPOINT / "revisions"))).read()
        for step in each.emissions
    )
    console.print(
        f"[bold]2.[/] {second['revised']:,} rows come a day late: a price whose decimal point had "
        f"slipped is\n   withdrawn and replaced, a missing quote is added. {replayed:,} of the "
        f"{rows:,} quotes\n   were read again; no other answer was touched.\n"
    )
    parts = list(LogFolder(str(folder / MEANS)).parts())
    before, after = hourly_means(believed()), hourly_means(corrected())
    changed = [key for key, mean in after.items() if before[key] != mean]
    console.print("[bold]3.[/] Both answers are compared with plain Python over all quotes.")
    stable = Time(second["stable"])
    known = [part for part in parts if isinstance(part, EventBatch)]
    compare_means(before, known, stable, "before the correction")
    moves = [part.changes if isinstance(part, Revision) else part for part in parts]
    hours = compare_means(after, moves, stable, "after the correction")
    revisions = [part for part in parts if isinstance(part, Revision)]
    console.print(
        f"   {hours:,} means before and {hours:,} after: all equal. {len(changed)} of them "
        f"changed, in revision{'s' if len(revisions) > 1 else ''} "
        f"{', '.join(str(each.number) for each in revisions)}\n   of the output. What was believed "
        "before can still be shown.\n"
    )
    table = Table(title="Yesterday's answer")
    for name in ("share", "hour until", "believed", "corrected"):
        table.add_column(name, justify="left" if name == "share" else "right")
    for symbol, at in changed:
        shown = [f"{means[symbol, at]:.4f}" for means in (before, after)]
        table.add_row(symbol, _shown(at), *shown)
    console.print(table)
    console.print()
    seconds = time.monotonic() - began
    console.print(f"[bold green]The corrected answer is right.[/] It took {seconds:.0f} seconds.")
    console.print(
        f"Look at the files: anabranch show {folder / MEANS}\n"
        "and, as it was believed before: the same with --known 0\n"
    )


def compare_means(right: Means, answer: Iterable[EventBatch], stable: Time, when: str) -> int:
    """Compare an answer with the right one at every full hour that is settled; how many means.

    Raises:
        EngineError: It is another.
    """
    got, compared = LogicalStream.of_batches(answer), 0
    hours = sorted({at for _, at in right if at < stable})
    for hour in hours:
        wanted = sorted((symbol, mean) for (symbol, at), mean in right.items() if at == hour)
        found = sorted(got.snapshot(hour))
        if found != wanted:
            raise EngineError(
                "the demo's answer is wrong",
                where=f"{when}, the hour until {_shown(hour)}: {found}, not {wanted}",
                hint="please report this with the text above",
            )
        compared += len(wanted)
    if not hours or hours[-1] < stable - 2 * HOUR:
        raise EngineError(
            "the demo's answer is incomplete",
            where=f"{when}: settled until {_shown(stable)}",
            hint="please report this with the text above",
        )
    return compared


def _shown(instant: int) -> str:
    return format_time(Time(instant), timestamps=True)[:16].replace("T", " ")
