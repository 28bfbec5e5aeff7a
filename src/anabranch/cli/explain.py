"""`anabranch explain`: what becomes of a query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from anabranch.cli.scripts import Modules, PlanOption, all_queries, last_query, register_operators
from anabranch.errors import QueryError


def explain(
    file: Annotated[str, typer.Argument(help="A script with SQL, or '-' for standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show the stages in which all queries run together.")
    ] = False,
    emit: Annotated[
        str, typer.Option(help="As for 'anabranch run': the plan depends on what is emitted.")
    ] = "speculative",
    plan: PlanOption = "optimized",
    modules: Modules = None,
    feedback: Annotated[
        bool,
        typer.Option(
            "--feedback", help="Also show which rows feedback of a merge spares, and why not."
        ),
    ] = False,
    running: Annotated[
        bool,
        typer.Option(
            "--running",
            help="FILE is the checkpoint of a query, or its output: show its plan as measured.",
        ),
    ] = False,
) -> None:
    r"""Explain the last query of a script: its plan, the rules applied, the stages it runs in.

    \b
    $ anabranch explain highest.sql
    $ anabranch explain --running highest/
    """
    if running:
        _explain_running(
            file,
            as_json=as_json,
            others={"--all": every, "--modules": modules, "--feedback": feedback},
        )
        return
    from anabranch.engine import Engine
    from anabranch.runtime.query.options import check_flags

    check_flags({"--emit": emit, "--plan": plan})
    options: dict[str, Any] = {"emit": emit, "plan": plan}
    with Engine() as engine:
        register_operators(engine, modules)
        if feedback and (every or as_json):
            raise QueryError(
                "--feedback is for the text of one query",
                where=f"anabranch explain {file}",
                hint="leave out --all and --json",
            )
        if every:
            typer.echo(engine.explain_all(all_queries(engine, file), **options))
            return
        query = last_query(engine, file, emit)
        if as_json:
            typer.echo(json.dumps(query.explain_json(**options), indent=2))
        else:
            typer.echo(query.explain(**options))
            if feedback:
                from anabranch.algebra.analysis.feedback_reach import describe_feedback

                typer.echo(f"\n{describe_feedback(query.canonical().node)}")


def _explain_running(checkpoint: str, *, as_json: bool, others: Mapping[str, object]) -> None:
    """The plan of a query that runs, or has run, with expected and measured figures."""
    from anabranch.model.record import plain
    from anabranch.runtime.measure.running_plan import explain_running, running_plans
    from anabranch.runtime.query.state_view import find_checkpoint

    odd = [flag for flag, given in others.items() if given]
    if odd:
        raise QueryError(
            f"{odd[0]} has no meaning with --running",
            where=f"anabranch explain --running {checkpoint}",
            hint=f"leave {odd[0]} out: the plan is that of the checkpoint",
        )
    path, _ = find_checkpoint(checkpoint)
    if as_json:
        typer.echo(json.dumps(plain(running_plans(path)), indent=2))
    else:
        typer.echo(explain_running(path))
