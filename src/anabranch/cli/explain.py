"""`anabranch explain`: what becomes of a query."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from anabranch.cli.scripts import Modules, PlanOption, all_queries, last_query, register_operators


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
) -> None:
    r"""Explain the last query of a script: its plan, the rules applied, the stages it runs in.

    \b
    $ anabranch explain highest.sql
    """
    from anabranch.engine import Engine
    from anabranch.runtime.query.options import check_flags

    check_flags({"--emit": emit, "--plan": plan})
    options: dict[str, Any] = {"emit": emit, "plan": plan}
    with Engine() as engine:
        register_operators(engine, modules)
        if every:
            typer.echo(engine.explain_all(all_queries(engine, file), **options))
            return
        query = last_query(engine, file, emit)
        if as_json:
            typer.echo(json.dumps(query.explain_json(**options), indent=2))
        else:
            typer.echo(query.explain(**options))
