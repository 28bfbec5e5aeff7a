"""`anabranch merge`: one right stream out of several copies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.flags import span_or_never
from anabranch.cli.progress import Bar
from anabranch.cli.streams import InputFile, opened, with_forms
from anabranch.errors import PlanError, StreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from anabranch.algebra.merge import MergePolicy
    from anabranch.merging.files import FileMerge
    from anabranch.model.arrivals import Arrivals
    from anabranch.model.batch import EventBatch
    from anabranch.model.files.stream_file import StreamForm
    from anabranch.model.revision import Revision


def merge(
    files: Annotated[list[str], typer.Argument(help="Stream files or log folders: the copies.")],
    to: Annotated[str, typer.Option(help="The output; '-' is standard output.")] = "-",
    case: Annotated[
        str | None,
        typer.Option(help="The merge case that every copy satisfies: r0, r1, r2, r3 or r4."),
    ] = None,
    inserts: Annotated[
        str, typer.Option(help="first, leading, half_frozen, quorum(2) or quorum(50%).")
    ] = "first",
    adjusts: Annotated[str, typer.Option(help="lazy, eager or leading.")] = "lazy",
    lag: Annotated[
        str, typer.Option(help="How far the output stays behind, such as '5 seconds'.")
    ] = "0",
    divergence: Annotated[
        str | None,
        typer.Option(
            help="What to do with contradictions: fail (for files), quarantine or warn (with "
            "--follow)."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="EVENTS|all",
            help="How many settled events are kept for a comparison with copies that are behind "
            "(250000).",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="On Spark: keep running, and read what present and new copies receive."
        ),
    ] = False,
    feedback: Annotated[
        bool,
        typer.Option("--feedback", help="With --follow: let copies skip what is already settled."),
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="With --follow: the time between two batches.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="With --follow: the folder for the checkpoint of the merge.")
    ] = None,
    detach_after: Annotated[
        str,
        typer.Option(
            help="With --follow: detach a copy that has stood still for so long while the merge "
            "went on, until it is written to again; 'never' keeps it."
        ),
    ] = "10 minutes",
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --follow: append a line of JSON per batch: who leads, how far each copy is, "
            "contradictions.",
        ),
    ] = None,
) -> None:
    r"""Merge copies of one stream that differ in order, adjusts, gaps and progress.

    The output means the same as the copies, and is settled as far as the copy that is
    furthest ahead. Without --case nothing is assumed (r4); a stronger case is checked, and a
    copy that violates it is refused with the element. Copies that contradict each other in
    settled results are refused (exit code 2), or ignored with --divergence quarantine; r0, r1
    and r2 keep too little state to notice that, and use the first copy. The files may be larger
    than memory: only events that may still change are kept.

    A revision of settled results is taken once, from the first copy that has it; a copy with
    another revision of the same number contradicts it.

    With --follow the copies are log folders and stream files that are still being written: a
    folder that holds them, or a pattern in quotes. New copies join as they appear, and the
    merge resumes from its checkpoint when it is started again.

    \b
    $ anabranch merge a.jsonl b.jsonl --to merged.jsonl
    merged.jsonl: 2 inserts, 0 adjusts out of 5 elements; stable point 16
    """
    from anabranch.algebra.analysis.merge_case import CASES
    from anabranch.algebra.merge import MergePolicy
    from anabranch.model.files.stream_file import write_stream

    if case is not None and case.lower() not in CASES:
        raise PlanError(
            f"there is no case '{case}'", where="--case", hint=f"use {', '.join(CASES)}"
        )
    if follow:
        words = {"case": case and case.lower(), "inserts": inserts, "adjusts": adjusts}
        _follow(
            files,
            to,
            {**words, "lag": lag, "divergence": divergence or "warn", **_compared(compare)},
            trigger,
            checkpoint,
            feedback=feedback,
            detach_after=detach_after,
            metrics=metrics,
        )
        return
    if metrics is not None:
        raise PlanError(
            "--metrics is for merges that go on",
            where="option --metrics",
            hint="add --follow; a merge that ends says on standard error what it has noticed",
        )
    names = [name if files.count(name) == 1 else f"{name} ({n})" for n, name in enumerate(files, 1)]
    with opened(*files) as inputs:
        copies = [replace(each, name=name) for each, name in zip(inputs, names)]

        def write(forms: list[StreamForm]) -> tuple[FileMerge, _ElementCounts]:
            counts = _ElementCounts()
            policy = MergePolicy.of(
                inserts=inserts,
                adjusts=adjusts,
                lag=int(forms[0].clock.duration(lag)),
                divergence=_divergence(divergence, case),
                **_compared(compare),
            )
            work = _work(copies, forms, case, policy)
            write_stream(to, counts.of(work.parts()), clock=forms[0].clock)
            if counts.stable is not None:
                counts.shown = forms[0].clock.format(counts.stable)
            return work, counts

        work, counts = with_forms(copies, write)
    _tell(to, work, counts)


def _follow(
    files: list[str],
    to: str,
    options: dict[str, str | None],
    trigger: str | None,
    checkpoint: str | None,
    *,
    feedback: bool,
    detach_after: str,
    metrics: str | None,
) -> None:
    """Merge on Spark, until somebody ends it."""
    if len(files) != 1:
        raise PlanError(
            f"{len(files)} paths cannot be followed",
            where="option --follow",
            hint="give one folder that holds all copies, or a pattern in quotes: 'copies/*'",
        )
    from anabranch.cli.queries.copy_news import told_news
    from anabranch.cli.queries.metrics_file import written_metrics
    from anabranch.cli.queries.running import announced, wait_for
    from anabranch.engine import Engine
    from anabranch.merging.logs import merge_logs
    from anabranch.runtime.query.options import check_flags
    from anabranch.runtime.sinks.choice import choose_sink

    check_flags({"--trigger": trigger, "--checkpoint": checkpoint})
    choose_sink(to, None)
    lag = options.pop("lag") or "0"
    with Engine() as engine:
        run = merge_logs(
            engine,
            files[0],
            to,
            lag=lag,
            trigger=trigger,
            checkpoint=checkpoint,
            feedback=feedback,
            detach_after=span_or_never(detach_after),
            **options,  # type: ignore[arg-type]
        )
        told = announced(run, script="merge", to=to, clock=run.clock)
        with told as announcement, written_metrics(run, metrics), told_news(run):
            code = wait_for(run, announcement)
    if code:
        raise typer.Exit(code)


class _ElementCounts:
    """How much of what has been written."""

    def __init__(self) -> None:
        self.inserts = self.adjusts = self.revisions = 0
        self.stable: int | None = None
        self.shown = ""

    def of(self, parts: Iterator[EventBatch | Revision]) -> Iterator[EventBatch | Revision]:
        """The same, counted."""
        from anabranch.model.revision import Revision
        from anabranch.model.time import BEGINNING

        for batch in parts:
            if isinstance(batch, Revision):
                self.revisions += 1
                yield batch
                continue
            new = int((batch.end == batch.start).sum())
            self.inserts += new
            self.adjusts += len(batch) - new
            if batch.stable > BEGINNING:
                self.stable = int(batch.stable)
            yield batch


def _divergence(given: str | None, case: str | None) -> str:
    """Contradictions are refused unless somebody says otherwise, where they can be noticed."""
    from anabranch.algebra.analysis.merge_case import ORDERED

    return given or ("warn" if case is not None and case.lower() in ORDERED else "fail")


def _compared(given: str | None) -> dict[str, str]:
    """How many settled events are kept, where somebody says so."""
    return {} if given is None else {"compare": given}


def _work(
    copies: list[InputFile],
    forms: list[StreamForm],
    case: str | None,
    policy: MergePolicy,
) -> FileMerge:
    from anabranch.merging.files import PIECE_ROWS, FileCopy, FileMerge
    from anabranch.model.files.stream_file import read_arrivals

    schema = _schema(copies, forms)
    seen = dict.fromkeys(range(len(copies)), 0)
    bar = Bar(f"merging {len(copies)} copies", sum(copy.path.stat().st_size for copy in copies))

    def pieces(number: int) -> Iterator[Arrivals]:
        def on_bytes(read: int) -> None:
            seen[number] = read
            bar(sum(seen.values()))

        with bar:
            yield from read_arrivals(
                copies[number].path,
                forms[number].schema,
                PIECE_ROWS,
                name=copies[number].name,
                revised=forms[number].revised,
                on_bytes=on_bytes,
            )

    return FileMerge(
        [
            FileCopy(copy.name, pieces(number), since=copy.since)
            for number, copy in enumerate(copies)
        ],
        schema,
        None if case is None else case.lower(),  # type: ignore[arg-type]
        policy,
        forms[0].clock,
    )


def _schema(copies: list[InputFile], forms: list[StreamForm]) -> pa.Schema:
    """The columns of all copies; one that has others is no copy."""
    from anabranch.model.files.infer_schema import unify

    schema = forms[0].schema
    for copy, form in zip(copies[1:], forms[1:]):
        common = unify(schema, form.schema)
        same = set(form.schema.names) == set(schema.names)
        if common is None or (len(form.schema) and len(schema) and not same):
            shown = [
                ", ".join(f"{f.name} {f.type}" for f in each) for each in (schema, form.schema)
            ]
            raise StreamError(
                f"'{copy.name}' has columns that differ from those of '{copies[0].name}'",
                where=f"{copies[0].name}: {shown[0]}\n{copy.name}: {shown[1]}",
                hint="copies of one stream have the same columns",
            )
        if form.clock != forms[0].clock:
            chronons = [each.clock.label or "unknown" for each in (forms[0], form)]
            raise StreamError(
                f"'{copy.name}' has times that differ from those of '{copies[0].name}'",
                where="one has timestamps, the other whole numbers"
                if form.timestamps != forms[0].timestamps
                else f"the chronon of one is {chronons[0]}, of the other {chronons[1]}",
                hint="copies of one stream have the same kind of times",
            )
        schema = common
    return schema


def _tell(to: str, work: FileMerge, counts: _ElementCounts) -> None:
    elements = sum(copy.rows for copy in work.copies)
    stable = "no stable point"
    if counts.stable is not None:
        stable = f"stable point {counts.shown}"
    revised = f", {counts.revisions:,} revisions" if counts.revisions else ""
    name = "standard output" if to == "-" else to
    typer.echo(
        f"{name}: {counts.inserts:,} inserts, {counts.adjusts:,} adjusts{revised} out of "
        f"{elements:,} elements; {stable}",
        err=True,
    )
    if work.since is not None:
        shown = work.clock.format(work.since)
        typer.echo(
            f"{name}: complete for events that end at {shown} or later, as no copy has more",
            err=True,
        )
    if work.revised.waiting:
        typer.echo(
            f"revisions from {work.revised.emitted + 1} on were left out: they change what the "
            "output has not settled yet",
            err=True,
        )
    for conflict in work.revised.conflicts:
        typer.echo(
            f"{conflict.copy}: revision {conflict.number} differs from that of {conflict.first}, "
            "and was left out",
            err=True,
        )
    for copy in work.copies:
        if copy.repeated:
            typer.echo(
                f"{copy.name}: {copy.repeated:,} elements before its own stable point, or that it "
                "repeats after these, were left out",
                err=True,
            )
    for report in work.report.get("copies", ()):
        if report.get("diverged"):
            typer.echo(
                f"{report['name']} contradicts what is settled: {report['diverged']:,} times"
                f" ({report['status']})",
                err=True,
            )
