"""`anabranch top`: what do the queries of this machine do right now?"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, final

import typer

from anabranch.cli.queries.entries import RunningQueries, RunningQuery
from anabranch.cli.tables import show_table

_SPAN: Final = 10.0
"""Rates are those of so many seconds."""

_NAMES: Final = (
    "name",
    "status",
    "batch",
    "in/s",
    "out/s",
    "late",
    "revised",
    "failed",
    "stable",
    "lag",
    "batch s",
    "state rows",
    "state",
    "output",
)
_NUMERIC: Final = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def top(
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
) -> None:
    r"""Watch the queries that run on this machine, until Ctrl-C.

    'in/s' and 'out/s' are rows read and elements written per second, over the last ten seconds;
    'lag' is how far a query's stable point is behind its most advanced source. 'revised' counts
    rows below a stable point that became revisions of results, 'failed' windows without results
    because a module failed.

    \b
    $ anabranch top --once
    name     status   batch  in/s  out/s  late  revised  failed  stable  lag  batch s  state rows
    highest  running     12     0      0     3        0       0      80    5     0.21         240
    """
    entries, rates = RunningQueries(), Rates()
    if once:
        shown = _alive(entries)
        rates.look(shown, time.monotonic())
        if shown:
            show_table(_NAMES, _columns(shown, rates), _NUMERIC)
        else:
            typer.echo("no queries are running", err=True)
        return
    _watch(entries, rates, interval)


@final
class Rates:
    """How fast counters of queries grow."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._seen: dict[str, deque[tuple[float, int, int]]] = {}

    def look(self, entries: Sequence[RunningQuery], now: float) -> None:
        """Note what the counters say now."""
        marks = {entry.mark for entry in entries}
        for gone in self._seen.keys() - marks:
            del self._seen[gone]
        for entry in entries:
            seen = self._seen.setdefault(entry.mark, deque())
            seen.append((now, entry.rows_in, entry.rows_out))
            while now - seen[0][0] > _SPAN and len(seen) > 1:
                seen.popleft()

    def of(self, entry: RunningQuery) -> tuple[float, float]:
        """Rows read and elements written per second."""
        seen = self._seen[entry.mark]
        (first, read, written), (last, read_now, written_now) = seen[0], seen[-1]
        span = last - first
        if not span:
            return 0.0, 0.0
        return (read_now - read) / span, (written_now - written) / span


def _watch(entries: RunningQueries, rates: Rates, interval: float) -> None:
    from rich import box
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    def view() -> Group:
        shown = _alive(entries)
        rates.look(shown, time.monotonic())
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for index, name in enumerate(_NAMES):
            table.add_column(name, justify="right" if index in _NUMERIC else "left")
        for row in zip(*_columns(shown, rates)):
            table.add_row(*map(Text, row))
        many = "1 query" if len(shown) == 1 else f"{len(shown)} queries"
        clock = time.strftime("%H:%M:%S")
        return Group(Text(f"{many}, {clock}; Ctrl-C to leave", style="bold"), table)

    with Live(view(), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(interval)
            live.update(view(), refresh=True)


def _alive(entries: RunningQueries) -> list[RunningQuery]:
    return [entry for entry in entries.all() if entry.is_alive]


def _columns(entries: Sequence[RunningQuery], rates: Rates) -> list[list[str]]:
    rows = [_row(entry, *rates.of(entry)) for entry in entries]
    return [[row[name] for row in rows] for name in _NAMES]


def _row(entry: RunningQuery, read: float, written: float) -> Mapping[str, str]:
    seconds = entry.batch_seconds
    return {
        "name": entry.name,
        "status": entry.status,
        "batch": _text(entry.batch),
        "in/s": f"{read:,.0f}",
        "out/s": f"{written:,.0f}",
        "late": f"{entry.late:,}",
        "revised": f"{entry.revised:,}",
        "failed": f"{entry.failed_windows:,}",
        "stable": _text(entry.stable),
        "lag": _text(entry.lag),
        "batch s": "" if seconds is None else f"{seconds:.2f}",
        "state rows": f"{entry.state_rows:,}",
        "state": size_text(entry.state_bytes),
        "output": entry.to,
    }


def size_text(size: float) -> str:
    """Bytes for people.

    >>> size_text(0), size_text(18_432), size_text(5_250_000_000)
    ('0 B', '18 kB', '5.2 GB')
    """
    unit = 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit > 1 and size < 10 else f"{size:.0f} {_UNITS[unit]}"


def _text(value: object) -> str:
    return "" if value is None else str(value)
