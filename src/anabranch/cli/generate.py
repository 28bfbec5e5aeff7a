"""`anabranch generate`: the workloads of the papers, seeded."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli.flags import CheckedCommand
from anabranch.cli.generate_lmerge import lmerge
from anabranch.cli.help_text import help_of
from anabranch.cli.progress import Counted
from anabranch.errors import StreamError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.workloads.arrival import Disturbance
    from anabranch.workloads.nexmark import Nexmark

_STABLE_EVERY: Final = 1_000


class Form(str, Enum):
    """What is written."""

    jsonl = "jsonl"
    parquet = "parquet"
    elements = "elements"


generate: typer.Typer = typer.Typer(
    name="generate",
    help="Generate a workload; the same options produce the same bytes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@generate.callback()
def _workloads() -> None:
    """Generate a workload; the same options give the same bytes."""


def nexmark(
    to: Annotated[str, typer.Option(help="The file to write; '-' is standard output.")] = "-",
    events: Annotated[int, typer.Option(min=0, help="The number of bids.")] = 1_000,
    seed: Annotated[int, typer.Option(help="The seed of the random numbers.")] = 1,
    rate: Annotated[
        float, typer.Option(min=0.001, help="Bids per second of event time.")
    ] = 1_000.0,
    items: Annotated[
        int, typer.Option(min=0, help="The number of items (0: new auctions all the time).")
    ] = 0,
    disorder: Annotated[
        str, typer.Option(help="The largest delay between a bid and its arrival.")
    ] = "0 seconds",
    late: Annotated[
        float, typer.Option(min=0, max=1, help="The share of bids that arrive later than that.")
    ] = 0.0,
    corrections: Annotated[
        float,
        typer.Option(min=0, max=1, help="The share of bids that are withdrawn or get a new price."),
    ] = 0.0,
    stable_every: Annotated[
        int, typer.Option(min=1, help="The number of elements between two stable points.")
    ] = _STABLE_EVERY,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format",
            help="jsonl: elements as JSON lines. parquet: plain rows with the column bidTS. "
            "elements: Parquet of elements. By default the ending of the name decides.",
        ),
    ] = None,
    files: Annotated[
        int,
        typer.Option(
            min=1, help="The number of files over which plain rows are spread in a folder."
        ),
    ] = 1,
) -> None:
    r"""Generate bids of an online auction (NEXMark).

    Bids have an item, a bidder and a price; half of them go to few hot items. As elements they are
    points in time with stable points in between; without late bids the stream is legal.

    \b
    $ anabranch generate nexmark --disorder '5 s' --corrections 0.1 --to bids.jsonl
    $ anabranch generate nexmark --events 5000000 --items 1000 --files 8 --to bids/
    """
    from anabranch.model.clock import MICROSECONDS
    from anabranch.workloads.arrival import Disturbance
    from anabranch.workloads.nexmark import Nexmark

    config = Nexmark(bids=events, seed=seed, rate=rate, items=items)
    how = Disturbance(
        disorder=MICROSECONDS.duration(disorder),
        late=late,
        corrections=corrections,
        stable_every=stable_every,
    )
    chosen = form or (Form.parquet if files > 1 else _form_of(to))
    if to == "-" and chosen is not Form.jsonl:
        raise StreamError(
            f"{chosen.value} cannot be written to standard output",
            where="option --to -",
            hint="name a file with --to, or choose --format jsonl",
        )
    if stable_every != _STABLE_EVERY and chosen is Form.parquet:
        raise StreamError(
            "--stable-every has no meaning for plain rows",
            where="option --stable-every",
            hint="only elements have stable points: choose --format jsonl or elements, or leave "
            "it out",
        )
    if files > 1 and chosen is not Form.parquet:
        raise StreamError(
            "only plain rows are spread over files",
            where=f"option --files {files}",
            hint="choose --format parquet, or leave --files out",
        )
    written = (
        _write_rows(Path(to), config, how, files)
        if chosen is Form.parquet
        else _write_elements(to, config, how, as_parquet=chosen is Form.elements)
    )
    what = "rows" if chosen is Form.parquet else "elements"
    typer.echo(f"wrote {written:,} {what} of {events:,} bids to {to}", err=True)


generate.command(help=help_of(nexmark), cls=CheckedCommand)(nexmark)


def events(
    to: Annotated[
        Path, typer.Option(help="The folder to write to; each stream gets a folder in it.")
    ],
    count: Annotated[
        int, typer.Option("--events", min=0, help="The total number of persons, auctions and bids.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="The seed of the random numbers.")] = 1,
    rate: Annotated[
        float, typer.Option(min=0.001, help="Events per second of event time.")
    ] = 10_000.0,
    disorder: Annotated[
        str, typer.Option(help="The largest delay between an event and its arrival.")
    ] = "0 seconds",
    corrections: Annotated[
        float, typer.Option(min=0, max=1, help="The share of rows that are wrong at first.")
    ] = 0.0,
    files: Annotated[
        int, typer.Option(min=1, help="The approximate number of files per stream.")
    ] = 4,
) -> None:
    r"""Generate the events of the public Nexmark benchmark: persons, auctions and bids.

    Plain rows in Parquet, in the order of arrival, in the folders person, auction and bid, and
    side_input.csv beside them. With corrections the streams are elements: a wrong row is
    withdrawn and replaced within two seconds.

    \b
    $ anabranch generate events --to examples/nexmark/data
    $ anabranch generate events --disorder '2 s' --corrections 0.1 --to examples/nexmark/data
    """
    from anabranch.model.clock import MICROSECONDS
    from anabranch.model.time import SECOND, Duration
    from anabranch.workloads.disturbance import Disturbance
    from anabranch.workloads.nexmark_arrival import write_event_elements, write_event_rows
    from anabranch.workloads.nexmark_events import NexmarkEvents

    config = NexmarkEvents(events=count, seed=seed, rate=rate)
    how = Disturbance(
        disorder=MICROSECONDS.duration(disorder),
        corrections=corrections,
        correction_delay=Duration(2 * SECOND),
    )
    write = write_event_elements if corrections else write_event_rows
    try:
        write(to, config, how, files=files)
    except OSError as problem:
        raise StreamError(
            f"cannot write the events: {problem.strerror or problem}",
            where=str(to),
            hint="check that the folder may be written to",
        ) from None
    typer.echo(f"wrote {count:,} events to {to}", err=True)


for _command in (events, lmerge):
    generate.command(help=help_of(_command), cls=CheckedCommand)(_command)


def _form_of(to: str) -> Form:
    if to.endswith("/") or Path(to).is_dir() or Path(to).suffix == ".parquet":
        return Form.parquet
    return Form.jsonl


def _write_elements(to: str, config: Nexmark, how: Disturbance, *, as_parquet: bool) -> int:
    from anabranch.model.files.stream_file import write_stream
    from anabranch.workloads.arrival import bid_elements

    if as_parquet and not to.endswith(".parquet"):
        raise StreamError(
            "the name of a Parquet file of elements ends in .parquet",
            where=f"option --to {to}",
            hint="readers choose the format by the name of the file",
        )
    counted = Counted(config.bids)
    batches = counted(bid_elements(config, how), len)
    write_stream(to, batches, timestamps=True)
    return counted.total


def _write_rows(to: Path, config: Nexmark, how: Disturbance, files: int) -> int:
    from anabranch.workloads.arrival import write_bid_rows

    counted = Counted(config.bids)
    try:
        write_bid_rows(to, config, how, files=files, watch=lambda rows: counted(rows, _rows))
    except OSError as problem:
        raise StreamError(
            f"cannot write the rows: {problem.strerror or problem}",
            where=str(to),
            hint="check that the folder exists and may be written to",
        ) from None
    return counted.total


def _rows(part: pa.RecordBatch) -> int:
    return int(part.num_rows)
