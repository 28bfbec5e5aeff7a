"""`anabranch generate lmerge`: copies of one stream that differ physically."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.progress import Counted
from anabranch.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.model.batch import EventBatch


class CopyForm(str, Enum):
    """What is written."""

    jsonl = "jsonl"
    elements = "elements"


class CaseName(str, Enum):
    """What all copies have in common."""

    r0 = "r0"
    r1 = "r1"
    r2 = "r2"
    r3 = "r3"
    r4 = "r4"


def lmerge(
    to: Annotated[
        str,
        typer.Option(help="A file, or a folder for several copies; '-' is standard output."),
    ] = "-",
    copies: Annotated[int, typer.Option(min=1, help="The number of copies.")] = 1,
    events: Annotated[int, typer.Option(min=0, help="The number of events in the stream.")] = 1_000,
    seed: Annotated[int, typer.Option(help="The seed of the random numbers.")] = 1,
    case: Annotated[
        CaseName,
        typer.Option(
            help="What copies have in common. r0, r1, r2: inserts in order, without ties, with "
            "ties in one order, with ties in any. r3: no two events of one payload and start. "
            "r4: anything."
        ),
    ] = CaseName.r3,
    text: Annotated[int, typer.Option(min=0, help="The bytes of text in an event.")] = 1_000,
    live: Annotated[
        int, typer.Option(min=0, help="The approximate number of events that hold at one instant.")
    ] = 10_000,
    gap: Annotated[
        str, typer.Option(help="The largest time between the starts of two successive events.")
    ] = "20 seconds",
    disorder: Annotated[
        float, typer.Option(min=0, max=1, help="The share of events that are late in a copy.")
    ] = 0.2,
    back: Annotated[str, typer.Option(help="The largest delay of a late event.")] = "10 minutes",
    adjusts: Annotated[
        float, typer.Option(min=0, max=0.9, help="The share of adjusts among inserts and adjusts.")
    ] = 0.0,
    revisions: Annotated[
        int, typer.Option(min=1, help="The least number of adjusts of an event that is adjusted.")
    ] = 1,
    stable_share: Annotated[
        float,
        typer.Option("--stables", min=0, max=1, help="The share of stable points among elements."),
    ] = 0.01,
    form: Annotated[
        CopyForm | None,
        typer.Option(
            "--format",
            help="jsonl: JSON lines. elements: Parquet of elements. By default the ending of the "
            "name decides.",
        ),
    ] = None,
) -> None:
    r"""Generate copies of one stream that differ physically, for logical merge.

    An event has a value from 0 to 400 and a long text. All copies have the same events in the
    end; each has its own order, provisional ends and stable points.

    \b
    $ anabranch generate lmerge --text 8 --adjusts 0.3 --to one.jsonl
    $ anabranch generate lmerge --copies 3 --events 200000 --format elements --to copies/
    """
    from anabranch.model.clock import MICROSECONDS
    from anabranch.workloads.lmerge import LMerge, copy_batches

    config = LMerge(
        events=events,
        seed=seed,
        case=case.value,
        text=text,
        live=live,
        gap=MICROSECONDS.duration(gap),
        disorder=disorder,
        back=MICROSECONDS.duration(back),
        adjusts=adjusts,
        revisions=revisions,
        stable_share=stable_share,
    )
    counted = Counted(int(copies * events * (1 + config.per_insert)))
    for copy, path in enumerate(_paths(to, copies, form)):
        _write(path, counted(copy_batches(config, copy), len))
    many = "1 copy" if copies == 1 else f"{copies} copies"
    typer.echo(f"wrote {counted.total:,} elements of {events:,} events, {many}, to {to}", err=True)


def _paths(to: str, copies: int, form: CopyForm | None) -> list[str]:
    """Where each copy goes."""
    folder = to.endswith("/") or Path(to).is_dir()
    named = CopyForm.elements if to.endswith(".parquet") else CopyForm.jsonl
    chosen = form or named
    if to == "-" and (copies > 1 or chosen is CopyForm.elements):
        raise StreamError(
            "standard output takes one copy as JSON lines",
            where="option --to -",
            hint="name a folder with --to",
        )
    if folder:
        ending = "parquet" if chosen is CopyForm.elements else "jsonl"
        Path(to).mkdir(parents=True, exist_ok=True)
        return [str(Path(to) / f"copy-{number}.{ending}") for number in range(1, copies + 1)]
    if copies > 1:
        raise StreamError(
            f"{copies} copies cannot be written to one file",
            where=f"option --to {to}",
            hint=f"name a folder: --to {Path(to).stem}/",
        )
    if to != "-" and chosen is not named:
        raise StreamError(
            f"the name does not end like {chosen.value}",
            where=f"option --to {to}",
            hint="Parquet of elements ends in .parquet, JSON lines in .jsonl",
        )
    return [to]


def _write(path: str, batches: Iterator[EventBatch]) -> None:
    from anabranch.model.files.stream_file import write_stream

    try:
        write_stream(path, batches, timestamps=True)
    except OSError as problem:
        raise StreamError(
            f"cannot write the copy: {problem.strerror or problem}",
            where=path,
            hint="check that the folder exists and may be written to",
        ) from None
