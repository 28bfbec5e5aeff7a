"""Queries that run in processes of this machine: announced, watched, asked to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import typer

from anabranch.cli.queries.entries import RunningQueries, RunningQuery
from anabranch.display.progress_line import ProgressLine
from anabranch.runtime.query.asking.waiting import noted_signals, stop_after_batch

if TYPE_CHECKING:
    from anabranch.model.clock import Clock
    from anabranch.runtime.query.run import Run

_LOOK: Final = 1.0
"""Seconds between two looks at a run."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@final
class Totals:
    """What a run has read and written since it was first looked at."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.batch: int | None = None
        self.batch_at: str | None = None
        self.rows_in: int = 0
        self.rows_out: int = 0
        self.late: int = 0
        self.revised: int = 0
        self.failed_windows: int = 0
        self.rewritten: int = 0
        self.state_rows: int = 0
        self.state_bytes: int = 0
        self.lag: int | None = None
        self.seconds: float | None = None
        self.problems: dict[str, str] = {}

    def look(self, run: Run) -> None:
        """Count the batches that are new; a run remembers the last thousand."""
        new = [each for each in run.metrics() if self.batch is None or each["batch"] > self.batch]
        if not new:
            return
        self.batch, self.batch_at = new[-1]["batch"], _now()
        self.rows_in += sum(each["rows_in"] for each in new)
        self.rows_out += sum(each["rows_out"] for each in new)
        self.late += sum(each["late"] for each in new)
        self.revised += sum(each.get("revised", 0) for each in new)
        self.failed_windows += sum(each.get("failed_windows", 0) for each in new)
        self.rewritten += sum(each.get("rewritten", 0) for each in new)
        last = new[-1]
        stages = last.get("stages", {}).values()
        self.lag = last.get("lag")
        self.problems = {
            name: copy["problem"]
            for source in last.get("sources", {}).values()
            for name, copy in source.get("copies", {}).items()
            if copy.get("problem")
        }
        self.state_rows = sum(stage["state_rows"] for stage in stages)
        self.state_bytes = sum(stage["state_bytes"] for stage in stages)
        spent = [each.get("milliseconds", {}).get("triggerExecution") for each in new]
        self.seconds = next((time / 1000 for time in reversed(spent) if time), self.seconds)


@final
class Announcement:
    """A run that other processes can see and ask to stop.

    A folder that cannot be written to is said once, and does not disturb the run.
    """

    def __init__(self, run: Run, name: str, *, script: str, to: str, clock: Clock) -> None:
        """Write the first entry."""
        self._run = run
        self._clock = clock
        self._totals = Totals()
        self._entries: RunningQueries | None = None
        self._entry = RunningQuery.here(
            name=name,
            script=script,
            to=to,
            started=_now(),
            log=run.log_folder,
            reads=tuple(sorted(run.reads)),
        )
        try:
            self._entries = RunningQueries()
            self._entry = self._entries.claim(self._entry)
        except OSError as problem:
            self._give_up(problem)

    @property
    def name(self) -> str:
        """What the query is called on this machine."""
        return self._entry.name

    @property
    def run(self) -> Run:
        """The run; once it has left the others, one of those that go on."""
        if self._run.has_left:
            self._run = next(iter(members_of(self._run)), self._run)
        return self._run

    def refresh(self, status: str = "running") -> None:
        """Tell how far the run is."""
        if self._entries is None:
            return
        run, members = self.run, members_of(self.run)
        self._totals.look(run)
        self._entry = replace(
            self._entry,
            status=status,
            log=run.log_folder,
            reads=tuple(sorted({path for each in members for path in each.reads})),
            queries={each.name: each.log_folder or "" for each in members},
            batch=self._totals.batch,
            batch_at=self._totals.batch_at,
            stable=self._stable(),
            rows_in=self._totals.rows_in,
            rows_out=self._totals.rows_out,
            late=self._totals.late,
            revised=self._totals.revised,
            failed_windows=self._totals.failed_windows,
            rewritten=self._totals.rewritten,
            lag=self._totals.lag,
            state_rows=self._totals.state_rows,
            state_bytes=self._totals.state_bytes,
            batch_seconds=self._totals.seconds,
            change=self._change(),
            problems=self._totals.problems,
        )
        try:
            self._entries.write(self._entry)
        except OSError as problem:
            self._give_up(problem)

    def is_asked(self) -> bool:
        """Whether somebody asked the run to stop."""
        return self._entries is not None and self._entries.is_asked(self._entry)

    def close(self) -> None:
        """The run has ended."""
        if self._entries is not None:
            self._entries.remove(self._entry)
            self._entries = None

    def _stable(self) -> int | str | None:
        from anabranch.model.elements import time_json
        from anabranch.model.time import BEGINNING

        stable = self.run.stable
        return None if stable == BEGINNING else time_json(stable, clock=self._clock)

    def _change(self) -> str:
        change = self.run.change
        return "" if change is None else change.in_words(self._clock)

    def _give_up(self, problem: OSError) -> None:
        self._entries = None
        typer.echo(f"note: 'anabranch ps' does not show this query: {problem}", err=True)


@contextmanager
def announced(run: Run, *, script: str, to: str, clock: Clock) -> Iterator[Announcement]:
    """Let other processes know of a run while the block lasts, by the name of its script."""
    name = run.name if script == "-" else Path(script).stem
    announcement = Announcement(run, name, script=script, to=to, clock=clock)
    try:
        yield announcement
    finally:
        announcement.close()


def wait_for(run: Run, announcement: Announcement) -> int:
    """Wait until a run ends, or somebody asks it to stop; the exit code for that.

    Ctrl-C and the signals TERM and HUP let the batch under way end. A second one does not.

    Raises:
        AnabranchError: The query has failed.
    """
    with noted_signals(*_SIGNALS) as noted, ProgressLine() as line:
        while True:
            run = announcement.run
            if run.await_end(_LOOK):
                if run.has_left and announcement.run is not run:
                    # Dropped while it ran; the others go on.
                    continue
                break
            if noted:
                code, why = 128 + noted[0], f"{signal.Signals(noted[0]).name} received"
            elif announcement.is_asked():
                code, why = 0, "asked to stop"
            else:
                announcement.refresh()
                if line.is_wanted:
                    line(run.progress)
                continue
            typer.echo(f"{why}: {announcement.name} stops after this batch", err=True)
            announcement.refresh("stopping")
            stop_after_batch(run, noted)
            typer.echo(f"{announcement.name} has stopped", err=True)
            return code
    return 0


def members_of(run: Run) -> Sequence[Run]:
    """The queries that share the process and the checkpoint with a run."""
    return (run,) if run.group is None else run.group.members


def end_with_input() -> None:
    """When standard input ends, this process is asked to end, as by SIGTERM.

    Whoever holds the other end of a pipe thereby ends what it has started, even by being killed.
    """

    def wait() -> None:
        while os.read(0, 4_096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="anabranch-input", daemon=True).start()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
