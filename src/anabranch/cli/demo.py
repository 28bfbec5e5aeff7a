"""`anabranch demo`: the main job, from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[
        str | None,
        typer.Option(help="The folder for bids, state and answers; by default a new one."),
    ] = None,
) -> None:
    r"""See it work: the highest bid per item, over a stream that is late and corrected.

    Generates auction bids out of order, late and corrected, runs a windowed query over them on
    Spark, kills it half way, starts it again, and compares every snapshot with an independent
    computation. Then the query runs as replicas: one is killed, one goes wrong, one joins, and the
    merged answer is compared as well. In the end a price of yesterday is corrected, and the final
    answer of yesterday changes. Takes about two minutes.

    \b
    $ anabranch demo
    """
    # Spark takes seconds to load; nobody who asks for help should wait for it.
    from anabranch.bench.demo.demo import run_demo

    run_demo(None if folder is None else Path(folder))
