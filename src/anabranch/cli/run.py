"""`anabranch run`: a script, from its text to its results."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer

from anabranch.cli.queries.running import announced, wait_for
from anabranch.cli.scripts import (
    Modules,
    PlanOption,
    ReoptimizeOption,
    all_queries,
    last_query,
    register_operators,
    tell_notes,
)
from anabranch.display.progress_line import rewritten_text
from anabranch.errors import PlanError
from anabranch.runtime.workers.without_pandas import spare_pandas


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
        typer.Option(
            help="'speculative' (corrected later), 'final' (only final results), or 'watermark' "
            "(windows of the time axis that have ended)."
        ),
    ] = "speculative",
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The folder for the checkpoint; by default beside the output."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Keep running when all files are read, and wait for more."),
    ] = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Run all queries of the script together and write them to a folder."
        ),
    ] = False,
    changed: Annotated[
        bool,
        typer.Option(
            "--changed", help="With --all: queries were added or removed; the others resume."
        ),
    ] = False,
    canonical: Annotated[
        bool,
        typer.Option(
            "--canonical", help="Write a form that can be merged with other copies of the query."
        ),
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="With --follow: the time between two batches.")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="The number of shards of the state, from this start on."),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics for Prometheus at this port; 0 for any.")
    ] = None,
    allow_unbounded: Annotated[
        bool,
        typer.Option("--allow-unbounded", help="Accept a query whose state grows without bound."),
    ] = False,
    plan: PlanOption = "optimized",
    reoptimize: ReoptimizeOption = "off",
    revisions: Annotated[
        str,
        typer.Option(
            help="What late rows of sources with LATE REVISE lead to: 'emit' (corrected results), "
            "'archive' (only the archive is corrected), or 'ignore' (they are counted)."
        ),
    ] = "emit",
    replay: Annotated[
        str,
        typer.Option(
            help="What is read again to correct final results: 'RA' (everything), 'RM' (what "
            "their lineage names), 'RW' (what the windows of the plan reach), or 'auto'."
        ),
    ] = "auto",
    estimate: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Estimate corrections whose input the archive no longer has, with bounds, from "
            "counts and sums per bucket of this duration; `anabranch revisions` lists them.",
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Only the answers from this instant on, from what they need of the input.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only the answers before this instant.")
    ] = None,
    modules: Modules = None,
) -> None:
    r"""Run a script; the last SELECT is the query.

    The results are elements: JSON lines with inserts, adjusts and stable points. Without --follow
    the run ends when the present input has been read. Started again with the same output, the
    query resumes, and with it those that have joined it by `anabranch add` and have not left.

    With --all every SELECT of the script is run, and what they have in common once; each writes a
    log folder in the folder that --to names, `query_1` and so on.

    With --from and --until the answers of a stretch of time are computed, again or for the first
    time: a backfill. Only the input that they need is read, from the archive or from the files.

    \b
    $ anabranch run highest.sql --to highest.jsonl
    $ anabranch run report.sql --all --to report
    """
    if engine not in ("spark", "local"):
        raise PlanError(
            f"there is no engine '{engine}'", where="option --engine", hint="use spark or local"
        )
    if engine == "local":
        spare_pandas()
    is_backfill = first is not None or until is not None
    from anabranch.algebra.node import clock_of
    from anabranch.engine import Engine
    from anabranch.rejoining import is_regrouped
    from anabranch.runtime.query.options import check_flags
    from anabranch.runtime.sinks.choice import choose_sink, shown_target
    from anabranch.runtime.sources.location import folder_for_all

    flags: dict[str, Any] = {"--to": to, "--emit": emit, "--checkpoint": checkpoint}
    flags |= {"--trigger": trigger, "--shards": shards, "--metrics-port": metrics_port}
    flags |= {"--plan": plan, "--revisions": revisions, "--replay": replay}
    flags |= {"--estimate": estimate, "--reoptimize": reoptimize}
    check_flags(flags)
    # A target that cannot be written to is refused before anything starts.
    if every:
        folder_for_all(to)
    else:
        choose_sink(to, None)
    if shards is not None or reoptimize == "auto":
        _tell_what_happens()
    with Engine(shards=shards, reoptimize=reoptimize) as own:  # type: ignore[arg-type]
        register_operators(own, modules)
        options: dict[str, Any] = {"emit": emit, "plan": plan}
        # The input of a backfill ends, and so does what it has to remember.
        options["allow_unbounded"] = allow_unbounded or is_backfill
        options |= {"revisions": revisions, "replay": replay}
        if engine == "local":
            query = last_query(own, file, emit)
            query = query.canonical() if canonical else query
            query = query.between(first, until) if is_backfill else query
            _report(query.run_local(to, **options).metrics())
            return
        options |= {"checkpoint": checkpoint, "trigger": trigger, "available_now": not follow}
        if every:
            queries = all_queries(own, file)
            for query in queries:
                tell_notes(query, emit)
        else:
            queries = [last_query(own, file, emit)]
        if canonical:
            queries = [query.canonical() for query in queries]
        if is_backfill:
            queries = [query.between(first, until) for query in queries]
        if metrics_port is not None:
            port = own.serve_metrics(metrics_port)
            typer.echo(f"metrics: http://127.0.0.1:{port}/metrics", err=True)
        if every:
            runs = own.start_all(queries, to, changed=changed, rejoin=not changed, **options)
        elif estimate is None and is_regrouped(checkpoint or choose_sink(to, None)[1]):
            # The only query of the script is, or was, one of several.
            runs = own.start_all(queries, [to or "memory"], rejoin=True, **options)
        else:
            runs = [queries[0].start(to, estimate=estimate, **options)]
        clock = clock_of(queries[0].node)
        shown = shown_target(to)
        with announced(runs[0], script=file, to=shown, clock=clock) as announcement:
            code = wait_for(runs[0], announcement)
        for each in runs:
            _report(each.metrics(), f"{each.name}: " if every else "")
        if code:
            raise typer.Exit(code)


def _tell_what_happens() -> None:
    """What takes long at the start, and that a plan changes, is told on standard error."""
    log = logging.getLogger("anabranch")
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)


def _report(metrics: list[dict[str, Any]], name: str = "") -> None:
    """What was read and written, in one line on standard error."""
    read = sum(batch.get("rows_in", 0) for batch in metrics)
    written = sum(batch.get("rows_out", 0) for batch in metrics)
    late = sum(batch.get("late", 0) for batch in metrics)
    behind = f", {late} late" if late else ""
    revised = sum(batch.get("revised", 0) for batch in metrics)
    behind += f", {revised} late and revised" if revised else ""
    failed = sum(batch.get("failed_windows", 0) for batch in metrics)
    behind += f", {failed} windows without results" if failed else ""
    again = sum(batch.get("rewritten", 0) for batch in metrics)
    behind += f", {rewritten_text(again)}" if again else ""
    typer.echo(
        f"{name}{len(metrics)} batch{'' if len(metrics) == 1 else 'es'}: {read} rows read, "
        f"{written} elements written{behind}",
        err=True,
    )
