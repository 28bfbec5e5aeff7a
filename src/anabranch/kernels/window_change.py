"""What a batch changes: modules are asked, and what they say is compared with what they said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.apply_module import ApplyModule
from anabranch.algebra.axis_window import Hopping
from anabranch.algebra.window_columns import bound_type, has_clock
from anabranch.kernels.axis_grid import first_open, windows_over
from anabranch.kernels.columns import Ints, Mask, is_first
from anabranch.kernels.event_trace import END
from anabranch.kernels.kernel import ID, Run
from anabranch.kernels.keys import ids_and_checks
from anabranch.kernels.module_windows import (
    Failure,
    Said,
    States,
    advance,
    ask_all,
    window_of,
)
from anabranch.kernels.runs import TIME
from anabranch.kernels.timeline_rows import COUNT
from anabranch.kernels.window_bags import (
    ROW,
    WEND,
    negative,
    numbers,
    sorted_rows,
)
from anabranch.kernels.window_events import (
    MEMBERS,
    SINCE,
    UNTIL,
    Layout,
    Pairs,
    Windows,
    no_pairs,
    put_together,
)
from anabranch.kernels.window_planning import Frontier, Plan, mixed_hash, until_of
from anabranch.model.batch import EventBatch, no_rows, take_rows
from anabranch.model.netting import net
from anabranch.model.payload import payloads, show_payload
from anabranch.model.time import BEGINNING, FOREVER, format_time

TOLD: Final = pa.schema([(ID, pa.uint64()), (TIME, pa.int64()), ("said", pa.string())])
_MOST_TOLD: Final = 100
"""Of so many failed windows of a batch it is told what happened; the others are counted."""

_MOST_SHOWN: Final = 20
"""So many events of a failed window are told of."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What a trace holds, list by list; `events` are those with the batch."""

    answers: Sequence[Run]
    states: Sequence[Run]
    waiting: Sequence[Run]
    groups: Sequence[Run]
    events: Sequence[Run]


@final
@dataclass(slots=True, eq=False)
class Change:
    """What leaves, and rows to be added to the lists of the trace."""

    output: EventBatch
    waiting: pa.RecordBatch
    answers: pa.RecordBatch
    states: pa.RecordBatch
    groups: pa.RecordBatch
    told: pa.RecordBatch | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """States of windows: the rows that hold them, and for each window its row or -1."""

    rows: pa.RecordBatch
    place: Ints

    def take(self, places: Ints) -> _Held:
        """Those of some windows."""
        return _Held(self.rows, self.place[places])

    def states(self, layout: Layout) -> States:
        """The states, window by window."""
        found = []
        for number in range(layout.states):
            data = self.rows.column(f"state{number}").to_pylist()
            found.append([data[at] if at >= 0 else None for at in self.place.tolist()])
        return States(tuple(found))

    def failed(self) -> Mask:
        """Windows whose states could not be made."""
        if "state0" not in self.rows.schema.names:
            return np.zeros(len(self.place), np.bool_)
        nulls = self.rows.column("state0").is_null().to_numpy(zero_copy_only=False)
        return np.asarray((self.place >= 0) & np.append(nulls, False)[self.place])

    def column(self, name: str, default: int) -> Ints:
        """A number of each window."""
        return np.append(numbers(self.rows, name), default)[self.place]


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """What is said of windows, row by row; `until` and `keys` are those of the windows."""

    windows: Windows
    until: Ints
    keys: list[pa.Array]
    said: Said


def change_windows(
    node: ApplyModule,
    layout: Layout,
    known: Known,
    frontier: Frontier,
    plan: Plan,
    ready: pa.RecordBatch,
    shown: Mask,
) -> Change:
    """Ask about windows, and find out what is new.

    Args:
        node: The node.
        layout: Its layout.
        known: What the trace holds.
        frontier: How far time has come.
        plan: What happens to windows.
        ready: Rows of windows that waited, and are told of now.
        shown: Which of the changed windows are told of.
    """
    work = _Work(node, layout, known, frontier)
    gone = Windows.union(plan.gone, work.beyond())
    waited = Windows(numbers(ready, ID), numbers(ready, TIME), numbers(ready, WEND))
    asked = work.without(Windows.union(plan.changed.take(shown), waited), gone)
    held = work.update_states(plan, gone) if layout.states else None
    told = work.ask(asked, plan, held)
    output = work.compare(asked, gone, told)
    if node.empty:
        output = EventBatch.concat([output, work.fill()])
    return Change(
        output=net(output),
        waiting=work.wait(plan.changed.take(~shown), ready, gone),
        answers=work.answers,
        states=work.states,
        groups=work.groups,
        told=work.tell(),
    )


@final
@dataclass(slots=True, eq=False)
class _Work:
    """One step over windows, and what it leaves behind."""

    node: ApplyModule
    layout: Layout
    known: Known
    frontier: Frontier
    answers: pa.RecordBatch = field(init=False)
    states: pa.RecordBatch = field(init=False)
    groups: pa.RecordBatch = field(init=False)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers = no_rows(self.layout.answers.schema)
        self.states = no_rows(self.layout.kept.schema)
        self.groups = no_rows(self.layout.groups.schema)

    def beyond(self) -> Windows:
        """At the end of time: windows told of that begin after the last that happened."""
        if not self._is_cut:
            return Windows.none()
        rows = self.layout.answers.where(
            self.known.answers, lambda rows: numbers(rows, TIME) >= self.frontier.begun[1]
        )
        return Windows.of(numbers(rows, ID), numbers(rows, TIME), numbers(rows, WEND))[0]

    @property
    def _is_cut(self) -> bool:
        node, over = self.node, self.frontier.stable[1] == FOREVER
        return over and isinstance(node.window, Hopping) and not node.input.properties.only_points

    def without(self, windows: Windows, gone: Windows) -> Windows:
        """Windows that are still there."""
        there = gone.find(windows.ids, windows.start, windows.end) < 0
        if self._is_cut:
            there &= windows.start < self.frontier.begun[1]
        return windows.take(there)

    def _held(self, windows: Windows) -> _Held:
        """The states that the trace has of some windows."""
        rows, owner = self.layout.kept.at(self.known.states, windows.ids, windows.start)
        own = np.flatnonzero(numbers(rows, WEND) == windows.end[owner])
        place = np.full(len(windows), -1)
        place[owner[own]] = np.arange(len(own))
        return _Held(rows.take(pa.array(own)), place)

    def update_states(self, plan: Plan, gone: Windows) -> _Held:
        """Let modules with states know what came and left; gives the states as they are now."""
        layout, windows = self.layout, plan.changed
        based = plan.since >= 0
        bases = plan.known.take(plan.since[based])
        prior = Windows.union(bases, gone)
        held = self._held(prior)
        place = np.full(len(windows), -1)
        place[based] = held.place[prior.find(bases.ids, bases.start, bases.end)]
        before = _Held(held.rows, place)
        more, again = self._rebuilt(plan, before)
        before = _Held(held.rows, np.where(again, -1, place))
        keys = self._keys(len(windows), more, _Held(held.rows, place))
        after, failures = advance(self.node, layout, windows, before.states(layout), more)
        self._note(failures, windows, keys, more)
        counts = before.column(MEMBERS, 0)
        np.add.at(counts, more.owner, more.count)
        until = until_of(self.node, windows, more)
        if self.node.sees_ends:
            until = np.maximum(until, before.column(END, BEGINNING))
        some = np.flatnonzero(counts > 0)
        fresh = self._state_rows(windows, until, counts, keys, after, some)
        self.states = sorted_rows(negative(held.rows), fresh)
        now = np.full(len(windows), -1)
        now[some] = np.arange(len(some))
        return _Held(fresh, now)

    def _rebuilt(self, plan: Plan, before: _Held) -> tuple[Pairs, Mask]:
        """What came and left; all events of windows whose states must be made anew."""
        again, more = before.failed(), plan.more
        if any(not call.module.removes for call in self.node.calls):
            again[more.owner[more.count < 0]] = True
        if again.any():
            some = np.flatnonzero(again)
            members = plan.members(plan.changed.take(some))
            more = put_together(more.take(~again[more.owner]), members.owned(some[members.owner]))
        return more, again

    def _keys(self, windows: int, pairs: Pairs, held: _Held) -> list[pa.Array]:
        """What windows are grouped by: their events say it, or their states."""
        first = np.full(windows, -1)
        first[pairs.owner[::-1]] = pairs.row[::-1]
        place = np.where(first >= 0, first, held.place + pairs.rows.num_rows)
        where = pa.array(place, mask=(first < 0) & (held.place < 0))
        return [
            pa.concat_arrays([pairs.rows.column(name), held.rows.column(name)]).take(where)
            for name in self.layout.key_names
        ]

    def _state_rows(
        self,
        windows: Windows,
        until: Ints,
        counts: Ints,
        keys: Sequence[pa.Array],
        states: States,
        some: Ints,
    ) -> pa.RecordBatch:
        """Rows with the states of some windows, in their order."""
        chosen, where = windows.take(some), pa.array(some)
        blobs = [pa.array([each[at] for at in some.tolist()], pa.binary()) for each in states.each]
        row, check = ids_and_checks(blobs, len(some))
        return self.layout.kept.rows(
            chosen.ids,
            chosen.start,
            until[some],
            np.ones(len(some), np.int64),
            [
                pa.array(chosen.end),
                pa.array(counts[some]),
                pa.array(row),
                pa.array(check),
                *(key.take(where) for key in keys),
                *blobs,
            ],
        )

    def ask(self, asked: Windows, plan: Plan, updated: _Held | None) -> _Told:
        """What modules say of windows that have events."""
        layout = self.layout
        held = self._current(asked, plan, updated)
        members = None
        if layout.states < len(self.node.calls):
            members = plan.members(asked)
            counts = np.bincount(members.owner, members.count, len(asked)).astype(np.int64)
        else:
            counts = held.column(MEMBERS, 0)
        some = np.flatnonzero(counts > 0)
        windows, held = asked.take(some), held.take(some)
        if members is not None:
            back = np.full(len(asked), -1)
            back[some] = np.arange(len(some))
            members = members.owned(back[members.owner])
            until = until_of(self.node, windows, members)
        else:
            until = held.column(END, 0)
        pairs = no_pairs(self._no_events) if members is None else members
        keys = self._keys(len(windows), pairs, held)
        # Of these it has been told when they failed.
        failed = dict.fromkeys(np.flatnonzero(held.failed()).tolist(), _BEFORE)
        said = ask_all(self.node, layout, windows, members, held.states(layout), failed)
        self._note(
            {at: each for at, each in said.failures.items() if at not in failed},
            windows,
            keys,
            pairs,
        )
        return _Told(windows, until, keys, said)

    @property
    def _no_events(self) -> pa.RecordBatch:
        return no_rows(pa.schema(self.layout.about))

    def _current(self, asked: Windows, plan: Plan, updated: _Held | None) -> _Held:
        """The states of windows: those that have just changed, and those of the trace."""
        if updated is None:
            return _Held(no_rows(self.layout.kept.schema), np.full(len(asked), -1))
        at = plan.changed.find(asked.ids, asked.start, asked.end)
        others = np.flatnonzero(at < 0)
        held = self._held(asked.take(others))
        place = np.where(
            at >= 0, updated.place[np.maximum(at, 0)] if len(updated.place) else -1, -1
        )
        shifted = held.place + np.where(held.place >= 0, updated.rows.num_rows, 0)
        place[others] = shifted
        parts = [rows.replace_schema_metadata(None) for rows in (updated.rows, held.rows)]
        return _Held(pa.concat_batches(parts), place)

    def compare(self, asked: Windows, gone: Windows, told: _Told) -> EventBatch:
        """The moves that lead from what was said of windows to what is said now."""
        windows = Windows.union(asked, gone)
        old, owner = self.layout.answers.at(self.known.answers, windows.ids, windows.start)
        own = np.flatnonzero(numbers(old, WEND) == windows.end[owner])
        old = old.take(pa.array(own))
        new = self._answer_rows(told)
        if self.node.timestamps == "time_bound":
            old, new = self._bounded(old, new, told)
        self.answers = sorted_rows(negative(old), new)
        return EventBatch.concat([self._moves(old, come=False), self._moves(new, come=True)])

    def _answer_rows(self, told: _Told) -> pa.RecordBatch:
        said, windows = told.said, told.windows
        owner = said.owner
        keys = [key.take(pa.array(owner)) for key in told.keys]
        row, check = ids_and_checks([*keys, *said.columns], len(owner))
        return self.layout.answers.rows(
            windows.ids[owner],
            windows.start[owner],
            told.until[owner],
            np.ones(len(owner), np.int64),
            [
                pa.array(windows.end[owner]),
                pa.array(said.start),
                pa.array(said.end),
                pa.array(row),
                pa.array(check),
                *keys,
                *said.columns,
            ],
        )

    def _moves(self, rows: pa.RecordBatch, *, come: bool) -> EventBatch:
        """Rows of answers as events that come, or go."""
        every = np.repeat(np.arange(rows.num_rows), numbers(rows, COUNT))
        rows = rows.take(pa.array(every))
        start, end = numbers(rows, SINCE), numbers(rows, UNTIL)
        columns = [rows.column(name) for name in self.layout.key_names]
        if self.node.columns is not None:
            kind = bound_type(self.node.input)
            columns += [pa.array(numbers(rows, name)).view(kind) for name in (TIME, WEND)]
        columns += [rows.column(f"result{n}") for n in range(len(self.layout.results))]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.node.schema)
        return EventBatch(payload, start, start if come else end, end if come else start)

    def _bounded(
        self, old: pa.RecordBatch, new: pa.RecordBatch, told: _Told
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The same without groups of which something changes that was promised to stay."""
        bound = int(self.frontier.stable[0])
        ids = np.unique(np.concatenate([numbers(old, ID), numbers(new, ID)]))
        sums, places = [], []
        for rows in (old, new):
            place = np.searchsorted(ids, numbers(rows, ID))
            early = numbers(rows, SINCE) < bound
            last = np.minimum(numbers(rows, UNTIL), bound)
            mixed = mixed_hash(numbers(rows, ROW), numbers(rows, SINCE), last)
            total = np.zeros(len(ids), np.uint64)
            weight = np.where(early, numbers(rows, COUNT), 0).astype(np.uint64)
            np.add.at(total, place, mixed * weight)
            sums.append(total)
            places.append(place)
        wrong = sums[0] != sums[1]
        if not wrong.any():
            return old, new
        module = self.node.calls[0].module.name
        reason = f"{module} changed what holds before {format_time(bound)}, which was promised"
        own = np.flatnonzero(np.isin(told.windows.ids, ids[wrong]))
        problems = {int(place): Failure(int(place), module, reason, "") for place in own}
        self._note(problems, told.windows, told.keys, no_pairs(self._no_events))
        right = [np.flatnonzero(~wrong[place]) for place in places]
        return old.take(pa.array(right[0])), new.take(pa.array(right[1]))

    def wait(self, later: Windows, ready: pa.RecordBatch, gone: Windows) -> pa.RecordBatch:
        """What becomes of the list of windows that wait for their end."""
        bag = self.layout.windows
        ones = np.ones(len(later), np.int64)
        rows, owner = bag.at(self.known.waiting, gone.ids, gone.start)
        lost = rows.take(pa.array(np.flatnonzero(numbers(rows, WEND) == gone.end[owner])))
        popped = Windows(numbers(ready, ID), numbers(ready, TIME), numbers(ready, WEND))
        still = popped.find(*(numbers(lost, name) for name in (ID, TIME, WEND))) < 0
        lost = lost.take(pa.array(np.flatnonzero(still)))
        more = bag.rows(later.ids, later.start, later.end, ones, [pa.array(later.end)])
        return sorted_rows(negative(ready), negative(lost), more)

    def fill(self) -> EventBatch:
        """Windows without events that have ended for good, of groups that have begun."""
        window, layout = self.node.window, self.layout
        assert isinstance(window, Hopping)
        before, now = self.frontier.stable
        if now <= before:
            return EventBatch.empty(self.node.schema)
        events = layout.events.where(self.known.events, lambda rows: numbers(rows, END) > before)
        row, start, end = windows_over(
            window, numbers(events, TIME), numbers(events, END), before=self.frontier.begun[1]
        )
        over = np.flatnonzero((end > before) & (end <= now))
        row, (held, _) = (
            row[over],
            Windows.of(numbers(events, ID)[row[over]], start[over], end[over]),
        )
        groups = self._groups(events, row, held)
        ids, first = numbers(groups, ID), numbers(groups, TIME)
        last = np.full(len(ids), now)
        if now == FOREVER:
            last = np.full(len(ids), BEGINNING)
            np.maximum.at(last, np.searchsorted(ids, held.ids), held.end)
        empty, owner = _between(window, first, int(before), last)
        windows = Windows(ids[owner], *empty)
        none = held.find(windows.ids, windows.start, windows.end) < 0
        windows, owner = windows.take(none), owner[none]
        keys = [groups.column(name).take(pa.array(owner)) for name in layout.key_names]
        pairs = no_pairs(self._no_events)
        states = States.none(layout.states, len(windows))
        said = ask_all(self.node, layout, windows, pairs, states, {})
        self._note(said.failures, windows, keys, pairs)
        return self._moves(self._answer_rows(_Told(windows, windows.end, keys, said)), come=True)

    def _groups(self, events: pa.RecordBatch, row: Ints, held: Windows) -> pa.RecordBatch:
        """All groups with their first window; those that have just begun are noted."""
        bag = self.layout.groups
        known = bag.where(self.known.groups, lambda rows: numbers(rows, COUNT) != 0)
        begins = is_first(held.ids)
        fresh = ~np.isin(held.ids[begins], numbers(known, ID))
        ids, start = held.ids[begins][fresh], held.start[begins][fresh]
        of = numbers(events, ID)[row]
        order = np.argsort(of, kind="stable")
        place = row[order[np.searchsorted(of[order], ids)]] if len(ids) else np.empty(0, np.int64)
        keys = [events.column(name).take(pa.array(place)) for name in self.layout.key_names]
        ones, forever = np.ones(len(ids), np.int64), np.full(len(ids), FOREVER)
        self.groups = bag.rows(ids, start, forever, ones, keys)
        return sorted_rows(known, self.groups)

    def _note(
        self,
        failures: Mapping[int, Failure],
        windows: Windows,
        keys: Sequence[pa.Array],
        pairs: Pairs,
    ) -> None:
        """Fail, or remember what is to be told.

        Raises:
            OperatorError: The first failure, if the query shall not go on without.
        """
        for place in sorted(failures):
            failure = failures[place]
            group = payloads(
                pa.RecordBatch.from_arrays(
                    [key.slice(place, 1) for key in keys], names=self.layout.key_names
                ),
                1,
            )[0]
            if self.node.errors == "fail":
                window = window_of(windows, place)
                raise self.node.failed(
                    failure.reason, window, group, failure.event
                ) from failure.cause
            self.failures.append(self._about(failure, windows, place, group, pairs))

    def _about(
        self, failure: Failure, windows: Windows, place: int, group: Any, pairs: Pairs
    ) -> dict[str, Any]:
        clock = has_clock(self.node.input)
        start, end = int(windows.start[place]), int(windows.end[place])
        told: dict[str, Any] = {
            "module": failure.module,
            "reason": failure.reason,
            "window": [format_time(time, timestamps=clock) for time in (start, end)],
            "group": show_payload(group) if self.layout.keys else None,
            "event": failure.event,
        }
        if self.node.errors == "quarantine":
            own = np.flatnonzero((pairs.owner == place) & (pairs.count > 0))
            rows = take_rows(pairs.rows, pairs.row[own[:_MOST_SHOWN]])
            values = payloads(rows.select(self.layout.value_names), rows.num_rows)
            told["events"] = [
                {
                    "values": show_payload(value),
                    "start": format_time(int(pairs.begin[at]), timestamps=clock),
                    "end": format_time(int(pairs.stop[at]), timestamps=clock),
                }
                for value, at in zip(values, own)
            ]
            told["count"] = int(pairs.count[own].sum())
        return told

    def tell(self) -> pa.RecordBatch | None:
        """What is reported of windows that have no results for a reason."""
        if not self.failures:
            return None
        said = [{"failed": len(self.failures)}, *self.failures[:_MOST_TOLD]]
        count = len(said)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(np.zeros(count, np.uint64)),
                pa.array(np.zeros(count, np.int64)),
                pa.array([json.dumps(each) for each in said]),
            ],
            schema=TOLD,
        )


_BEFORE: Final = Failure(-1, "", "", "")


def _between(
    window: Hopping, first: Ints, before: int, last: Ints
) -> tuple[tuple[Ints, Ints], Ints]:
    """The windows from a first one on that end after an instant and not after a last one."""
    low = np.maximum(first, first_open(window, before))
    owner, start, end = windows_over(window, low, last, inside=np.ones(len(low), np.bool_))
    keep = np.flatnonzero((end <= last[owner]) & (end > before))
    return (start[keep], end[keep]), owner[keep]
