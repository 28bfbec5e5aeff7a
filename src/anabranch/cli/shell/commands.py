r"""Commands of the shell: `\help` and its like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import typer

from anabranch.errors import QueryError

if TYPE_CHECKING:
    from anabranch.cli.shell.session import ShellSession


@final
@dataclass(frozen=True, slots=True)
class ShellCommand:
    """What a command takes, what it does for its user, and how."""

    takes: str
    does: str
    act: Callable[[ShellSession, str], None]


def run_command(session: ShellSession, text: str) -> None:
    """Run a line that begins with a backslash.

    Raises:
        QueryError: There is no such command.
    """
    name, _, rest = text.strip().removeprefix("\\").rstrip("; \t").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, 1)
        guess = f"did you mean \\{near[0]}? " if near else ""
        listed = ", ".join(f"\\{each}" for each in COMMANDS)
        raise QueryError(
            f"there is no command '\\{name}'",
            where=text.strip(),
            hint=f"{guess}commands are: {listed}",
        )
    command.act(session, rest.strip())


def _help(_session: ShellSession, _rest: str) -> None:
    lines = [
        "Statements end with a semicolon and may take several lines: CREATE STREAM, CREATE TABLE,",
        "CREATE VIEW, CREATE FUNCTION, DROP, SHOW STREAMS | TABLES | VIEWS | FUNCTIONS | QUERIES,",
        "DESCRIBE name, EXPLAIN query, INCLUDE 'file', SELECT, STOP query.",
        "",
    ]
    shown = {f"\\{name} {each.takes}".rstrip(): each.does for name, each in COMMANDS.items()}
    width = max(map(len, shown))
    lines += [f"{name:<{width}}  {does}" for name, does in shown.items()]
    typer.echo("\n".join(lines))


def _leave(session: ShellSession, _rest: str) -> None:
    session.left = True


def _include(session: ShellSession, rest: str) -> None:
    session.run_file(_needed(_unquoted(rest), "\\i file"))


def _to(session: ShellSession, rest: str) -> None:
    session.to = _unquoted(rest) or None
    if session.to is None:
        typer.echo("the next query shows its results here", err=True)
    else:
        typer.echo(f"the next query writes to {Path(session.to)}", err=True)


def _at(session: ShellSession, rest: str) -> None:
    session.show_at(_unquoted(rest))


def _stop(session: ShellSession, rest: str) -> None:
    session.stop(_needed(rest, "\\stop query"))


def _watch(session: ShellSession, rest: str) -> None:
    name, _, at = _needed(rest, "\\watch query [latest]").partition(" ")
    if at.strip() not in ("", "latest", "stable"):
        raise QueryError(
            f"'{at.strip()}' is not an instant to watch",
            where=f"\\watch {rest}",
            hint="write stable for the last final instant, or latest",
        )
    session.watch(name, "latest" if at.strip() == "latest" else "stable")


def _timing(session: ShellSession, _rest: str) -> None:
    session.timing = not session.timing
    typer.echo(f"timing is {'on' if session.timing else 'off'}", err=True)


def _needed(rest: str, shape: str) -> str:
    if not rest:
        raise QueryError("something is missing", where=shape.split()[0], hint=f"write {shape}")
    return rest


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


COMMANDS: Final[Mapping[str, ShellCommand]] = {
    "help": ShellCommand("", "this text", _help),
    "q": ShellCommand("", "exit, like Ctrl-D; queries that were started here end", _leave),
    "i": ShellCommand("file", "run the statements of a file", _include),
    "to": ShellCommand("path", "write the next SELECT to a .jsonl file or a folder", _to),
    "at": ShellCommand("[T]", "the last result at an instant, or at the last final one", _at),
    "watch": ShellCommand(
        "query [latest]", "show a running query again; latest: before it is final", _watch
    ),
    "stop": ShellCommand("query", "end a query; STOP query; does the same", _stop),
    "timing": ShellCommand("", "switch the timing of statements on or off", _timing),
}
