"""What a run has answered so far: shown, plotted, handed on to pandas, Polars, Arrow and Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from anabranch.display.attribute_hints import RUN_INSTEAD, attribute_error
from anabranch.display.result_table import SHOWN, ResultTable
from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.clock import Clock
from anabranch.model.history import History, snapshot_of
from anabranch.model.revision import Revision, clipped_changes
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.query.asking.plot import plot_events
from anabranch.runtime.query.asking.run_text import RunFacts
from anabranch.runtime.sinks.sinks import LogSink, Sink, known_parts

HERE_UP_TO_BYTES: Final = 1 << 25
"""Logs up to this size are added up in this process; Spark takes seconds for the smallest."""


class Answers(ABC):
    """The answers of a run, out of what its sink keeps; computed in this process."""

    _schema: pa.Schema
    _clock: Clock
    _sink: Sink

    @property
    @abstractmethod
    def stable(self) -> Time:
        """The stable point of the output."""

    @property
    def stable_time(self) -> Any:
        """The stable point as users write times: a datetime (UTC), or a number of chronons.

        None: there is none yet, or everything is final (`stable` is then `FOREVER`).
        """
        if self.stable in (BEGINNING, FOREVER):
            return None
        return self._clock.column(np.array([self.stable], np.int64))[0].as_py()

    def _get_spark(self) -> Any:
        """The session that answers become DataFrames of; None: there is none."""
        return None

    def events(self, *, known: int | None = None) -> ResultTable:
        """All events after all corrections, with their lifetimes: the netted history.

        Columns are those of the answer, then `start`, `end` (NULL: forever) and `final` (only a
        revision can still change the event). Times are timestamps where those of the stream are.

        Args:
            known: As it was after the revision of the output with this number; 0: before any.
        """
        history = self._history(known)
        names = [*self._schema.names, "start", "end", "final"]
        columns = [
            *history.payload.columns,
            self._times(history.start, BEGINNING),
            self._times(history.end, FOREVER),
            pa.array(history.is_final),
        ]
        if len(set(names)) < len(names):
            # A column of the answer goes before one of ours.
            names[-3:] = [_free(name, self._schema.names) for name in names[-3:]]
        return ResultTable(
            pa.Table.from_arrays(columns, names=names),
            what="event",
            caption=f"; {self._progress()}",
            get_spark=self._get_spark,
        )

    def snapshots(self, instants: Iterable[Any], *, known: int | None = None) -> ResultTable:
        """The answers at several instants, in one pass: a column `at`, then those of the answer.

        Args:
            instants: Numbers, ISO timestamps or datetimes.
            known: As for `events`.
        """
        wanted = np.unique(np.array([self._instant(each) for each in instants], np.int64))
        history = self._history(known)
        first = np.searchsorted(wanted, history.start, side="left")
        last = np.searchsorted(wanted, history.end, side="left")
        count = np.maximum(last - first, 0)
        rows = np.repeat(np.arange(len(history)), count)
        # The position of each instant: the first of its event, and one more for every next row.
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        position = np.repeat(first, count) + offset
        order = np.argsort(position, kind="stable")
        times = self._times(wanted[position[order]], BEGINNING)
        payload = take_rows(history.payload, rows[order])
        name = "at" if "at" not in self._schema.names else _free("at", self._schema.names)
        table = pa.Table.from_arrays([times, *payload.columns], names=[name, *payload.schema.names])
        caption = f" at {len(wanted)} instant{'' if len(wanted) == 1 else 's'}"
        return ResultTable(table, caption=caption, get_spark=self._get_spark)

    def show(
        self,
        n: int = SHOWN,
        truncate: bool | int = False,
        *,
        at: Any = None,
        known: int | None = None,
    ) -> None:
        """Print the answer at an instant, or without one the events with their lifetimes.

        Args:
            n: The largest number of rows.
            truncate: The longest text of a value; True: 20, False: any.
            at: A number, an ISO timestamp or a datetime.
            known: As for `events`.

        Raises:
            PlanError: `n` is not a number of rows.
        """
        found = self.events(known=known) if at is None else self._at(at, known)
        found.show(n, truncate)

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there.
        if name.startswith("_"):
            raise AttributeError(name)
        raise attribute_error("a run", name, RUN_INSTEAD.get(name), dir(self), self)

    def to_pandas(self) -> Any:
        """All events as a pandas DataFrame: the columns of the answer, `start`, `end`, `final`."""
        return self.events().to_pandas()

    def plot(self, y: str | None = None, *, by: str | Sequence[str] | None = None) -> Any:
        """Draw a column over time, one line per group: what holds when. Needs matplotlib.

        Args:
            y: The column to draw; None: the last one with numbers.
            by: The columns whose values tell lines apart; None: all others that are not
                fractions. A list without names: one line.

        Returns:
            The axes of matplotlib.

        Raises:
            PlanError: There is no such column, or matplotlib is not installed.
        """
        return plot_events(self._history(None), self._clock, y, by)

    @abstractmethod
    def _facts(self) -> RunFacts:
        """What is told of the run where it is shown."""

    def __repr__(self) -> str:
        return self._facts().line

    def _repr_html_(self) -> str:
        return self._facts().html

    def _at(self, at: Any, known: int | None) -> ResultTable:
        """The snapshot at an instant."""
        instant = self._instant(at)
        moves = (
            part.changes if isinstance(part, Revision) else part for part in self._parts(known)
        )
        rows = snapshot_of(moves, instant, self._schema)
        final = "final" if instant < self.stable else f"not final: {self._progress()}"
        return ResultTable(
            pa.Table.from_batches([rows]),
            caption=f" at {self._clock.format(instant)}; {final}",
            get_spark=self._get_spark,
        )

    def _instant(self, at: Any) -> Time:
        """An instant of which the answer is still known.

        Raises:
            PlanError: The beginning of the log has been removed.
        """
        instant, since = self._clock.instant(at), self._since()
        if instant < since:
            raise PlanError(
                f"the snapshot at {self._clock.format(instant)} is no longer in the log",
                hint=f"it is complete from {self._clock.format(since)} on",
            )
        return instant

    def _history(self, known: int | None) -> History:
        return History.of(self._parts(known), self._schema)

    def _parts(self, known: int | None) -> Iterator[EventBatch | Revision]:
        since = self._since()
        for part in known_parts(self._sink.parts(), known):
            if isinstance(part, Revision) and since > BEGINNING:
                # What is revised before the log begins is no longer in it.
                yield replace(part, changes=clipped_changes(part.changes, since, FOREVER))
            else:
                yield part

    def _is_small(self, known: int | None) -> bool:
        """Whether the answers are best added up here, not by Spark."""
        if not isinstance(self._sink, LogSink):
            return True
        log = self._sink.log
        changes = (f"{log.path}/{each.file.name}" for each in log.revisions(known))
        try:
            size = sum(Path(file).stat().st_size for file in (*log.files(), *changes))
        except OSError:
            # It is not on a disk of this machine.
            return False
        return size <= HERE_UP_TO_BYTES

    def _since(self) -> Time:
        about = self._sink.log.record() if isinstance(self._sink, LogSink) else None
        return BEGINNING if about is None or about.since is None else Time(about.since)

    def _times(self, times: Any, missing: Time) -> pa.Array:
        return self._clock.column(times, times == missing)

    def _progress(self) -> str:
        """How far the answer is final, in words."""
        stable = self.stable
        if stable == BEGINNING:
            return "no stable point"
        return "all final" if stable == FOREVER else f"stable point {self._clock.format(stable)}"


def _free(name: str, taken: Sequence[str]) -> str:
    """The name with as many underscores in front as it needs."""
    while name in taken:
        name = f"_{name}"
    return name
