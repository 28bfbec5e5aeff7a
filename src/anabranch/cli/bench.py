"""`anabranch bench`: a named benchmark."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.bench.names import listed
from anabranch.errors import QueryError


def bench(
    name: Annotated[
        str | None, typer.Argument(help="The benchmark; without one, all of them are listed.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small form that takes about a minute.")
    ] = False,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke", help="A form that takes seconds and only checks that the benchmark works."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per measurement, the figures last.")
    ] = False,
    plots: Annotated[
        Path | None,
        typer.Option(
            help="Write plots of the measurements to a folder and a page beside it; not of every "
            "benchmark."
        ),
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Only these queries, such as q0,q5 (nexmark only).")
    ] = None,
    peers: Annotated[
        str | None, typer.Option(help="Only these peers, such as spark (nexmark and peers).")
    ] = None,
) -> None:
    r"""Measure Anabranch beside a baseline, in one run; without a name, list the benchmarks.

    \b
    $ anabranch bench tumbling --quick
    $ anabranch bench nexmark --queries q0,q5 --peers spark
    """
    if name is None:
        typer.echo(listed())
        return
    if quick and smoke:
        raise QueryError(
            "--quick and --smoke exclude each other",
            where=f"anabranch bench {name} --quick --smoke",
            hint="leave out --quick for the form of seconds, or --smoke for the form of a minute",
        )
    if find_spec("anabranch.bench.catalog") is None:
        raise QueryError(
            "the benchmarks are not part of the installed package",
            where=f"anabranch bench {name}",
            hint="run it in a clone of the repository, after `make setup`; the demo is here",
        )
    # The benchmarks load Spark; nobody who asks for help should wait for it.
    from anabranch.bench.catalog import BENCHES
    from anabranch.bench.report import Report
    from anabranch.bench.report import as_json as line_of

    if name not in BENCHES:
        near = get_close_matches(name, BENCHES, 1)
        benchmarks = f"benchmarks are: {', '.join(BENCHES)}"
        raise QueryError(
            f"there is no benchmark '{name}'",
            where=f"anabranch bench {name}",
            hint=f"did you mean '{near[0]}'? {benchmarks}" if near else benchmarks,
        )

    chosen = BENCHES[name]
    if plots is not None and chosen.plot is None:
        drawn = ", ".join(each for each, entry in BENCHES.items() if entry.plot is not None)
        raise QueryError(
            f"there are no plots of '{name}'",
            where=f"anabranch bench {name} --plots {plots}",
            hint=f"benchmarks with plots are: {drawn}",
        )
    options = {
        option: [part.strip() for part in value.split(",")]
        for option, value in (("queries", queries), ("peers", peers))
        if value is not None
    }
    for option in options:
        if option not in chosen.options:
            those = ", ".join(each for each, entry in BENCHES.items() if option in entry.options)
            raise QueryError(
                f"'{name}' has no {option} to choose from",
                where=f"anabranch bench {name} --{option}",
                hint=f"benchmarks with {option} are: {those}",
            )
    lines: list[dict[str, Any]] = []

    def say(line: object) -> None:
        assert isinstance(line, dict)
        lines.append(line)
        # Long lists are for programs.
        shown = {key: value for key, value in line.items() if not isinstance(value, list)}
        typer.echo(line_of(line) if as_json else "  ".join(f"{k} {v}" for k, v in shown.items()))

    report = Report(name, say, "smoke" if smoke else "quick" if quick else "full")
    chosen.measure(report, **options)
    report.close()
    if plots is not None and chosen.plot is not None:
        chosen.plot(lines, plots)
