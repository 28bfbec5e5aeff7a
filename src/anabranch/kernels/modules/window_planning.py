"""The effect of a batch on windows, and the events in them as user operators see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Session, Snapshot
from anabranch.errors import EngineError, StreamError
from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.kernels.contract.column_names import CHECK, TIME
from anabranch.kernels.modules.window_bags import numbers
from anabranch.kernels.modules.window_events import WindowLayout, WindowMembers, Windows
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import BEGINNING, FOREVER, Time, add_saturating


@final
@dataclass(frozen=True, slots=True, eq=False)
class Horizon:
    """For groups the instant from which on nothing begins or ends; for others `default`."""

    ids: Ids
    last: Ints
    default: int

    def of(self, ids: Ids) -> Ints:
        """That of some groups."""
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        found = np.full(len(ids), self.default)
        if len(self.ids):
            found_there = self.ids[at] == ids
            found[found_there] = self.last[at[found_there]]
        return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """How far time had come before a batch, and how far it has come with it.

    Attributes:
        stable: What was promised, before and now.
        seen: The largest start so far, or what was promised if that is more; before and now.
        horizon: At the end of time: so far what never ends is looked at.
    """

    stable: tuple[Time, Time]
    seen: tuple[int, int]
    horizon: Horizon | None = None

    @property
    def begun_before(self) -> int:
        """Windows that begin before this had begun before the batch."""
        return min(self.seen[0] + 1, int(FOREVER))

    def begun(self, ids: Ids) -> Ints:
        """Windows of groups that begin before this have begun now."""
        if self.horizon is not None:
            return self.horizon.of(ids)
        return np.full(len(ids), min(self.seen[1] + 1, int(FOREVER)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowPlan:
    """What a batch does to windows.

    Attributes:
        changed: Windows whose events are others than before, or are seen otherwise.
        gone: Windows that are no more.
        more: What has come into the changed windows and has left them; `owner` is the index into
            `changed`.
        since: For each changed window the one before the batch that `more` is relative to, as
            indexes into `old`; -1 where it is relative to nothing.
        old: Windows that there were.
        members: The events of windows.
        groups: Those that were looked at as a whole: windows made by events.
        now: Rows for the list of these windows: all that these groups have.
    """

    changed: Windows
    gone: Windows
    more: WindowMembers
    since: Ints
    old: Windows
    members: Callable[[Windows], WindowMembers]
    groups: Ids | None = None
    now: pa.RecordBatch | None = None


def visible(
    node: ApplyOperator, around: tuple[Ints, Ints], begin: Ints, stop: Ints
) -> tuple[Ints, Ints]:
    """Lifetimes as user operators see them in windows; where none does, ends do not count."""
    if not node.time_sensitive:
        return begin, np.zeros(len(begin), np.int64)
    since = np.maximum(begin, around[0]) if node.clip in ("left", "full") else begin
    until = np.minimum(stop, around[1]) if node.clip in ("right", "full") else stop
    return since, until


def until_of(node: ApplyOperator, ends: Ints) -> Ints:
    """From when on windows with these ends stay, and their events apart from ends behind them."""
    # An end that is as late as the promise may still move away.
    if isinstance(node.window, Snapshot) or (
        isinstance(node.window, Session) and node.window.gap == 1
    ):
        return add_saturating(ends, 1)
    return ends


def seen_until(node: ApplyOperator, windows: Windows, pairs: WindowMembers) -> Ints:
    """From when on nothing that user operators see of windows can change any more.

    `pairs` are all events of the windows.
    """
    until = until_of(node, windows.end)
    return np.maximum(until, ends_of(len(windows), pairs)) if node.sees_ends else until


def ends_of(windows: int, pairs: WindowMembers) -> Ints:
    """From when on no end of some events of windows can move."""
    latest = np.full(windows, BEGINNING)
    there = pairs.count > 0
    np.maximum.at(latest, pairs.owner[there], add_saturating(pairs.stop[there], 1))
    return latest


def present(node: ApplyOperator, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same events, if all of them are there.

    Raises:
        StreamError: One was taken away that was never there.
    """
    wrong = numbers(rows, COUNT) < 0
    if wrong.any():
        raise StreamError(
            "an adjust or withdrawal of an event that was never inserted",
            where=f"{node.label}: from instant {numbers(rows, TIME)[wrong.argmax()]} on",
            hint="run `anabranch check` on the source",
        )
    return rows


def refuse_mixed(layout: WindowLayout, rows: pa.RecordBatch, owner: Ints) -> None:
    """Two groups under one id are found, never mixed.

    Raises:
        EngineError: There are two.
    """
    if not layout.checked or not rows.num_rows:
        return
    order = np.argsort(owner, kind="stable")
    owner, check = owner[order], numbers(rows, CHECK)[order]
    if ((owner[1:] == owner[:-1]) & (check[1:] != check[:-1])).any():
        raise EngineError(
            "two different groups have the same 64-bit hash",
            where="windows of the time axis",
            hint="please report this with the query; until then group by one more column",
        )


def mixed_hash(value: Ids, *times: Ints) -> Ids:
    """A hash of a hash and some times."""
    for time in times:
        value = (value ^ time.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        value = value ^ (value >> np.uint64(29))
    return value
