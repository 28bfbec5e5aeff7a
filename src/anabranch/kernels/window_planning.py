"""Which windows a batch changes, and which events are in them: on a grid, or made by events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.apply_module import ApplyModule
from anabranch.algebra.axis_window import CountByStart, Hopping, Session, Snapshot
from anabranch.errors import EngineError, StreamError
from anabranch.kernels.axis_grid import first_open, windows_over
from anabranch.kernels.axis_spans import Spans, spans_of
from anabranch.kernels.columns import (
    Ids,
    Ints,
    Mask,
    group_max,
    group_starts,
    is_first,
    positions_of,
)
from anabranch.kernels.event_trace import END
from anabranch.kernels.kernel import ID, Run
from anabranch.kernels.runs import TIME
from anabranch.kernels.timeline import CHECK
from anabranch.kernels.timeline_rows import COUNT
from anabranch.kernels.window_bags import WEND, numbers
from anabranch.kernels.window_events import (
    NEW_STOP,
    START,
    STOP,
    Layout,
    Pairs,
    Windows,
    netted,
    no_pairs,
    put_together,
)
from anabranch.model.time import BEGINNING, FOREVER, Time, add_saturating


@final
@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """How far time had come before a batch, and how far it has come with it.

    Attributes:
        stable: What was promised, before and now.
        seen: The largest start so far, or what was promised if that is more; before and now.
        horizon: Nothing begins or ends from here on; of interest once nothing more can come.
    """

    stable: tuple[Time, Time]
    seen: tuple[int, int]
    horizon: int

    @property
    def begun(self) -> tuple[int, int]:
        """Windows that begin before this have begun: before, and now."""
        was, now = (min(seen + 1, int(FOREVER)) for seen in self.seen)
        return was, self.horizon if self.stable[1] == FOREVER else now


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a batch does to windows.

    Attributes:
        changed: Windows whose events are others than before, or are seen otherwise.
        gone: Windows that are no more.
        more: What has come into the changed windows and has left them; `owner` is the place among
            `changed`.
        since: For each changed window the one before the batch that `more` is relative to, as
            places in `known`; -1 where it is relative to nothing.
        known: Windows that there were.
        members: The events of windows.
        groups: Those that were looked at as a whole: windows made by events.
        now: Rows for the list of these windows: all that these groups have.
    """

    changed: Windows
    gone: Windows
    more: Pairs
    since: Ints
    known: Windows
    members: Callable[[Windows], Pairs]
    groups: Ids | None = None
    now: pa.RecordBatch | None = None


def _visible(
    node: ApplyModule, around: tuple[Ints, Ints], begin: Ints, stop: Ints
) -> tuple[Ints, Ints]:
    """Lifetimes as modules see them in windows; where none does, ends do not count."""
    if not node.time_sensitive:
        return begin, np.zeros(len(begin), np.int64)
    since = np.maximum(begin, around[0]) if node.clip in ("left", "full") else begin
    until = np.minimum(stop, around[1]) if node.clip in ("right", "full") else stop
    return since, until


def until_of(node: ApplyModule, windows: Windows, pairs: Pairs) -> Ints:
    """From when on nothing that modules see of windows can change any more."""
    until = windows.end
    if isinstance(node.window, Snapshot):
        # An end that is as late as the promise may still move away.
        until = add_saturating(until, 1)
    if node.sees_ends or isinstance(node.window, Session):
        latest = np.full(len(windows), BEGINNING)
        np.maximum.at(latest, pairs.owner, pairs.stop)
        until = np.maximum(until, add_saturating(latest, 1))
    return until


def grid_plan(
    node: ApplyModule,
    layout: Layout,
    runs: Sequence[Run],
    came: pa.RecordBatch,
    frontier: Frontier,
) -> Plan:
    """Windows that are there for any events; `runs` have the events with those that came."""
    moved, around = _moved(node, layout, came, frontier)
    late, begun = _begun_now(node, layout, runs, came, frontier)
    changed, number = Windows.of(
        np.concatenate([around.ids, begun.ids]),
        np.concatenate([around.start, begun.start]),
        np.concatenate([around.end, begun.end]),
    )
    more = put_together(moved, late.owned(late.owner + len(around)))
    more = replace(more, owner=number[more.owner])
    if (more.count < 0).any() or len(late):
        more = netted(more)
    used = np.zeros(len(changed), np.bool_)
    used[more.owner] = True
    if not used.all():
        changed, more = changed.take(used), replace(more, owner=(np.cumsum(used) - 1)[more.owner])
    return Plan(
        changed=changed,
        gone=Windows.none(),
        more=more,
        since=np.arange(len(changed)),
        known=changed,
        members=lambda windows: _grid_members(node, layout, runs, windows),
    )


def _moved(
    node: ApplyModule, layout: Layout, came: pa.RecordBatch, frontier: Frontier
) -> tuple[Pairs, Windows]:
    """What moves take out of windows that had begun, and bring into them."""
    assert isinstance(node.window, Hopping)
    start, stop, new_stop = (numbers(came, name) for name in (START, STOP, NEW_STOP))
    low, high = np.minimum(stop, new_stop), np.maximum(stop, new_stop)
    inside = np.zeros(len(low), np.bool_)
    if not node.time_sensitive:
        # Those windows only in which there is one event more, or one less.
        inside = low > start
    elif node.sees_ends:
        low = start
    before = FOREVER if _has_points(node) else min(frontier.begun)
    owner, begins, ends = windows_over(node.window, low, high, inside=inside, before=before)
    rows = came.select([name for name, _ in layout.about])
    parts = []
    for sign, last in ((-1, stop), (1, new_stop)):
        there = np.flatnonzero((begins < last[owner]) & (last[owner] > start[owner]))
        row = owner[there]
        seen = _visible(node, (begins[there], ends[there]), start[row], last[row])
        count = np.full(len(there), sign)
        parts.append(Pairs(there, row, count, start[row], last[row], *seen, rows))
    return put_together(*parts), Windows(numbers(came, ID)[owner], begins, ends)


def _has_points(node: ApplyModule) -> bool:
    return node.input.properties.only_points


def _begun_now(
    node: ApplyModule,
    layout: Layout,
    runs: Sequence[Run],
    came: pa.RecordBatch,
    frontier: Frontier,
) -> tuple[Pairs, Windows]:
    """Events that reach into windows that have begun since; points reach nowhere."""
    assert isinstance(node.window, Hopping)
    names = [name for name, _ in layout.about]
    before, now = frontier.begun
    if _has_points(node) or now <= before:
        return no_pairs(came.select(names)), Windows.none()
    rows = layout.events.where(runs, lambda rows: numbers(rows, END) > before)
    rows = _present(node, rows)
    start, stop = numbers(rows, TIME), numbers(rows, END)
    row, begins, ends = windows_over(node.window, start, stop, since=before, before=now)
    seen = _visible(node, (begins, ends), start[row], stop[row])
    count = numbers(rows, COUNT)[row]
    every = np.arange(len(row))
    pairs = Pairs(every, row, count, start[row], stop[row], *seen, rows.select(names))
    return pairs, Windows(numbers(rows, ID)[row], begins, ends)


def _grid_members(
    node: ApplyModule, layout: Layout, runs: Sequence[Run], windows: Windows
) -> Pairs:
    """The events of some windows: those of windows that overlap are read once."""
    assert isinstance(node.window, Hopping)
    first = is_first(windows.ids)
    latest = group_max(windows.end, group_starts(first)) if len(windows) else windows.end
    begins = first.copy()
    begins[1:] |= windows.start[1:] >= latest[:-1]
    cuts = np.flatnonzero(begins)
    lasts = np.append(cuts[1:], len(windows)) - 1 if len(cuts) else cuts
    ids, low, high = windows.ids[cuts], windows.start[cuts], latest[lasts]
    rows, stretch = layout.events.over(runs, ids, low, high, points=_has_points(node))
    refuse_mixed(layout, _present(node, rows), stretch)
    start, stop = numbers(rows, TIME), numbers(rows, END)
    row, since, until = windows_over(
        node.window, np.maximum(start, low[stretch]), np.minimum(stop, high[stretch])
    )
    owner = windows.find(ids[stretch[row]], since, until)
    keep = np.flatnonzero(owner >= 0)
    owner, row = owner[keep], row[keep]
    seen = _visible(node, (windows.start[owner], windows.end[owner]), start[row], stop[row])
    count = numbers(rows, COUNT)[row]
    rows = rows.select([name for name, _ in layout.about])
    return Pairs(owner, row, count, start[row], stop[row], *seen, rows)


def grid_line(node: ApplyModule, layout: Layout, runs: Sequence[Run], stable: Time) -> Time:
    """The start of the earliest window of which something may still change."""
    assert isinstance(node.window, Hopping)
    earliest = int(stable)
    if node.sees_ends and stable > BEGINNING:
        # What ends where the promise stands may still end later.
        rows = layout.events.where(runs, lambda rows: numbers(rows, END) >= stable)
        earliest = min(earliest, int(numbers(rows, TIME).min(initial=FOREVER)))
    return first_open(node.window, earliest)


def span_plan(
    node: ApplyModule,
    layout: Layout,
    runs: tuple[Sequence[Run], Sequence[Run]],
    groups: Ids,
    line: Ints,
) -> Plan:
    """Windows that events make: those of some groups, before a batch and with it.

    What lies before the `line` of its group has been forgotten, or might have been.
    """
    old, old_pairs, _ = _spanned(node, layout, runs[0], groups, line)
    new, new_pairs, now = _spanned(node, layout, runs[1], groups, line)
    where = new.find(old.ids, old.start, old.end)
    changes = _differ((old, old_pairs), (new, new_pairs), where)
    changed = new.take(changes)
    # What began at the same instant is what a window has grown out of, or was cut from.
    since = old.starting(changed.ids, changed.start)
    place = np.where(changes, np.cumsum(changes) - 1, -1)
    heir = np.full(len(old), -1)
    heir[since[since >= 0]] = np.flatnonzero(since >= 0)
    lost = old_pairs.owned(heir[old_pairs.owner])
    more = put_together(new_pairs.owned(place[new_pairs.owner]), replace(lost, count=-lost.count))

    def members(windows: Windows) -> Pairs:
        at = new.find(windows.ids, windows.start, windows.end)
        wanted = np.full(len(new), -1)
        wanted[at[at >= 0]] = np.flatnonzero(at >= 0)
        return new_pairs.owned(wanted[new_pairs.owner])

    return Plan(
        changed=changed,
        gone=old.take(where < 0),
        more=netted(more) if len(more) else more,
        since=since,
        known=old,
        members=members,
        groups=groups,
        now=now,
    )


def _spanned(
    node: ApplyModule, layout: Layout, runs: Sequence[Run], groups: Ids, line: Ints
) -> tuple[Windows, Pairs, pa.RecordBatch]:
    """The windows of groups, the events in them, and rows for the list of windows."""
    rows, group = layout.events.of(runs, groups)
    keep = np.flatnonzero(matters(node, rows, line[group]))
    rows, group = _present(node, rows.take(pa.array(keep))), group[keep]
    refuse_mixed(layout, rows, group)
    start, stop = numbers(rows, TIME), numbers(rows, END)
    spans = spans_of(node.window, group, start, stop)
    span, row = positions_of(spans.low, spans.high)
    held = np.zeros(len(spans.group), np.bool_)
    held[span] = True
    windows = Windows(groups[spans.group[held]], spans.start[held], spans.end[held])
    owner = (np.cumsum(held) - 1)[span]
    seen = _visible(node, (windows.start[owner], windows.end[owner]), start[row], stop[row])
    count = numbers(rows, COUNT)[row]
    about = rows.select([name for name, _ in layout.about])
    pairs = Pairs(owner, row, count, start[row], stop[row], *seen, about)
    return windows, pairs, _window_rows(node, layout, groups, spans, windows, pairs)


def _window_rows(
    node: ApplyModule,
    layout: Layout,
    groups: Ids,
    spans: Spans,
    windows: Windows,
    pairs: Pairs,
) -> pa.RecordBatch:
    """All windows, with the time from which on they stay; what is not complete may always grow."""
    growing = np.flatnonzero(~spans.complete)
    forever = np.full(len(growing), FOREVER)
    return layout.windows.rows(
        np.concatenate([windows.ids, groups[spans.group[growing]]]),
        np.concatenate([windows.start, spans.start[growing]]),
        np.concatenate([until_of(node, windows, pairs), forever]),
        np.ones(len(windows) + len(growing), np.int64),
        [pa.array(np.concatenate([windows.end, forever]))],
    )


def _differ(old: tuple[Windows, Pairs], new: tuple[Windows, Pairs], where: Ints) -> Mask:
    """Which of the new windows were not there, or have other events, by sums of hashes."""
    sums = []
    for windows, pairs in (old, new):
        each = []
        for value in pairs.hashes():
            mixed = mixed_hash(value, pairs.begin, pairs.since, pairs.until)
            total = np.zeros(len(windows), np.uint64)
            np.add.at(total, pairs.owner, mixed * pairs.count.astype(np.uint64))
            each.append(total)
        sums.append(each)
    changed = np.ones(len(new[0]), np.bool_)
    there = np.flatnonzero(where >= 0)
    at = where[there]
    same = np.ones(len(there), np.bool_)
    for before, after in zip(*sums):
        same &= before[there] == after[at]
    changed[at[same]] = False
    return changed


def mixed_hash(value: Ids, *times: Ints) -> Ids:
    """A hash of a hash and some times."""
    for time in times:
        value = (value ^ time.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        value = value ^ (value >> np.uint64(29))
    return value


def matters(node: ApplyModule, rows: pa.RecordBatch, line: Ints | int) -> Mask:
    """Which events may be in windows that begin at the line of their group, or later."""
    times = numbers(rows, TIME if isinstance(node.window, CountByStart) else END)
    return np.asarray(times >= line)


def _present(node: ApplyModule, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same events, if all of them are there.

    Raises:
        StreamError: One was taken away that was never there.
    """
    wrong = numbers(rows, COUNT) < 0
    if wrong.any():
        raise StreamError(
            "an event is withdrawn, or ends otherwise, that was never inserted",
            where=f"{node.label}: from instant {numbers(rows, TIME)[wrong.argmax()]} on",
            hint="run `anabranch check` on the source",
        )
    return rows


def refuse_mixed(layout: Layout, rows: pa.RecordBatch, owner: Ints) -> None:
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


def lines_of(layout: Layout, runs: Sequence[Run], groups: Ids, stable: Time) -> Ints:
    """For each group the start of the earliest window that may still change, or what is promised.

    `runs` are those of the list of windows.
    """
    rows, group = layout.windows.of(runs, groups)
    line = np.full(len(groups), stable)
    alive = np.flatnonzero((numbers(rows, COUNT) > 0) & (numbers(rows, END) > stable))
    np.minimum.at(line, group[alive], numbers(rows, TIME)[alive])
    return line


def open_since(node: ApplyModule, layout: Layout, runs: Sequence[Run], stable: Time) -> int:
    """The start of the earliest window made by events that may still change, or FOREVER."""
    rows = layout.windows.where(runs, lambda rows: numbers(rows, END) > stable)
    there = numbers(rows, COUNT) > 0
    if isinstance(node.window, Snapshot) and not node.time_sensitive and node.columns is None:
        # If the end of such a window moves, what was said of it holds longer, and that is all.
        there &= numbers(rows, WEND) > stable
    return int(numbers(rows, TIME)[there].min(initial=FOREVER))
