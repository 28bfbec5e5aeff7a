"""The command `anabranch`."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from anabranch import __version__
from anabranch.bench.names import listed
from anabranch.cli.bench import bench
from anabranch.cli.check import check
from anabranch.cli.cutover import cutover
from anabranch.cli.demo import demo
from anabranch.cli.diff import diff
from anabranch.cli.explain import explain
from anabranch.cli.flags import CheckedCommand
from anabranch.cli.generate import generate
from anabranch.cli.help_text import help_of
from anabranch.cli.jumpstart import jumpstart
from anabranch.cli.light_start import collect_less_often
from anabranch.cli.merge import merge
from anabranch.cli.new import new
from anabranch.cli.queries.archive import archive
from anabranch.cli.queries.control import control
from anabranch.cli.queries.migrate import migrate
from anabranch.cli.queries.migrations import migrations
from anabranch.cli.queries.ps import ps
from anabranch.cli.queries.regroup import add, drop
from anabranch.cli.queries.revise import revise
from anabranch.cli.queries.revisions import revisions
from anabranch.cli.queries.running import end_with_input
from anabranch.cli.queries.state import state
from anabranch.cli.queries.stop import stop
from anabranch.cli.queries.top import top
from anabranch.cli.replicate import replicate
from anabranch.cli.run import run
from anabranch.cli.shell.command import shell
from anabranch.cli.show import show
from anabranch.cli.unexpected import as_anabranch_error
from anabranch.runtime.workers.without_pandas import spare_pandas

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
_WITHOUT_SPARK: Final = (
    "merge",
    "new",
    "archive",
    "revise",
    "revisions",
    "migrate",
    "migrations",
    "add",
    "drop",
    "check",
    "show",
    "diff",
    "generate",
)


class Commands(TyperGroup):
    """Commands whose users see errors in three parts, not stack traces."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a mistake of the user ends with exit code 2."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (typer.Abort, typer.Exit):
            raise
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has seen enough. What is still buffered goes nowhere,
            # else Python would complain about it on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except Exception as problem:  # no stack trace reaches a user
            if hasattr(problem, "format_message"):
                # A word of the command line that does not fit: the parser tells it itself.
                raise
            if ctx.params.get("debug"):
                traceback.print_exc()
            error = as_anabranch_error(problem)
            typer.echo(f"{type(error).__name__}: {error}", err=True)
            raise typer.Exit(2) from None
        return result


app: typer.Typer = typer.Typer(
    name="anabranch",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from anabranch.runtime.spark.java import JavaMissingError, choose_java

        typer.echo(f"anabranch {__version__}")
        try:
            typer.echo(choose_java().label)
        except JavaMissingError as missing:
            typer.echo(f"{missing.what}: {missing.hint}")
        raise typer.Exit


def _watch_input(wanted: bool) -> None:
    if wanted:
        end_with_input()


def anabranch(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version, and the Java that Spark uses.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="ANABRANCH_DEBUG", help="Show the traceback of an error."),
    ] = False,
    _until_input_ends: Annotated[
        bool,
        typer.Option(
            "--until-input-ends",
            callback=_watch_input,
            help="Stop as on SIGTERM when standard input ends.",
        ),
    ] = False,
) -> None:
    r"""Exact, revisable answers over late and corrected streams.

    Stream files are JSON lines or Parquet; '-' is standard input or output. Results go to
    standard output, notes and errors to standard error. Exit code 0 means yes, 1 means no (a
    stream that is not legal, two streams that differ), 2 means that the input cannot be used.

    \b
    anabranch demo                      see it work, from end to end
    anabranch shell                     type queries and watch their answers
    anabranch check bids.jsonl          check whether a stream is legal
    anabranch show bids.jsonl --at 12   show the snapshot at instant 12
    """


app.callback(help=help_of(anabranch))(anabranch)
_WORK: Final = (demo, new, run, explain, shell, ps, top, stop, state, archive, control)
_REVISIONS: Final = (revise, revisions)
_CHANGES: Final = (migrate, migrations, add, drop)
for _command in (
    *_WORK,
    *_REVISIONS,
    *_CHANGES,
    merge,
    replicate,
    jumpstart,
    cutover,
    check,
    show,
    diff,
):
    app.command(help=help_of(_command), cls=CheckedCommand)(_command)
app.command(help=f"{help_of(bench)}\n\n\b\n{listed()}")(bench)
app.add_typer(generate)


def main() -> None:
    """Run the command line."""
    collect_less_often()
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if words and words[0] in _WITHOUT_SPARK:
        spare_pandas()
    app(prog_name="anabranch")


if __name__ == "__main__":
    main()
