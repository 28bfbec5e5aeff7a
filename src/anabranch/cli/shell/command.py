"""`anabranch shell`: write queries, watch their answers."""

from __future__ import annotations

import os
import sys
import threading
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch import __version__
from anabranch.cli.queries.entries import state_folder
from anabranch.cli.scripts import Modules, register_operators
from anabranch.errors import PlanError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

    from anabranch.cli.shell.session import ShellSession


def shell(
    file: Annotated[str | None, typer.Argument(help="A script to run first.")] = None,
    engine: Annotated[
        str, typer.Option(help="'spark', or 'local': in this process, once over the present input.")
    ] = "spark",
    allow_unbounded: Annotated[
        bool,
        typer.Option("--allow-unbounded", help="Accept queries whose state grows without bound."),
    ] = False,
    modules: Modules = None,
) -> None:
    r"""Type statements and see their results at once.

    On Spark a SELECT runs until it is stopped, and its answer is a table that changes in place.
    Ctrl-C leaves that view, not the query. Spark starts with the first query. Statements from a
    pipe run one after the other over the present input; then the exit code is 2 if one failed.

    \b
    $ anabranch shell
    $ anabranch shell --engine local < highest.sql
    """
    if engine not in ("spark", "local"):
        raise PlanError(
            f"there is no engine '{engine}'", where="option --engine", hint="use spark or local"
        )
    from anabranch.cli.shell.session import ShellSession

    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    with ShellSession(
        on_spark=engine == "spark", interactive=interactive, allow_unbounded=allow_unbounded
    ) as session:
        if interactive:
            typer.echo(f"anabranch {__version__}, engine {engine}; \\help helps, \\q leaves")
        if modules:
            register_operators(session.engine, modules)
        if file is not None:
            session.run_file(file)
        if interactive:
            _converse(session)
        else:
            _obey(session)
    if session.failed and not interactive:
        raise typer.Exit(2)


def _obey(session: ShellSession) -> None:
    """Run what comes through a pipe, as soon as a statement is there."""
    from anabranch.cli.shell.text import cut

    # Remarks and results stay in order even where both go to one file.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    rest = ""
    for line in sys.stdin:
        rest += line
        pieces, end = cut(rest)
        for start, stop in pieces:
            if session.left:
                return
            session.run(rest[start:stop])
        rest = rest[end:]
    if rest.strip() and not session.left:
        session.run(rest)


def _converse(session: ShellSession) -> None:
    """Prompt for statements until somebody leaves."""
    prompt = _prompt(session)
    # Loading begins when there is something to type at, and goes on meanwhile.
    load = threading.Thread(target=session.load, name="load", daemon=True)
    prompt.app.after_render += lambda _: None if load.ident else load.start()
    while not session.left:
        session.say_notices()
        try:
            text = prompt.prompt("anabranch> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        session.run_text(text)


def _prompt(session: ShellSession) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.lexers import PygmentsLexer

    from anabranch.cli.shell.complete import WordCompleter
    from anabranch.cli.shell.keys import key_bindings

    return PromptSession(
        history=_history(),
        completer=WordCompleter(session.names),
        complete_while_typing=False,
        complete_in_thread=True,
        key_bindings=key_bindings(),
        lexer=PygmentsLexer.from_filename("statement.sql"),
        multiline=True,
        prompt_continuation="       ... ",
    )


def _history() -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        path: Path = state_folder() / "history"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError as problem:
        typer.echo(f"note: the history of commands is not saved: {problem}", err=True)
        return InMemoryHistory()
    return FileHistory(str(path))
