"""Case r4: inputs are multisets, events of one payload and start may be many (`in3t`).

What is remembered of a node are its ends, and how many events each input and the output have with
each end. A batch is taken in as a whole; then the multiset that the output should have is worked
out, and the moves that lead there.

The phases are those of r3 (see `keyed`), but per end: within one node, ends before the stable point
are settled while later ones may still move. When a stable point passes, the number of events of a
node that began before it is settled, and so are all ends before it; the ends that go on may differ.

Example, node A from 2, inputs x and y, default policy; counts per end as (out, x, y):

                             end 5       end 7       end 9      leaves
    x: A [2, 5), A [2, 9)    (1, 1, 0)               (1, 1, 0)  both are inserted
    y: A [2, 5)              (1, 1, 1)               (1, 1, 0)
    y: A [2, 7)              (1, 1, 1)  (0, 0, 1)    (1, 1, 0)
    y: stable 6              (1, 1, 1)  (0, 0, 1)    (1, 1, 0)  two events both: stable 6 may leave
    y: stable 8              (1, 1, 1)  (1, 0, 1)    (0, 1, 0)  A 9 -> 7, as 7 < 8 is settled now

Surplus at one end is paired with a lack at another (`_pair`), so that a move and not a withdrawal
and an insert leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.columns.grouped import Ints, Mask, is_first, order_by_number_and_time
from anabranch.kernels.contract.column_names import END
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.merge.contradictions import describe
from anabranch.kernels.merge.keyed import NODES, OUT, PAYLOADS, MergeResult, Runs, reach_of
from anabranch.kernels.merge.lead import Lead
from anabranch.kernels.merge.nodes import (
    Elements,
    Numbered,
    add_payloads,
    columns_of,
    fixed,
    in_turn,
    moves_of,
    needed_until,
    newest,
    number_all,
    select,
    version_rows,
    versions_merger,
)
from anabranch.kernels.trace.runs import add_run
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER


@final
@dataclass(frozen=True, slots=True, eq=False)
class EndCounts:
    """How many events of each node there are with each end: rows by node and end.

    `counts` has a column per input. `begins` is the position of each node's first row.
    """

    node: Ints
    end: Ints
    out: Ints
    counts: Ints
    begins: Ints

    def latest(self, counts: Ints) -> Ints:
        """Per node the last end with events, BEGINNING without any."""
        ends = np.where(counts > 0, self.end, BEGINNING)
        return np.asarray(np.maximum.reduceat(ends, self.begins)) if len(ends) else ends

    def first(self, marked: Mask) -> Ints:
        """Per node the first end that is marked, FOREVER without any."""
        ends = np.where(marked, self.end, FOREVER)
        return np.asarray(np.minimum.reduceat(ends, self.begins)) if len(ends) else ends

    def totals(self, values: Ints) -> Ints:
        """Sums per node."""
        if not len(values):
            return np.zeros((len(self.begins), *values.shape[1:]), np.int64)
        return np.asarray(np.add.reduceat(values, self.begins, axis=0))


def step_multiset(
    runs: Runs, elements: Elements, lead: Lead, policy: MergePolicy, schema: pa.Schema
) -> MergeResult:
    """Take in a batch, then the stable point that the leader has reached."""
    parts = select(runs.get(NODES, ()), elements.ids, lead.before)
    held = sum(part.num_rows for part in parts)
    nodes = number_all(parts, elements.ids, elements.check, elements.start)
    old, node = nodes.node[:held], nodes.node[held:]
    current = newest(parts, old, len(nodes))
    stored = np.zeros(len(nodes), np.bool_)
    stored[old] = True
    # The latest end that the output has for a node; what is before the stable point is over.
    last = last_ends(parts, old, len(nodes))
    over = (nodes.start < lead.since) & (last < lead.since)
    table = _add_up(parts, np.flatnonzero(current), nodes, node, elements, lead)
    changed = np.zeros((len(nodes), len(lead.keys)), np.bool_)
    changed[node, elements.column] = True
    wanted = choose_counts(table, nodes.start, changed, lead, policy)
    wanted = settle_counts(table, nodes.start, wanted, lead)
    wanted = np.where(over[table.node], table.out, wanted)

    which, end, new_end = _pair(table, nodes.start, wanted)
    latest = table.latest(wanted)
    age = np.maximum(nodes.start, latest)
    lead = lead.bounded(age, policy.compare)
    touched = np.asarray(changed.any(axis=1))
    touched[which] = True
    fresh = ~stored & (age >= lead.slow)
    written = (stored & touched) | fresh
    after = dict(runs)
    after[NODES] = _write(runs.get(NODES, ()), nodes, table, wanted, written, lead)
    first = np.full(len(nodes), -1, np.int64)
    first[node[::-1]] = np.arange(len(elements))[::-1]
    new = np.flatnonzero(fresh)
    new = new[nodes.in_order(new)]
    after[PAYLOADS] = add_payloads(
        runs.get(PAYLOADS, ()),
        nodes,
        new,
        elements.payload.take(first[new]),
        table.latest(np.ones(len(table.end), np.int64))[new],
        lead.slow,
        lambda ids, check, start: needed_until(
            after[NODES], ids, check, start, lead.slow, last_ends
        ),
    )
    if lead.slow == FOREVER:
        after[NODES] = after[PAYLOADS] = ()
    where = runs.get(PAYLOADS, ())
    output = moves_of(where, nodes, which, first, elements, schema, end, new_end)
    # Of what was forgotten the payload may be gone: it is told only of what has come.
    told = (first >= 0) | (np.maximum(nodes.start, last) >= lead.forgotten)
    found = contradictions(table, nodes.start, wanted, touched, lead)
    wrong, by = np.nonzero(found & told[:, None])
    shown = nodes.in_order(wrong)
    wrong, by = wrong[shown], by[shown]

    def find(at: Ints) -> EventBatch:
        return in_turn(where, nodes, at, first, elements, schema)

    def views(at: int, index: int) -> tuple[tuple[int, ...], ...]:
        rows = np.flatnonzero(table.node == at)
        both = (wanted[rows], table.counts[rows, index])
        return tuple(tuple(np.repeat(table.end[rows], count).tolist()) for count in both)

    return MergeResult(
        {name: kept for name, kept in after.items() if kept},
        output.with_stable(lead.until),
        np.flatnonzero(over[node]),
        by,
        describe(wrong, by, first >= 0, find, views),
        reach=reach_of(nodes.start, latest, lead),
        slow=lead.slow,
    )


def _add_up(
    parts: Sequence[pa.RecordBatch],
    current: Ints,
    nodes: Numbered,
    node: Ints,
    elements: Elements,
    lead: Lead,
) -> EndCounts:
    """The stored counts, and what the moves of the batch take away and add."""
    old = nodes.node[: len(nodes.node) - len(node)]
    gone = np.flatnonzero(elements.end > elements.start)
    come = np.flatnonzero(elements.new_end > elements.start)
    # Every node has a row, so that sums over nodes have something to sum up.
    every = np.arange(len(nodes))
    owner = np.concatenate([old[current], node[gone], node[come], every])
    end = np.concatenate(
        [
            fixed(parts, END, np.int64)[current],
            elements.end[gone],
            elements.new_end[come],
            nodes.start,
        ]
    )
    order = order_by_number_and_time(owner, end)
    first = is_first(owner[order], end[order])
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(first) - 1
    owner, end = owner[order][first], end[order][first]
    kept, width = len(current), len(lead.keys)
    sums, out = np.zeros((len(owner), width), np.int64), np.zeros(len(owner), np.int64)

    # A version has every end of a node once.
    out[group[:kept]] = fixed(parts, OUT, np.int64)[current]
    for index, key in enumerate(lead.keys):
        sums[group[:kept], index] = columns_of(parts, f"c{key}", _absent)[current]
    went, arrived = group[kept : kept + len(gone)], group[kept + len(gone) :][: len(come)]
    for rows, which, sign in ((went, gone, -1), (arrived, come, 1)):
        cells = np.bincount(rows * width + elements.column[which], minlength=sums.size)
        sums += sign * cells.reshape(sums.shape)
    begins = np.flatnonzero(is_first(owner))
    # An input that adjusts what it never had has at least what it says now.
    return EndCounts(owner, end, out, np.maximum(sums, 0), begins)


def choose_counts(
    table: EndCounts, start: Ints, changed: Mask, lead: Lead, policy: MergePolicy
) -> Ints:
    """The multiset that the policies want, before the stable point moves."""
    wanted = table.out.copy()
    if not table.counts.shape[1]:
        return wanted
    free = start >= lead.since
    counts = np.where(lead.joined, table.counts, 0)
    changed = changed & lead.joined
    totals, there = table.totals(counts), table.totals(table.out)
    rows = np.arange(len(start))
    source = totals.argmax(axis=1)
    match policy.inserts:
        case "first":
            count = totals[rows, source]
        case "leading" if lead.leader is not None:
            source = np.full(len(start), lead.leader)
            count = totals[:, lead.leader]
        case "quorum":
            enough = policy.enough(int(lead.joined.sum()))
            count = np.sort(totals, axis=1)[:, totals.shape[1] - enough]
        case _:
            count = there
    need = np.where(free, np.maximum(count - there, 0), 0)
    of_source = counts[np.arange(len(table.node)), source[table.node]]
    wanted = wanted + _spread(need, np.maximum(of_source - table.out, 0), table)
    missing = need - (table.totals(wanted) - there)
    wanted = wanted + _spread(missing, of_source, table)
    if policy.adjusts == "lazy":
        return wanted
    if policy.adjusts == "eager":
        followed = changed.shape[1] - 1 - changed[:, ::-1].argmax(axis=1)
        if lead.leader is not None:
            followed = np.where(changed[:, lead.leader], lead.leader, followed)
        follows = changed.any(axis=1)
    elif lead.leader is not None:
        followed = np.full(len(start), lead.leader)
        follows = np.ones(len(start), np.bool_)
    else:
        return wanted
    # What is settled stays, also if the input that is followed has missed it.
    settled = (start[table.node] < lead.since) & (table.end < lead.since)
    theirs = table.counts[np.arange(len(table.node)), followed[table.node]]
    theirs = np.where(settled, wanted, theirs)
    follows &= (there > 0) & (table.totals(theirs) == table.totals(wanted))
    return np.where(follows[table.node], theirs, wanted)


def settle_counts(table: EndCounts, start: Ints, wanted: Ints, lead: Lead) -> Ints:
    """The multiset that there must be before the stable point moves.

    Ends that are settled now are as the leader has them, and as many events go on as it has.
    """
    if lead.until <= lead.since or lead.leader is None:
        return wanted
    until, since = lead.until, lead.since
    node, sweep, free = table.node, start < until, start >= since
    frozen = ~free[node] & (table.end < since)
    # The leader may have missed what had ended, or was there before it came: that is settled.
    leading = np.where(frozen, wanted, table.counts[:, lead.leader])
    ending = (table.end < until) & ~frozen
    total = np.where(free, table.totals(leading), table.totals(wanted))
    must = np.where(ending, leading, np.where(frozen, wanted, 0))
    rest = total - table.totals(must)
    half = sweep & ~free
    there = table.totals(wanted) > 0
    refused = half & there & ((rest < 0) | (table.totals(leading) != table.totals(wanted)))
    # Where the leader contradicts how many go on, things stay as they are.
    use = sweep & ~refused
    rest = np.where(use, np.maximum(rest, 0), 0)
    going = ~ending & ~frozen
    kept = np.where(going, np.minimum(wanted, leading), 0)
    kept = _spread(rest, kept, table)
    kept = kept + _spread(rest - table.totals(kept), np.where(going, wanted, 0) - kept, table)
    kept = kept + _spread(
        rest - table.totals(kept), np.where(going, np.maximum(leading - kept, 0), 0), table
    )
    return np.where(use[node], must + kept, wanted)


def contradictions(table: EndCounts, start: Ints, wanted: Ints, touched: Mask, lead: Lead) -> Mask:
    """Of which nodes which inputs have settled something else than the output."""
    found = np.zeros((len(start), len(lead.keys)), np.bool_)
    for index in range(len(lead.keys)):
        if not lead.comparable[index]:
            continue
        counts, now = table.counts[:, index], lead.now[index]
        # Of earlier ends the input may know anything.
        more = np.where(table.end >= lead.vouched[index], counts - wanted, 0)
        differs = (more != 0) & (table.end < now)
        # Ends that are not settled yet may differ, but not how many there are.
        total = table.totals(more)
        first = table.first(differs)
        least = np.where((start < now) & (total != 0), start, first)
        found[:, index] = (least < FOREVER) & (touched | (least >= lead.was[index]))
    return found


def _spread(need: Ints, room: Ints, table: EndCounts) -> Ints:
    """Give out so many per node, to its rows in order, to each no more than there is room."""
    room = np.maximum(room, 0)
    if not len(room):
        return room
    total = np.cumsum(room)
    before = total - room
    before = before - before[table.begins][table.node]
    return np.clip(need[table.node] - before, 0, room)


def _pair(table: EndCounts, start: Ints, wanted: Ints) -> tuple[Ints, Ints, Ints]:
    """Moves from what the output has to what it should have: node, old end, new end of each.

    What is too many at one end moves to another where there are too few; what has no such partner
    is inserted or taken back.
    """
    more = wanted - table.out
    lost = np.repeat(np.arange(len(more)), np.maximum(-more, 0))
    won = np.repeat(np.arange(len(more)), np.maximum(more, 0))
    from_node, to_node = table.node[lost], table.node[won]
    from_rank, to_rank = _rank(from_node), _rank(to_node)
    # Pairs have one node and one rank among those of the node.
    width = int(max(from_rank.max(initial=0), to_rank.max(initial=0))) + 1
    from_key, to_key = from_node * width + from_rank, to_node * width + to_rank
    keys = np.sort(np.concatenate([from_key, to_key]))
    keys = keys[is_first(keys)]
    which = keys // width
    end, new_end = start[which].copy(), start[which].copy()
    end[np.searchsorted(keys, from_key)] = table.end[lost]
    new_end[np.searchsorted(keys, to_key)] = table.end[won]
    return which, end, new_end


def _rank(node: Ints) -> Ints:
    """The number of each row among those of its node; rows are sorted by node."""
    first = np.flatnonzero(is_first(node))
    sizes = np.diff(first, append=len(node))
    return np.arange(len(node)) - np.repeat(first, sizes)


def _write(
    runs: tuple[SortedRun, ...],
    nodes: Numbered,
    table: EndCounts,
    wanted: Ints,
    written: Mask,
    lead: Lead,
) -> tuple[SortedRun, ...]:
    """New versions of the written nodes; one row with no counts says that a node has no events."""
    present = (wanted != 0) | (table.counts != 0).any(axis=1)
    none = table.totals(present.astype(np.int64)) == 0
    present |= (table.end == nodes.start[table.node]) & none[table.node]
    rows = np.flatnonzero(present & written[table.node])
    rows = rows[nodes.in_order(table.node[rows])]
    which = table.node[rows]
    values = {END: table.end[rows], OUT: wanted[rows]}
    for index, key in enumerate(lead.keys):
        values[f"c{key}"] = table.counts[rows, index]
    version = version_rows(nodes, which, values, table.end[rows])
    return add_run(
        runs, version, lead.slow, versions_merger(lead.slow, last_ends, _absent), anchors=False
    )


def last_ends(parts: Sequence[pa.RecordBatch], node: Ints, count: int) -> Ints:
    """Per node the last end with which the output has events, in its newest version."""
    there = newest(parts, node, count) & (fixed(parts, OUT, np.int64) > 0)
    found = np.full(count, BEGINNING, np.int64)
    np.maximum.at(found, node[there], fixed(parts, END, np.int64)[there])
    return found


def _absent(part: pa.RecordBatch) -> Ints:
    """No events."""
    return np.zeros(part.num_rows, np.int64)
