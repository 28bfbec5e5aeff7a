"""Case r3: every input has an event of a payload and start at most once (`in2t`).

What is remembered of a node are the ends that each input and the output give it; an end at the
start says that there is no such event. What arrived in a batch is taken in first, then one stable
point: the largest, by the input that leads. At most one move of a node leaves in a batch.

A node goes through three phases, by its start and the stable points `since` (before the batch) and
`until` (after it) of the output:
- free, `start >= since`: anything may change; the policy alone decides (`choose_ends`);
- half settled, `start < since <= end of the output`: there for good, only its end may move, and
  never to before `since`;
- over, start and end before `since`: nothing changes, and late elements are ignored.
Before the output promises `until`, whatever that promise settles must be as the leader has it
(`settle_ends`). So the output never takes back what it promised, and ends up equal to the leader.

Example with the default policy, inputs x and y (`end (out)` is what the output has of node A from
6):

    x: A [6, 10)           out 10   inserted: the first who has it counts
    y: A [6, 12)           out 10   x and y differ, but nothing is settled yet
    x: A 10 -> 15          out 10   adjusts are lazy
    y: A 12 -> 15          out 10
    y: stable 16           out 15   15 < 16 is settled now, so A 10 -> 15 leaves, then stable 16
    x: A 15 -> 9           ignored: the node is over

Cost per batch: the nodes touched, and with a new stable point the nodes that start before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.merge import MergePolicy
from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.contract.column_names import TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.merge.contradictions import Contradiction, describe
from anabranch.kernels.merge.inserted import adjusts_what_is_over, inserted_twice
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
    number_all,
    select,
    version_rows,
    versions_merger,
)
from anabranch.kernels.trace.runs import add_run
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time

OUT: Final = "out"
NODES: Final = "nodes"
PAYLOADS: Final = "payloads"

Runs = dict[str, tuple[SortedRun, ...]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class MergeResult:
    """What a batch gives: new runs, output, and what was noticed.

    `ignored` are the rows that came too late to matter. `by` are the indexes of the inputs that
    contradict what is settled, once for each event; `found` describes a few of these. `twice`
    is a row that inserts what its input has already, with an end that it never inserted it with.
    `reach` is the least start of the output's events that end at its stable point or later; None:
    it has not moved. `slow` is before which instant what ends is forgotten now; None: nothing is
    remembered of events at all.
    """

    runs: Runs
    output: EventBatch
    ignored: Ints
    by: Ints
    found: tuple[Contradiction, ...] = ()
    twice: int | None = None
    reach: int | None = None
    slow: Time | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class NodeEnds:
    """The ends of nodes: one row per node, one column per input; an end at `start` means none."""

    start: Ints
    out: Ints
    ends: Ints
    changed: Mask

    @property
    def has(self) -> Mask:
        """Who has which event."""
        return np.asarray(self.ends > self.start[:, None])


def step_keyed(
    runs: Runs,
    elements: Elements,
    lead: Lead,
    policy: MergePolicy,
    schema: pa.Schema,
    *,
    asserted: bool = False,
) -> MergeResult:
    """Take in a batch, then the stable point that the leader has reached.

    That no input has an event of a payload and start twice is looked at where it is `asserted`.
    """
    parts = select(runs.get(NODES, ()), elements.ids, lead.before)
    nodes, stored, out, ends, inserted = _resolve(parts, elements, lead)
    of_state = sum(part.num_rows for part in parts)
    node = nodes.node[of_state:]
    # What nobody knows and would begin before the stable point was there once and is over.
    over = (nodes.start < lead.since) & (out < lead.since)
    changed = np.zeros(ends.shape, np.bool_)
    twice = inserted_twice(node, elements, ends, inserted) if asserted else None
    heard = np.flatnonzero(~adjusts_what_is_over(node, elements, ends))
    at = (node[heard], elements.column[heard])
    ends[at] = elements.new_end[heard]
    changed[at] = True
    state = NodeEnds(nodes.start, out, ends, changed)
    target = settle_ends(state, choose_ends(state, lead, policy), lead)
    target[over] = out[over]
    moved = target != out
    age = np.maximum(nodes.start, target)
    lead = lead.bounded(age, policy.compare)
    fresh = ~stored & (age >= lead.slow)
    rows = np.flatnonzero((stored & (moved | changed.any(axis=1))) | fresh)
    rows = rows[nodes.in_order(rows)]
    values = {OUT: target[rows]}
    for index, key in enumerate(lead.keys):
        values[f"v{key}"] = ends[rows, index]
        if asserted:
            values[f"i{key}"] = inserted[rows, index] ^ nodes.start[rows]
    most = np.maximum(target, ends.max(axis=1, initial=BEGINNING))
    after = dict(runs)
    version = version_rows(nodes, rows, values, np.maximum(target, nodes.start)[rows])
    after[NODES] = add_run(
        runs.get(NODES, ()),
        version,
        lead.slow,
        versions_merger(lead.slow, last_ends, _absent),
        anchors=False,
    )
    first = np.full(len(nodes), -1, np.int64)
    first[node[::-1]] = np.arange(len(elements))[::-1]
    new = np.flatnonzero(fresh)
    new = new[nodes.in_order(new)]
    after[PAYLOADS] = add_payloads(
        runs.get(PAYLOADS, ()),
        nodes,
        new,
        elements.payload.take(first[new]),
        most[new],
        lead.slow,
        lambda ids, check, start: needed_until(
            after[NODES], ids, check, start, lead.slow, last_ends
        ),
    )
    if lead.slow == FOREVER:
        after[NODES] = after[PAYLOADS] = ()
    where = runs.get(PAYLOADS, ())
    which = np.flatnonzero(moved)
    output = moves_of(where, nodes, which, first, elements, schema, out[which], target[which])
    # Of what was forgotten the payload may be gone: it is told only of what has come.
    told = (first >= 0) | (np.maximum(nodes.start, out) >= lead.forgotten)
    wrong, by = np.nonzero(contradictions(state, target, lead) & told[:, None])
    shown = nodes.in_order(wrong)
    wrong, by = wrong[shown], by[shown]

    def find(at: Ints) -> EventBatch:
        return in_turn(where, nodes, at, first, elements, schema)

    def views(at: int, index: int) -> tuple[tuple[int, ...], ...]:
        both = (int(target[at]), int(ends[at, index]))
        return tuple((end,) if end > nodes.start[at] else () for end in both)

    return MergeResult(
        {name: kept for name, kept in after.items() if kept},
        output.with_stable(lead.until),
        np.flatnonzero(over[node]),
        by,
        describe(wrong, by, first >= 0, find, views),
        twice,
        reach_of(nodes.start, target, lead),
        lead.slow,
    )


def reach_of(start: Ints, end: Ints, lead: Lead) -> int | None:
    """The least start of output that ends at the stable point or later; None: nobody has looked.

    All nodes that start before a stable point are looked at when it moves. What starts later has
    no influence.
    """
    if lead.until <= lead.since:
        return None
    reaches = (start < lead.until) & (end > start) & (end >= lead.until)
    return min(int(lead.until), int(start[reaches].min(initial=FOREVER)))


def _resolve(
    parts: Sequence[pa.RecordBatch], elements: Elements, lead: Lead
) -> tuple[Numbered, Mask, Ints, Ints, Ints]:
    """The nodes of stored versions and of elements; whether each was stored, its ends and filters.

    Filters (`inserted_twice`) are stored so that no filter and no such event look alike.
    """
    nodes = number_all(parts, elements.ids, elements.check, elements.start)
    count = sum(part.num_rows for part in parts)
    latest = np.full(len(nodes), -1, np.int64)
    # Later runs come later, and the last one wins.
    latest[nodes.node[:count]] = np.arange(count)
    stored = latest >= 0
    row = latest[stored]

    def held(name: str) -> Ints:
        values = columns_of(parts, name, _absent)
        found = nodes.start.copy()
        found[stored] = values[row]
        return found

    ends = np.empty((len(nodes), len(lead.keys)), np.int64)
    inserted = np.empty_like(ends)
    for index, key in enumerate(lead.keys):
        ends[:, index] = held(f"v{key}")
        inserted[:, index] = held(f"i{key}") ^ nodes.start
    return nodes, stored, held(OUT), ends, inserted


def choose_ends(state: NodeEnds, lead: Lead, policy: MergePolicy) -> Ints:
    """The ends that the policies want, before the stable point moves."""
    start, out, ends, has = state.start, state.out, state.ends, state.has & lead.joined
    free, emitted = start >= lead.since, out > start
    target = out.copy()
    if not ends.shape[1]:
        return target
    rows = np.arange(len(start))
    anybody = has.any(axis=1)
    new = free & ~emitted & anybody
    lately = has & state.changed
    # The first who says something now, else the first who has it.
    first = np.where(lately.any(axis=1), lately.argmax(axis=1), has.argmax(axis=1))
    leads = has[:, lead.leader] if lead.leader is not None else np.zeros(len(start), np.bool_)
    if lead.leader is not None:
        first_or_leader = np.where(leads, lead.leader, first)
    else:
        first_or_leader = first
    match policy.inserts:
        case "first":
            target = np.where(new, ends[rows, first], target)
        case "leading":
            target = np.where(new & leads, ends[rows, first_or_leader], target)
        case "quorum":
            enough = has.sum(axis=1) >= policy.enough(int(lead.joined.sum()))
            target = np.where(new & enough, ends[rows, first_or_leader], target)
        case "half_frozen":
            pass
    if policy.adjusts == "lazy":
        return target
    if policy.adjusts == "eager":
        spoke = state.changed.any(axis=1)
        # Whoever spoke last; the leader before others.
        last = ends.shape[1] - 1 - lately[:, ::-1].argmax(axis=1)
        followed = last
        if lead.leader is not None:
            followed = np.where(lately[:, lead.leader], lead.leader, last)
        value = np.where(lately.any(axis=1), ends[rows, followed], out)
    else:
        spoke = np.ones(len(start), np.bool_)
        value = np.where(leads, ends[rows, first_or_leader], out)
    gone = free & state.changed.any(axis=1) & ~anybody
    value = np.where(gone, start, value)
    legal = free | (value >= lead.since)
    return np.where(emitted & spoke & legal, value, target)


def settle_ends(state: NodeEnds, target: Ints, lead: Lead) -> Ints:
    """The ends that must be so before the stable point moves.

    What the leader says holds, unless it contradicts what the output has promised already. Then
    the input counts that has promised most of those that say something possible.
    """
    start, ends = state.start, state.ends
    until = lead.until
    if until <= lead.since or lead.leader is None:
        return target
    sweep, free = start < until, start >= lead.since
    leading = ends[:, lead.leader]
    matters = (leading != target) & ((leading < until) | (target < until))
    # Not settled at all so far: as the leader has it, or not at all.
    absent = target == start
    result = np.where(sweep & free & (matters | absent | (leading == start)), leading, target)
    # There for good already: only its end may move, and not to before what was promised.
    half = sweep & ~free & (state.out > start)
    possible = (leading > start) & (leading >= lead.since)
    result = np.where(half & possible & matters, leading, result)
    refused = half & ~possible & (target < until)
    if refused.any():
        for index in np.argsort(np.where(lead.joined, lead.now, BEGINNING), kind="stable"):
            other = ends[:, index]
            use = refused & (other > start) & (other >= lead.since)
            result = np.where(use, other, result)
    return result


def contradictions(state: NodeEnds, target: Ints, lead: Lead) -> Mask:
    """Which inputs say, as of now, something else than the output for good.

    An input has settled an end that is before its stable point, and settles with that point also
    that there is no event which it does not have. Two that differ cannot both be right once the
    lesser end is settled by both.
    """
    theirs, ours = state.ends, target[:, None]
    lesser = np.minimum(theirs, ours)
    differs = (theirs != ours) & (lesser < lead.now)
    differs &= (np.maximum(theirs, ours) >= lead.vouched) & lead.comparable
    # Once is enough: when it is settled, or when somebody changes something that is.
    news = state.changed | (target != state.out)[:, None] | (lesser >= lead.was)
    return np.asarray(differs & news)


def last_ends(parts: Sequence[pa.RecordBatch], node: Ints, count: int) -> Ints:
    """Per node the end that the output has, in its newest version."""
    found = np.full(count, BEGINNING, np.int64)
    found[node] = fixed(parts, OUT, np.int64)
    return found


def _absent(part: pa.RecordBatch) -> Ints:
    """An end at the start: no such event."""
    return np.asarray(part.column(TIME).to_numpy())
