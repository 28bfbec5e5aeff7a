"""Scripts with SQL: read, and the query in them found."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.errors import PlanError, QueryError

if TYPE_CHECKING:
    from anabranch.engine import Engine
    from anabranch.stream import Stream


Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--modules",
        metavar="FILE",
        help="A Python file with aggregates, operators and functions that queries call.",
    ),
]
"""The option of every command that runs or explains scripts."""


PlanOption = Annotated[
    str,
    typer.Option(
        "--plan",
        help="'optimized', or 'as-written': operators in the order of the text, no rules applied.",
    ),
]
"""The option of every command that plans queries."""


ReoptimizeOption = Annotated[
    str,
    typer.Option(
        "--reoptimize",
        help="'auto': while it runs, the query changes to another plan when what it measures says "
        "that this has been much cheaper for a while; 'off': its plan stays.",
    ),
]
"""The option of every command that runs queries for long."""


def register_operators(engine: Engine, files: list[str] | None) -> None:
    """Let the queries of an engine call what is in Python files."""
    for file in files or ():
        engine.register_file(file)


def module_paths(files: list[str] | None) -> tuple[str, ...]:
    """The full paths of Python files that a running process shall read: it may be elsewhere.

    Raises:
        PlanError: There is no such file.
    """
    from anabranch.runtime.sources.location import full_path

    for file in files or ():
        if not Path(file).is_file():
            raise PlanError(
                f"there is no file with modules '{file}'", where="--modules", hint="check the path"
            )
    return tuple(full_path(file) for file in files or ())


def read_text(file: str) -> tuple[str, str | None]:
    """The text of a script, and its name; '-' is standard input."""
    if file == "-":
        return sys.stdin.read(), None
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except (OSError, UnicodeDecodeError) as problem:
        raise QueryError(
            "the script cannot be read",
            where=f"{file}: {getattr(problem, 'strerror', None) or problem}",
            hint="give the path of a file with SQL, or '-' for standard input",
        ) from None


def last_query(engine: Engine, file: str, emit: str = "speculative") -> Stream:
    """Run a script; its last SELECT, or the last stream that it derives, is the query."""
    query = all_queries(engine, file)[-1]
    tell_notes(query, emit)
    return query


def tell_notes(query: Stream, emit: str = "speculative") -> None:
    """Print the notes on a query to standard error; its run does not repeat them."""
    from anabranch.runtime.query.notes import LOGGER

    LOGGER.disabled = True
    for note in query.notes_on(emit):  # type: ignore[arg-type]
        typer.echo(f"note: {note}", err=True)


def all_queries(engine: Engine, file: str) -> list[Stream]:
    """Run a script; all its SELECTs."""
    text, name = read_text(file)
    # What modules print when they are loaded and made is no result.
    with redirect_stdout(sys.stderr):
        found = engine.script(text, name=name)
    if not found:
        raise QueryError(
            "the script has no query",
            where=name or "standard input",
            hint="end it with a SELECT",
        )
    return found
