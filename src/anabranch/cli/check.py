"""`anabranch check`: is it a legal stream?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from anabranch.cli.streams import InputFile, opened, with_forms

if TYPE_CHECKING:
    from anabranch.model.files.stream_file import StreamForm
    from anabranch.model.legality import Violation


@final
@dataclass(slots=True)
class Findings:
    """What there is in a stream, and what is wrong with it."""

    form: StreamForm
    inserts: int = 0
    adjusts: int = 0
    stables: int = 0
    revisions: int = 0
    stable: int = 0
    live: int = 0
    violations: tuple[Violation, ...] = ()


def check(
    file: Annotated[
        str, typer.Argument(help="A file, a folder, a pattern, or '-' for standard input.")
    ],
    limit: Annotated[
        int, typer.Option(min=1, help="The largest number of violations to show.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    r"""Check whether a stream keeps its promises.

    After 'stable t' no insert may start before t, and no adjust may move an end from or to a time
    before t; an adjust must name an event that exists; a lifetime must not be empty. A revision may
    change what is settled, within its bounds; what it takes away must be there. The exit code is 0
    for a legal stream, 1 where a promise is broken, 2 where the file is not a stream.

    \b
    $ anabranch check bids.jsonl
    bids.jsonl, line 7: insert {"itemID": 1} [5, 9)
      stable 12 (line 3) promised that no later insert starts before 12
    """
    with opened(file) as [source]:
        found = with_forms([source], lambda forms: _findings(source, forms[0], limit))
    for violation in found.violations:
        shown = (
            _as_json(source, file, found, violation)
            if as_json
            else _as_text(source, found, violation)
        )
        typer.echo(shown)
    if as_json and not found.violations:
        typer.echo(_summary_json(file, found))
    typer.echo(_summary(source, found), err=True)
    if found.violations:
        raise typer.Exit(1)


def _findings(source: InputFile, form: StreamForm, limit: int) -> Findings:
    # Loading Arrow takes longer than showing a help text.
    from anabranch.model.files.stream_file import has_revisions
    from anabranch.model.legality import LegalityChecker
    from anabranch.model.settled import withdrawn_payloads

    withdrawn = None
    if has_revisions(source.path):
        # What revisions withdraw must be kept from the beginning on, so it is looked for first.
        withdrawn = withdrawn_payloads(source.pieces(form, strict=False))
    checker = LegalityChecker(
        clock=form.clock,
        unit=form.unit,
        withdrawn=withdrawn,
        since=form.since,
        revised=form.revised,
    )
    found = Findings(form)
    for piece in source.pieces(form, strict=False):
        found.violations += tuple(checker.feed(piece, limit - len(found.violations)))
        if len(found.violations) == limit:
            return found
        found.adjusts += int(piece.is_adjust.sum())
        found.inserts += int((~piece.is_adjust).sum())
        found.stables += len(piece.stables)
        found.revisions += len(piece.revisions)
    found.stable, found.live = checker.stable, checker.live
    return found


def _as_text(source: InputFile, found: Findings, violation: Violation) -> str:
    from anabranch.model.legality import show_violation

    element, promise = show_violation(violation, clock=found.form.clock).split("\n")
    name, position = source.located(violation.position)
    where = f"{name}, {found.form.unit} {position}"
    return f"{where}: {element}\n  {promise}"


def _as_json(source: InputFile, file: str, found: Findings, violation: Violation) -> str:
    from anabranch.model.elements import element_json
    from anabranch.model.revision import Revision
    from anabranch.model.revision_rules import revision_json

    element, clock = violation.element, found.form.clock
    part, position = source.located(violation.position)
    content: dict[str, Any] = {
        "file": part if source.begins else file,
        "legal": False,
        found.form.unit: position,
        "element": revision_json(element, clock=clock)
        if isinstance(element, Revision)
        else element_json(element, clock=clock),
        "rule": violation.rule,
        "promise": violation.promise,
    }
    return json.dumps(content, ensure_ascii=False, default=str)


def _summary_json(file: str, found: Findings) -> str:
    from anabranch.model.elements import time_json

    stable = time_json(found.stable, clock=found.form.clock) if found.stables else None
    content: dict[str, Any] = {
        "file": file,
        "legal": True,
        "inserts": found.inserts,
        "adjusts": found.adjusts,
        "stables": found.stables,
        "revisions": found.revisions,
        "stable": stable,
        "live": found.live,
    }
    return json.dumps(content, ensure_ascii=False)


def _summary(source: InputFile, found: Findings) -> str:
    name = source.name
    if found.violations:
        part, position = source.located(found.violations[0].position)
        of = f" of {part}" if source.begins else ""
        return f"{name}: not legal, see {found.form.unit} {position}{of}"
    counts = f"{found.inserts:,} inserts, {found.adjusts:,} adjusts, {found.stables:,} stables"
    if found.revisions:
        counts += f", {found.revisions:,} revisions"
    stable = found.form.clock.format(found.stable)
    progress = f"stable point {stable}" if found.stables else "no stable point"
    return f"{name}: legal; {counts}; {progress}; {found.live:,} events may still change"
