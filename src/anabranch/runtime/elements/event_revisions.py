"""What revisions do to a table of events: lifetimes are cut, and what was known before stays.

A row of the table is a rectangle: its payload holds in `[start, end)` and is known after the
revisions `[known_from, known_until)`. A move of the stream is about all revisions, a change of
revision r about `[r, NEVER)`. Both add or take away a rectangle, whatever rows cover it:

    row  a [15, 40)                       known always
    revision 7 withdraws a in [20, 30)
    rows a [15, 40)                       known until 7
         a [15, 20), a [30, 40)           known from 7

So the rows that are known after revision r have the snapshots of the stream with the revisions up
to r. A table that keeps no versions is the same with one version for all revisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.batch import EventBatch, concat_rows
from anabranch.model.revision import Revision, snapshot_changes
from anabranch.model.time import Time
from anabranch.runtime.elements.event_table import (
    ALWAYS,
    NEVER,
    EventColumns,
    EventRows,
    Numbers,
    change_table,
    payload_hashes,
    signed_events,
)

_COLUMNS: Final = ("payload", "start", "end", "known_from", "known_until", "copies")

Rectangle: TypeAlias = tuple[int, int, int, int]
"""Valid from and to, known from and until."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class TouchedRows:
    """Which rows of a table a change may touch.

    Those of these payloads that end at `first` or later and start before `last`.
    """

    payloads: Numbers
    first: Time
    last: Time


def touched_rows(rows: EventBatch, revisions: Sequence[Revision]) -> list[TouchedRows]:
    """What has to be read from the table before the changes are known; inserts need nothing."""
    found = []
    for moves in (rows, *(revision.changes for revision in revisions)):
        moved = moves.where((moves.end > moves.start) & (moves.end != moves.new_end))
        if len(moved):
            first = Time(int(np.minimum(moved.end, moved.new_end).min()))
            last = Time(int(np.maximum(moved.end, moved.new_end).max()))
            found.append(TouchedRows(np.unique(payload_hashes(moved)), first, last))
    return found


def revised_changes(
    there: EventRows, rows: EventBatch, revisions: Sequence[Revision], form: EventColumns
) -> pa.RecordBatch:
    """By how much the copies of each row of the table change, by revisions and then by rows.

    Args:
        there: All rows of the table that `touched_rows` names; `payload` is the hash.
        rows: The moves of the batch.
        revisions: What comes before them, in ascending order.
        form: The columns of the table.

    What is withdrawn and is not there is left out: the table of a query may have begun later than
    the query, and one of current events has forgotten those that are over.

    A payload whose rows are just those that go is dealt with by columns: about 6 microseconds per
    change. The others, whose lifetimes have to be cut, are swept through in the order of time:
    about 30 microseconds per change, and more where many rows of a payload overlap.
    """
    batches = [rows, *(revision.changes for revision in revisions)]
    hashes = np.concatenate([payload_hashes(batch) for batch in batches])
    # Payloads are numbered; each is taken from the first row that has it.
    payloads, first = np.unique(hashes, return_index=True)
    inside = np.isin(there.payload, payloads)
    there = _numbered(there.at(inside), np.searchsorted(payloads, there.payload[inside]))
    versions = [each.number if form.keeps_versions else ALWAYS for each in revisions]

    def events_of(batch: EventBatch) -> EventRows:
        found = signed_events(batch)
        return _numbered(found, np.searchsorted(payloads, payload_hashes(batch))[found.payload])

    events = [events_of(batch) for batch in batches]
    is_cut = np.zeros(len(payloads), np.bool_)
    whole = _whole_events(there, [_added_up(each) for each in events], versions, is_cut)
    of_cut = is_cut[np.searchsorted(payloads, payload_hashes(rows))]
    moved = events_of(snapshot_changes(rows.where(of_cut)))
    cut = _cut_events(there, [moved, *events[1:]], versions, is_cut)
    changes = EventRows.concat([*whole, cut])
    every = concat_rows([batch.payload for batch in batches])
    return change_table(every, _numbered(changes, first[changes.payload]), form)


def _whole_events(
    there: EventRows,
    events: Sequence[EventRows],
    versions: Sequence[int],
    is_cut: npt.NDArray[np.bool_],
) -> list[EventRows]:
    """The changes of payloads whose rows come and go as they are; `is_cut` marks the others."""
    takers = np.zeros(len(is_cut), np.int64)
    moved, *revised = events
    found = [moved]
    gone = moved.at(moved.copies < 0)
    always = there.at((there.known_from == ALWAYS) & (there.known_until == NEVER))
    is_cut[gone.payload[_match(always, gone) < 0]] = True
    takers[np.unique(gone.payload)] += 1
    in_force = there.at(there.known_until == NEVER)
    for each, version in zip(revised, versions):
        come, gone = each.at(each.copies > 0), each.at(each.copies < 0)
        found.append(replace(come, known_from=np.full(len(come), version)))
        match = _match(in_force, gone)
        is_cut[gone.payload[match < 0]] = True
        takers[np.unique(gone.payload)] += 1
        gone = gone.at(match >= 0)
        gone = replace(gone, known_from=in_force.known_from[match[match >= 0]])
        before = gone.at(gone.known_from < version)
        until = np.full(len(before), version)
        found += [gone, replace(before, known_until=until, copies=-before.copies)]
    # Where two of them take from one payload, the second has to see what the first has left.
    is_cut |= takers > 1
    return [part.at(~is_cut[part.payload]) for part in found]


def _cut_events(
    there: EventRows,
    events: Sequence[EventRows],
    versions: Sequence[int],
    is_cut: npt.NDArray[np.bool_],
) -> EventRows:
    """The changes of payloads whose rows have to be cut: revisions, then moves, one by one."""
    before: dict[int, Counter[Rectangle]] = {int(n): Counter() for n in np.flatnonzero(is_cut)}
    for payload, start, end, known_from, known_until, copies in _lists(there, is_cut):
        before[payload][start, end, known_from, known_until] += copies
    after = dict(before)
    moved, *revised = events
    for each, version in [*zip(revised, versions), (moved, ALWAYS)]:
        every = sorted(_lists(each, is_cut))
        for payload, changes in groupby(every, key=itemgetter(0)):
            spans = [(start, end, copies) for _, start, end, _, _, copies in changes]
            extends = each is moved
            after[payload] = _swept(after[payload], spans, version, extends=extends)
    found: list[tuple[int, int, int, int, int, int]] = []
    for payload, rows in after.items():
        rows = _joined(rows)
        rows.subtract(before[payload])
        found += [(payload, *rectangle, copies) for rectangle, copies in rows.items() if copies]
    columns = np.array(found, np.int64).reshape(len(found), 6).T
    return EventRows(**dict(zip(_COLUMNS, columns)))


def _swept(
    rows: Counter[Rectangle], spans: list[tuple[int, int, int]], version: int, *, extends: bool
) -> Counter[Rectangle]:
    """The rows of a payload after changes in ascending order.

    Only rows that a change can touch are looked at: those that have begun when it ends, and have
    not ended when it starts. What has ended before one change has ended before the next.
    """
    coming = sorted(rows, reverse=True)
    ended: Counter[Rectangle] = Counter()
    near: Counter[Rectangle] = Counter()
    for start, end, copies in spans:
        while coming and coming[-1][0] < end:
            row = coming.pop()
            near[row] += rows[row]
        for row in [row for row in near if row[1] < start]:
            ended[row] += near.pop(row)
        rectangle = (start, end, version, NEVER)
        if copies < 0:
            _withdraw(near, rectangle)
        elif extends:
            _extend(near, rectangle)
        else:
            near[rectangle] += 1
    for row in coming:
        near[row] += rows[row]
    ended.update(near)
    return ended


def _joined(rows: Counter[Rectangle]) -> Counter[Rectangle]:
    """The same where rows of one lifetime that are known one after the other are one row.

    Example: a revision has cut [15, 40), then a move ends it at 31 and inserts [33, 40). Each
    version loses [31, 33); what is left behind it is the same in all of them.
    """
    found: Counter[Rectangle] = Counter()
    for lifetime, same in groupby(sorted(rows.items()), key=lambda item: item[0][:2]):
        spans: Counter[tuple[int, int]] = Counter()
        for (_, _, since, until), copies in same:
            for before in [span for span in spans if span[1] == since]:
                joined = min(copies, spans[before])
                spans[before] -= joined
                spans[before[0], until] += joined
                copies -= joined
            spans[since, until] += copies
        found.update({(*lifetime, *span): copies for span, copies in spans.items() if copies})
    return found


def _withdraw(rows: Counter[Rectangle], rectangle: Rectangle) -> None:
    """Take one copy out of a rectangle, from whatever rows cover it.

    A row that sticks out leaves what sticks out: where it is known before or after the rectangle
    it stays whole, else the parts of its lifetime in front and behind.
    """
    todo = [rectangle]
    while todo:
        low, high, since, until = wanted = todo.pop()
        covering = [row for row, copies in rows.items() if copies and _overlap(row, wanted)]
        if not covering:
            continue
        # The row that is meant is the one with this end, if there is one: then others stay whole.
        row = min(covering, key=lambda row: (row != wanted, row[1] != wanted[1], row))
        rows[row] -= 1
        start, end, known_from, known_until = row
        first, last = max(start, low), min(end, high)
        earliest, latest = max(known_from, since), min(known_until, until)
        _add(rows, (start, end, known_from, earliest))
        _add(rows, (start, end, latest, known_until))
        _add(rows, (start, first, earliest, latest))
        _add(rows, (last, end, earliest, latest))
        rest = [
            (low, high, since, earliest),
            (low, high, latest, until),
            (low, first, earliest, latest),
            (last, high, earliest, latest),
        ]
        todo += [each for each in rest if _has_area(each)]


def _extend(rows: Counter[Rectangle], rectangle: Rectangle) -> None:
    """Add one copy in a rectangle, to rows that end where it starts if there are any."""
    low, high, since, until = rectangle
    ending = [row for row, copies in rows.items() if copies and row[1] == low]
    for row in sorted(ending, key=lambda row: (row[2], row)):
        start, end, known_from, known_until = row
        earliest, latest = max(known_from, since), min(known_until, until)
        if earliest >= latest:
            continue
        rows[row] -= 1
        _add(rows, (low, high, since, earliest))
        _add(rows, (start, end, known_from, earliest))
        _add(rows, (start, end, latest, known_until))
        _add(rows, (start, high, earliest, latest))
        since = latest
    _add(rows, (low, high, since, until))


def _add(rows: Counter[Rectangle], row: Rectangle) -> None:
    if _has_area(row):
        rows[row] += 1


def _has_area(row: Rectangle) -> bool:
    return row[0] < row[1] and row[2] < row[3]


def _overlap(row: Rectangle, other: Rectangle) -> bool:
    return row[0] < other[1] and other[0] < row[1] and row[2] < other[3] and other[2] < row[3]


def _lists(
    rows: EventRows, is_chosen: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int, int, int, int, int]]:
    rows = rows.at(is_chosen[rows.payload])
    times = (rows.start.tolist(), rows.end.tolist())
    known = (rows.known_from.tolist(), rows.known_until.tolist())
    return zip(rows.payload.tolist(), *times, *known, rows.copies.tolist())


def _numbered(rows: EventRows, payload: npt.NDArray[np.integer]) -> EventRows:
    return replace(rows, payload=payload.astype(np.int64))


def _added_up(rows: EventRows) -> EventRows:
    """One row per event, of rows with one version."""
    rows = rows.at(np.lexsort((rows.end, rows.start, rows.payload)))
    if not len(rows):
        return rows
    first = np.flatnonzero(_is_new(rows.payload, rows.start, rows.end))
    total = np.add.reduceat(rows.copies, first)
    return replace(rows.at(first), copies=total).at(total != 0)


def _match(there: EventRows, gone: EventRows) -> npt.NDArray[np.intp]:
    """For each event that goes, a row that has as many copies of it; -1 if there is none."""
    both = EventRows.concat([there, gone])
    event = np.empty(len(both), np.intp)
    order = np.lexsort((both.end, both.start, both.payload))
    event[order] = np.cumsum(_is_new(both.payload[order], both.start[order], both.end[order]))
    # Of several rows of an event the last one with most copies is chosen: it is assigned last.
    best = np.full(len(both) + 1, -1)
    by_copies = np.argsort(there.copies, kind="stable")
    best[event[by_copies]] = by_copies
    match = best[event[len(there) :]]
    copies = np.append(there.copies, 0)[match]
    return np.where((match >= 0) & (copies >= -gone.copies), match, -1)


def _is_new(*columns: Numbers) -> npt.NDArray[np.bool_]:
    """Which rows differ from the row before them; the first does."""
    found = np.zeros(len(columns[0]), np.bool_)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found
