"""The answer of a running query, as a table that changes in place."""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anabranch.cli.queries.live_answer import Instant
from anabranch.cli.queries.live_query import LiveQuery
from anabranch.cli.queries.running import Totals
from anabranch.display.progress_line import rewritten_text
from anabranch.display.text_table import cells, numeric
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.query.asking.waiting import noted_signals

_LOOK: Final = 0.25
_SPAN: Final = 10.0
"""Rates are those of so many seconds."""

_RECENT: Final = 20
"""This many recent events are shown where nothing holds."""

_AROUND: Final = 6
"""Lines of the view that are no rows."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One state of the view.

    Attributes:
        head: What the query is doing.
        names: The columns.
        numeric: Which of them hold numbers.
        rows: The snapshot, as texts.
        fresh: How many rows of each kind were not in the snapshot before.
        gone: How many rows of that are no longer there.
        foot: Which snapshot it is.
    """

    head: str
    names: Sequence[str]
    numeric: set[int]
    rows: Sequence[tuple[str, ...]]
    fresh: Counter[tuple[str, ...]]
    gone: int
    foot: str

    def table(self, height: int) -> Group:
        """The view, cut to so many lines; where that hides rows, the new ones come first."""
        room = max(height - _AROUND, 1)
        left = self.fresh.copy()
        marked: list[tuple[bool, tuple[str, ...]]] = []
        for row in self.rows:
            marked.append((left[row] > 0, row))
            left[row] -= 1
        if len(marked) > room:
            marked.sort(key=lambda each: not each[0])
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("")
        for index, name in enumerate(self.names):
            table.add_column(Text(name), justify="right" if index in self.numeric else "left")
        for is_fresh, row in marked[:room]:
            style = "green" if is_fresh else ""
            table.add_row("+" if is_fresh else "", *(Text(cell) for cell in row), style=style)
        hidden = len(marked) - room
        more = f"; {hidden:,} more rows do not fit" if hidden > 0 else ""
        changes = f"; {self.fresh.total():,} new, {self.gone:,} gone" if self._changes else ""
        return Group(
            Text(self.head, style="bold"), table, Text(f"{self.foot}{changes}{more}", style="dim")
        )

    @property
    def _changes(self) -> bool:
        return bool(self.fresh.total() or self.gone)


@final
class LiveView:
    """Looks at a run and its answer now and then, and remembers what it saw."""

    def __init__(self, query: LiveQuery, at: Instant = "stable") -> None:
        """Nothing seen yet."""
        self._query = query
        self._answer = query.answer
        self._at = at
        self._totals = Totals()
        self._past: deque[tuple[float, int, int]] = deque()
        self._seen: Counter[tuple[str, ...]] | None = None
        self._batches = -1
        self._frame: Frame | None = None

    def look(self, now: float) -> Frame:
        """The state of the view; rows are new until the next batch that changes something."""
        self._totals.look(self._query.run)
        if self._frame is None or self._answer.batches != self._batches:
            self._batches = self._answer.batches
            self._frame = self._new_frame()
        self._frame = replace(self._frame, head=self._head(now))
        return self._frame

    def _new_frame(self) -> Frame:
        answer = self._answer
        names, numbers = list(answer.schema.names), numeric(answer.schema)
        instant = answer.instant(self._at)
        rows = list(zip(*cells(answer.snapshot(instant))))
        foot = self._status(instant, len(rows))
        if not rows and instant != BEGINNING:
            # Points are over at once: what came last tells more than what holds.
            recent = answer.recent(_RECENT)
            times = [[answer.show(time) for time in ends] for ends in (recent.start, recent.end)]
            rows = list(zip(*cells(recent.payload), *times))
            foot = f"{foot}; these are the last {len(rows)} events"
            numbers |= {len(names), len(names) + 1}
            names += ["start", "end"]
        held = Counter(rows)
        before = held if self._seen is None else self._seen
        self._seen = held
        return Frame(
            head="",
            names=names,
            numeric=numbers,
            rows=rows,
            fresh=held - before,
            gone=(before - held).total(),
            foot=foot,
        )

    def _status(self, instant: Time, count: int) -> str:
        if instant == BEGINNING:
            return "nothing yet"
        state = "final" if instant < self._answer.stable else "may still change"
        rows = "1 row" if count == 1 else f"{count:,} rows"
        return f"{rows} at {self._answer.show(instant)}, {state}"

    def _head(self, now: float) -> str:
        totals = self._totals
        self._past.append((now, totals.rows_in, totals.rows_out))
        while now - self._past[0][0] > _SPAN:
            self._past.popleft()
        then, read, written = self._past[0]
        seconds = max(now - then, _LOOK)
        stable = self._answer.stable
        parts = [
            f"{self._query.name}: {self._query.status}",
            "no batch yet" if totals.batch is None else f"batch {totals.batch}",
            f"{totals.rows_in:,} rows read ({(totals.rows_in - read) / seconds:,.0f}/s)",
            f"{totals.rows_out:,} written ({(totals.rows_out - written) / seconds:,.0f}/s)",
            "no stable point" if stable == BEGINNING else f"stable {self._answer.show(stable)}",
        ]
        if totals.late:
            parts.append(f"{totals.late:,} late")
        if totals.revised:
            parts.append(f"{totals.revised:,} revised")
        if totals.rewritten:
            parts.append(rewritten_text(totals.rewritten))
        return "  ".join(parts)


def watch(query: LiveQuery, console: Console, at: Instant = "stable") -> bool:
    """Show the answer until the query ends or somebody presses Ctrl-C; true if it has ended."""
    view, answer = LiveView(query, at), query.answer
    with (
        noted_signals(signal.SIGINT) as noted,
        Live(console=console, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while True:
            running = query.status == "running"
            query.feed()
            batches = answer.batches
            live.update(view.look(time.monotonic()).table(console.height), refresh=True)
            if noted or not running:
                return not running
            answer.await_batch(batches, _LOOK)
