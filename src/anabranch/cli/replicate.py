"""`anabranch replicate`: copies of a query in processes of their own, merged."""

from __future__ import annotations

import json
import signal
from typing import Annotated

import typer

from anabranch.cli.flags import span_or_never
from anabranch.cli.scripts import Modules, PlanOption, ReoptimizeOption
from anabranch.runtime.query.asking.waiting import noted_signals


def replicate(
    scripts: Annotated[list[str], typer.Argument(help="A script, or several equivalent ones.")],
    to: Annotated[
        str, typer.Option(help="The folder for checkpoints, copies and the merged stream.")
    ],
    copies: Annotated[
        int, typer.Option(min=1, help="The number of copies of a single script.")
    ] = 3,
    trigger: Annotated[str | None, typer.Option(help="The time between two batches.")] = None,
    case: Annotated[str | None, typer.Option(help="As for 'anabranch merge'.")] = None,
    inserts: Annotated[str, typer.Option(help="As for 'anabranch merge'.")] = "first",
    adjusts: Annotated[str, typer.Option(help="As for 'anabranch merge'.")] = "lazy",
    lag: Annotated[str | None, typer.Option(help="As for 'anabranch merge'.")] = None,
    divergence: Annotated[str, typer.Option(help="As for 'anabranch merge'.")] = "warn",
    compare: Annotated[str | None, typer.Option(help="As for 'anabranch merge'.")] = None,
    feedback: Annotated[
        bool, typer.Option("--feedback", help="Let copies that are behind skip what is settled.")
    ] = False,
    detach_after: Annotated[str, typer.Option(help="As for 'anabranch merge'.")] = "10 minutes",
    as_json: Annotated[bool, typer.Option("--json", help="Print status lines as JSON.")] = False,
    plan: PlanOption = "optimized",
    reoptimize: ReoptimizeOption = "off",
    modules: Modules = None,
) -> None:
    r"""Run copies of a query in separate processes, and merge their output.

    The merged stream, the log folder 'merged' in the folder, is right as long as one copy runs. A
    process that dies is restarted and resumes from its checkpoint, the merging process as well.
    With several equivalent scripts the merge follows the fastest at each moment.

    Copies wait for more input, until Ctrl-C ends all of them after their batch. If all sources
    end (WITH (ends = TRUE)), the command ends when the merged stream is complete.

    \b
    $ anabranch replicate highest.sql --copies 3 --to highest
    """
    from anabranch.algebra.merge import COMPARED
    from anabranch.merging.replicate import replicate as make
    from anabranch.runtime.query.options import check_flags

    check_flags({"--trigger": trigger, "--plan": plan, "--reoptimize": reoptimize})

    def tell(line: str) -> None:
        typer.echo(json.dumps({"event": line}) if as_json else line, err=not as_json)

    work = make(
        scripts,
        to,
        copies=copies,
        trigger=trigger,
        case=None if case is None else case.lower(),  # type: ignore[arg-type]
        inserts=inserts,
        adjusts=adjusts,
        lag=lag,
        divergence=divergence,
        compare=COMPARED if compare is None else compare,
        feedback=feedback,
        detach_after=span_or_never(detach_after),
        modules=modules or (),
        plan=plan,  # type: ignore[arg-type]
        reoptimize=reoptimize,  # type: ignore[arg-type]
        tell=tell,
    )
    with noted_signals(signal.SIGINT, signal.SIGTERM) as noted, work:
        tell(f"{len(work.members) - 1} copies run; the merged stream is {work.folder / 'merged'}")
        while not noted and not work.await_end(0.5):
            pass
        if not noted:
            tell("the sources have ended, and the merged stream is complete")
    if noted:
        raise typer.Exit(128 + noted[0])
