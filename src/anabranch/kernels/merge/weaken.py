"""A merge goes over to a weaker case between two batches: what it remembers is converted.

A copy may join that promises less than those with which the merge began. From the batch on that
brings its first elements, all copies are merged by the weaker case.

From r3 to r4: a node has one end per input and for the output. As counts, each of them is one event
with this end, or none.

    node A from 2, ends (out 9, x 9, y 5)   becomes   end 5: (0, 0, 1), end 9: (1, 1, 0)

From r0, r1 and r2 to r3 or r4: there are no nodes, only the last start and what has passed there.
What has passed is final: copies in order insert whole events, in the order of their starts, so
whoever first reached a start brought all that begins before it. This start is the *floor*. What
anybody
says of events below it was said before, or is taken back later; it is left out, for good. From the
floor on there are nodes. Without the floor every event that has passed and is not settled would
be inserted a second time, and one that goes on would look as if the output lacked it.

    r2: A [2, 9) and B [3, 7) have passed   the floor is 3, and B has passed there
    a new copy says A [2, 20)               below the floor: left out, as is A 20 -> 9 later
    it says B [3, 5), C [3, 8)              B has passed at the floor; C is a new node

State stays as small as before: one start, and hashes of the payloads that have passed there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import ORDERED, Case
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, group_starts, is_first
from anabranch.kernels.contract.column_names import CHECK, END, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.merge.keyed import NODES, OUT, PAYLOADS, Runs
from anabranch.kernels.merge.nodes import Numbered, version_rows
from anabranch.kernels.merge.ordered import SEEN
from anabranch.kernels.merge.waiting import WAITING
from anabranch.model.time import FOREVER, Time

FLOOR: Final = "floor"


def weakened(runs: Runs, case: Case, weaker: Case, stable: Time) -> Runs:
    """What a merge remembers by a case, as a weaker one remembers it."""
    if case in ORDERED:
        waiting = {name: held for name, held in runs.items() if name == WAITING}
        floor = _floor(runs, case, stable)
        return {**waiting, FLOOR: floor} if floor else waiting
    kept = {name: held for name, held in runs.items() if name in (PAYLOADS, FLOOR)}
    if weaker == "r4":
        return {**kept, NODES: tuple(map(_counted, runs.get(NODES, ())))}
    return {**kept, NODES: runs.get(NODES, ())}


def below_floor(runs: Runs, ids: Ids, check: Ids, start: Ints) -> Mask:
    """Which elements are of events that have passed before the merge went over to its case."""
    if FLOOR not in runs:
        return np.zeros(len(start), np.bool_)
    rows = runs[FLOOR][0].rows
    floor = rows.column(TIME)[0].as_py()
    found = np.asarray(start < floor)
    at = np.flatnonzero(start == floor)
    if len(at):
        seen, checks = rows.column(ID).to_numpy(), rows.column(CHECK).to_numpy()
        found[at] = _is_among(ids[at], check[at], seen, checks)
    return found


def _floor(runs: Runs, case: Case, stable: Time) -> tuple[SortedRun, ...]:
    """What has passed, from what a merge by order remembers; nothing where nothing has."""
    seen = runs.get(SEEN, ())
    if stable == FOREVER:
        # The output is complete, and nothing is remembered of it.
        return (_nothing_at(int(FOREVER)),)
    if case == "r2" or not seen:
        return seen
    # No two events have one start, or all of one start come at once: what begins up to the last one
    # has passed.
    last = seen[0].rows.column(TIME)[0].as_py()
    return (_nothing_at(min(last + 1, int(FOREVER))),)


def _nothing_at(floor: int) -> SortedRun:
    """A floor at which nothing has passed: no payload has two hashes that are 0."""
    columns = {
        ID: pa.array([0], pa.uint64()),
        TIME: pa.array([floor], pa.int64()),
        CHECK: pa.array([0], pa.uint64()),
    }
    return SortedRun(pa.RecordBatch.from_pydict(columns))


def _is_among(ids: Ids, check: Ids, seen: Ids, checks: Ids) -> Mask:
    """Which of some identities are among those that have passed."""
    every, both = np.concatenate([seen, ids]), np.concatenate([checks, check])
    # Sorting keeps the order of equals, so one that has passed is the first of its group.
    order = np.lexsort((both, every))
    first = is_first(every[order], both[order])
    found = np.empty(len(order), np.bool_)
    found[order] = order[group_starts(first)] < len(seen)
    return found[len(seen) :]


def _counted(run: SortedRun) -> SortedRun:
    """Versions of nodes with an end per input, as versions with counts per end."""
    rows = run.rows
    ids, check, start = (rows.column(name).to_numpy() for name in (ID, CHECK, TIME))
    keys = [name for name in rows.schema.names if name[:1] == "v" and name[1:].isdigit()]
    given = {name: rows.column(name).to_numpy() for name in (OUT, *keys)}
    # Every end of a node once, and its start, which stands for nothing.
    every = np.column_stack([start, *given.values()])
    node = np.repeat(np.arange(len(start)), every.shape[1])
    end = every.ravel()
    order = np.lexsort((end, node))
    node, end = node[order], end[order]
    first = is_first(node, end)
    node, end = node[first], end[first]
    there = end > start[node]
    # A node without events keeps one row that says so.
    empty = np.bincount(node[there], minlength=len(start)) == 0
    kept = there | empty[node]
    node, end, there = node[kept], end[kept], there[kept]
    values = {END: end}
    for name, ends in given.items():
        counts = ((ends[node] == end) & there).astype(np.int64)
        values[OUT if name == OUT else f"c{name[1:]}"] = counts
    nodes = Numbered(np.arange(len(start)), ids, check, start)
    return SortedRun(version_rows(nodes, node, values, end))
