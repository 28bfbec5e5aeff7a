"""A session of the shell: what is typed gets done, and mistakes do not end it."""

from __future__ import annotations

import os
import re
import time
import traceback
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Final, final

import typer

from anabranch.cli.queries.entries import state_folder
from anabranch.cli.scripts import read_text, tell_notes
from anabranch.cli.shell.commands import run_command
from anabranch.cli.shell.names import Names
from anabranch.cli.shell.text import cut, only
from anabranch.cli.unexpected import as_anabranch_error
from anabranch.errors import AnabranchError, QueryError
from anabranch.runtime.query.readers import refuse_while_read

if TYPE_CHECKING:
    from anabranch.cli.queries.live_answer import Answer, Instant
    from anabranch.cli.queries.live_query import LiveQueries
    from anabranch.cli.shell.engine import ShellEngine
    from anabranch.engine import Stream

_STOP: Final = re.compile(r"\s*STOP\s+[`\"]?(?P<name>[^`\";]+?)[`\"]?\s*;?\s*", re.IGNORECASE)
_LEAVE: Final = re.compile(r"\s*(exit|quit)\s*(\(\s*\))?\s*;?\s*", re.IGNORECASE)
_DEEPEST: Final = 16
_MAX_SHOWN: Final = 100
"""Rows that a terminal gets to see of one result."""


@final
class ShellSession:
    """State that outlives a statement.

    Attributes:
        left: Whether somebody wants to leave.
        failed: Whether something has gone wrong.
        timing: Whether statements are timed.
        to: Where the next query writes; None: here.
        names: What can be completed.
    """

    def __init__(self, *, on_spark: bool, interactive: bool, allow_unbounded: bool) -> None:
        """Nothing is loaded yet."""
        self.left: bool = False
        self.failed: bool = False
        self.timing: bool = False
        self.to: str | None = None
        self.names: Names = Names()
        self._on_spark = on_spark
        self._interactive = interactive
        self._allow_unbounded = allow_unbounded
        self._last: Answer | None = None
        self._depth = 0

    @cached_property
    def engine(self) -> ShellEngine:
        """The engine; loading it takes seconds."""
        from anabranch.cli.shell.engine import ShellEngine

        engine = ShellEngine()
        if self._interactive:
            engine.log = state_folder() / "spark.log"
        return engine

    @cached_property
    def queries(self) -> LiveQueries:
        """What was started on Spark."""
        from anabranch.cli.queries.live_query import LiveQueries

        return LiveQueries()

    def load(self) -> None:
        """Load what the first statement will need."""
        import anabranch.cli.queries.live_query
        import anabranch.cli.shell.engine  # noqa: F401

    def __enter__(self) -> ShellSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if "queries" in self.__dict__:
            self.queries.close()
        if "engine" in self.__dict__:
            self.engine.stop()

    def run_file(self, path: str) -> None:
        """Run the statements of a file, until somebody leaves."""
        try:
            text, name = read_text(path)
        except AnabranchError as problem:
            self._fail(problem)
            return
        if self._depth >= _DEEPEST:
            self._fail(QueryError("scripts include each other in a cycle", where=path))
            return
        self._depth += 1
        self.run_text(text, name)
        self._depth -= 1

    def run_text(self, text: str, name: str | None = None) -> None:
        """Run the statements of a text; the last one may lack its semicolon."""
        pieces, rest = cut(text)
        if text[rest:].strip():
            pieces.append((rest, len(text)))
        for piece in pieces:
            if not self.left:
                self.run(only(text, piece), name)

    def run(self, text: str, name: str | None = None) -> None:
        """Run one statement or command."""
        began = time.monotonic()
        try:
            stopped = _STOP.fullmatch(text)
            if _LEAVE.fullmatch(text):
                self.left = True
            elif text.lstrip().startswith("\\"):
                run_command(self, text)
            elif stopped:
                self.stop(stopped["name"])
            else:
                self._execute(text, name)
        except AnabranchError as problem:
            self._fail(problem)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
        except Exception as problem:  # noqa: BLE001  # a shell outlives what it did not foresee
            if os.environ.get("ANABRANCH_DEBUG"):
                traceback.print_exc()
            self._fail(as_anabranch_error(problem))
        if self.timing:
            typer.echo(f"{time.monotonic() - began:.2f} s", err=True)

    def say_notices(self) -> None:
        """Tell what happened to queries in the background."""
        if "queries" in self.__dict__:
            for notice in self.queries.notices():
                typer.echo(notice, err=True)

    def stop(self, name: str) -> None:
        """End a query that was started here."""
        query = self.queries.find(name)
        refuse_while_read(query.run)
        self.queries.forget_end(query)
        query.stop()
        typer.echo(f"{query.name} has stopped", err=True)

    def watch(self, name: str, at: Instant = "stable") -> None:
        """Look at a query that was started here until it ends, or Ctrl-C."""
        from rich.console import Console

        from anabranch.cli.queries.live import watch

        query = self.queries.find(name)
        self._last = query.answer
        if not watch(query, Console(), at):
            name = query.name
            remark = f"{name} keeps running; \\watch {name} shows it again, STOP {name}; ends it"
            typer.echo(remark, err=True)

    def show_at(self, text: str) -> None:
        """The last result at an instant; without one, at the last final one."""
        from anabranch.cli.results import show_snapshot
        from anabranch.model.time import BEGINNING

        if self._last is None:
            raise QueryError("there is no result yet", where="\\at", hint="write a SELECT first")
        for query in self.queries:
            if query.answer is self._last:
                query.feed(at_once=True)
        at = self._last.clock.instant(text) if text else self._last.instant()
        rows = self._last.snapshot(at)
        show_snapshot(rows, at, clock=self._last.clock, limit=self._limit)
        stable, clock = self._last.stable, self._last.clock
        if at >= stable:
            known = (
                "nothing is final yet"
                if stable == BEGINNING
                else f"stable point {clock.format(stable)}"
            )
            beyond = at > self._last.latest
            what = "beyond what was read" if beyond else "not final"
            typer.echo(f"note: {clock.format(at)} is {what}: {known}", err=True)

    @property
    def _limit(self) -> int:
        return _MAX_SHOWN if self._interactive else 0

    def _execute(self, text: str, name: str | None) -> None:
        from anabranch.cli.shell.statements import run_statement

        run_statement(self, text, name)
        self.names.refresh(self.engine)

    def run_query(self, query: Stream) -> None:
        """Run a SELECT: to the end of what is there, or on and on before the eyes of its author."""
        tell_notes(query)
        to, self.to = self.to, None
        if self._on_spark and self._interactive:
            self._run_live(query, to)
        else:
            self._run_once(query, to)

    def _run_live(self, query: Stream, to: str | None) -> None:
        from anabranch.cli.queries.live_query import LiveQuery

        if to == "-":
            raise QueryError(
                "a live query cannot write to the terminal of the shell",
                where="\\to -",
                hint="give a .jsonl file or a folder",
            )
        live = LiveQuery(query, to, allow_unbounded=self._allow_unbounded)
        self.queries.add(live)
        self.watch(live.name)

    def _run_once(self, query: Stream, to: str | None) -> None:
        from anabranch.algebra.node import clock_of
        from anabranch.cli.queries.live_answer import Answer
        from anabranch.cli.results import show_history

        # What is there has an end, so no state can grow for ever.
        if self._on_spark:
            run = query.start(to, available_now=True, allow_unbounded=True, share=False)
            run.await_end()
            table = None if to == "-" else run.table(raw=True)
        else:
            local = query.run_local(to, allow_unbounded=True)
            table = None if to == "-" else local.table(raw=True)
        if table is None:
            return
        self._last = Answer.of(table, query.schema, clock=clock_of(query.node))
        clock = self._last.clock
        show_history(self._last.history(), clock=clock, limit=self._limit)

    def _fail(self, problem: Exception) -> None:
        self.failed = True
        typer.echo(f"{type(problem).__name__}: {problem}", err=True)
