"""`anabranch bench`: a named benchmark."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from anabranch.errors import QueryError


def bench(
    name: Annotated[str, typer.Argument(help="The benchmark: tumbling, latency or growth.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small form, under a minute.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per measurement, the figures last.")
    ] = False,
) -> None:
    r"""Measure Anabranch beside what Spark itself offers, in one run.

    \b
    $ anabranch bench tumbling --quick
    """
    # The benchmarks load Spark; nobody who asks for help should wait for it.
    from anabranch.bench.catalog import BENCHES
    from anabranch.bench.report import Report
    from anabranch.bench.report import as_json as line_of

    if name not in BENCHES:
        near = get_close_matches(name, BENCHES, 1)
        known = f"benchmarks are: {', '.join(BENCHES)}"
        raise QueryError(
            f"there is no benchmark '{name}'",
            where=f"anabranch bench {name}",
            hint=f"did you mean '{near[0]}'? {known}" if near else known,
        )

    def say(line: object) -> None:
        assert isinstance(line, dict)
        typer.echo(line_of(line) if as_json else "  ".join(f"{k} {v}" for k, v in line.items()))

    report = Report(bench=name, say=say)
    BENCHES[name].measure(report, quick=quick)
    report.close()
