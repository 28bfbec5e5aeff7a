"""`anabranch run`: a script, from its text to its results."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anabranch.cli.running import announced, wait_for
from anabranch.cli.scripts import last_query
from anabranch.errors import PlanError


def run(
    file: Annotated[str, typer.Argument(help="A script with SQL, or '-' for standard input.")],
    to: Annotated[
        str,
        typer.Option(
            help="A .jsonl file, a folder for a log, delta:PATH, postgresql://..., or '-' for "
            "standard output."
        ),
    ] = "-",
    engine: Annotated[str, typer.Option(help="'spark', or 'local' for this process.")] = "spark",
    emit: Annotated[
        str,
        typer.Option(help="'speculative' (corrected later) or 'final' (only what stays)."),
    ] = "speculative",
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The folder the query lives in; beside the output if not said."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on when all files are read, and wait for more.")
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="With --follow: the time between two batches.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics for Prometheus at this port; 0 for any.")
    ] = None,
    allow_unbounded: Annotated[
        bool, typer.Option("--allow-unbounded", help="Accept a query whose state grows for ever.")
    ] = False,
) -> None:
    r"""Run a script; the last SELECT is the query.

    The results are elements: JSON lines with inserts, adjusts and stable points. Without --follow
    the run ends when everything that is there has been read. Started again with the same output, it
    goes on from where it was.

    \b
    $ anabranch run highest.sql --to highest.jsonl
    """
    if engine not in ("spark", "local"):
        raise PlanError(
            f"there is no engine '{engine}'", where="option --engine", hint="use spark or local"
        )
    if emit not in ("speculative", "final"):
        raise PlanError(
            f"results are not emitted '{emit}'",
            where="option --emit",
            hint="use speculative or final",
        )
    from anabranch.algebra.window_columns import has_clock
    from anabranch.engine import Engine
    from anabranch.runtime.sink_choice import shown_place

    with Engine() as own:
        query = last_query(own, file)
        options: dict[str, Any] = {"emit": emit, "allow_unbounded": allow_unbounded}
        if engine == "local":
            if follow or checkpoint is not None:
                raise PlanError(
                    "the local engine reads what is there, once",
                    where="option --follow or --checkpoint",
                    hint="leave the option out, or use --engine spark",
                )
            _report(query.run_local(to, **options).metrics())
        else:
            options |= {"checkpoint": checkpoint, "trigger": trigger}
            if metrics_port is not None:
                port = own.serve_metrics(metrics_port)
                typer.echo(f"metrics: http://127.0.0.1:{port}/metrics", err=True)
            started = query.start(to, available_now=not follow, **options)
            clock = has_clock(query.node)
            shown = shown_place(to)
            with announced(started, script=file, to=shown, timestamps=clock) as announcement:
                code = wait_for(started, announcement)
            _report(started.metrics())
            if code:
                raise typer.Exit(code)


def _report(metrics: list[dict[str, Any]]) -> None:
    """What was read and written, in one line on standard error."""
    read = sum(batch.get("rows_in", 0) for batch in metrics)
    written = sum(batch.get("rows_out", 0) for batch in metrics)
    late = sum(batch.get("late", 0) for batch in metrics)
    behind = f", {late} late" if late else ""
    typer.echo(
        f"{len(metrics)} batch{'' if len(metrics) == 1 else 'es'}: {read} rows read, "
        f"{written} elements written{behind}",
        err=True,
    )
