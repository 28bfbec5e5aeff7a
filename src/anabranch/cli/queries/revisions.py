"""`anabranch revisions`: what was corrected, and what that changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.tables import show_table

if TYPE_CHECKING:
    from anabranch.runtime.revisions.overview import CorrectionNote


def revisions(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="The folder of a checkpoint, or the output beside it."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    r"""List the corrections of the sources of a query.

    These are rows that came late to sources with LATE REVISE, and corrections that were handed in
    with `anabranch revise`. The state is received, planned (the input to be replayed is known),
    computed (the changes wait for a batch) or committed (they are in the output); direct, where
    nothing was settled yet; ignored or archived, where the query was started that way;
    quarantined, with the reason; or estimated, where the input to be replayed is gone and the
    query was started with --estimate: then the answers before and after are told, and between
    which bounds they surely are.

    \b
    $ anabranch revisions out.jsonl
    id  handed in  source  rows  input     needed    strategy  state      changed         seconds
     1          1  Quote      2  [61, 62)  [60, 70)  RW        committed  revision 1 (2)     0.01
    """
    from anabranch.model.record import plain
    from anabranch.runtime.query.state_view import find_checkpoint
    from anabranch.runtime.revisions.overview import correction_notes

    path, _ = find_checkpoint(checkpoint)
    notes = correction_notes(path)
    if as_json:
        for note in notes:
            typer.echo(json.dumps(plain(note), ensure_ascii=False))
        return
    if not notes:
        typer.echo("no corrections", err=True)
        return
    columns = {
        "id": ["" if each.id is None else str(each.id) for each in notes],
        "handed in": [", ".join(map(str, each.handed_in)) for each in notes],
        "received": [each.received[:19] for each in notes],
        "source": [each.source for each in notes],
        "rows": [f"{each.rows:,}" for each in notes],
        "input": [_span(each.span) for each in notes],
        "needed": [_needed(each) for each in notes],
        "strategy": [each.strategy for each in notes],
        "state": [each.state for each in notes],
        "changed": [_changed(each) for each in notes],
        "seconds": [f"{each.seconds:.2f}" if each.seconds else "" for each in notes],
    }
    show_table(list(columns), list(columns.values()), {0, 1, 4, 10})
    for each in notes:
        if each.reason:
            what = f"correction {each.id}" if each.line is None else f"line {each.line} of "
            what += "" if each.line is None else f"submission {each.handed_in[0]}"
            typer.echo(f"{what}: {each.reason}")
            _show_estimates(each)
            if each.text:
                typer.echo(f"  {each.text}")


def _show_estimates(note: CorrectionNote) -> None:
    """`IBM [60, 70): 74.2 (73.5 to 75.0) -> 71.0 (70.1 to 71.9)`, a line per answer."""
    for each in note.estimates:
        group = " ".join(map(str, each.group))
        answers = f"{_bounded(each.before)} -> {_bounded(each.after)}"
        typer.echo(f"  {group} [{each.start}, {each.end}): {answers}".replace("   [", "  ["))
    if note.estimated > len(note.estimates):
        typer.echo(f"  and {note.estimated - len(note.estimates):,} answers with narrower bounds")


def _bounded(estimate: tuple[float, float, float] | None) -> str:
    if estimate is None:
        return "nothing"
    value, low, high = estimate
    return f"{value:.6g} ({low:.6g} to {high:.6g})"


def _span(span: tuple[object, object]) -> str:
    return "" if span == (None, None) else f"[{'' if span[0] is None else span[0]}, {span[1]})"


def _needed(note: CorrectionNote) -> str:
    if len(note.needed) == 1:
        return _span(*note.needed.values())
    return " ".join(f"{name} {_span(span)}" for name, span in note.needed.items())


def _changed(note: CorrectionNote) -> str:
    """`revision 3 (2)`: two changes; of several outputs each by its position."""
    if not note.changed:
        return ""
    each = [
        f"{', '.join(map(str, one.revisions))} ({one.rows:,})" if one.revisions else "nothing"
        for one in note.changed
    ]
    if each == ["nothing"]:
        return "nothing"
    return "revision " + "; ".join(each)
