"""Cases r0, r1 and r2: inputs that only insert, in order. Next to nothing is remembered.

Elements are told apart by their start and, where starts may be equal, by their number among those
of the start (r1) or by their payload (r2). What was seen at the largest start so far is remembered;
what is before it has passed already, or is missing for good.

Why that is enough: every input is in order, so whoever first reaches a start has brought all its
earlier elements. An element with a smaller start than the largest that passed is a repetition.
State is therefore the identities at one instant, however long the stream is.

Example as r1, inputs x and y (the state is the largest start, and how many passed there):
    x: A at 2, B at 3                  A and B pass      3: {0}
    y: A at 2, B at 3, C at 3          C passes          3: {0, 1}   B is number 0 at 3, which
    passed x: C at 3, D at 4                  D passes          4: {0}      C is number 1 of x at 3
As r2 the sets hold hashes of payloads, as r0 the start alone is enough.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import Case
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    group_starts,
    is_compiled,
    is_first,
    native,
)
from anabranch.kernels.contract.column_names import CHECK, END, ID, KEY, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.merge.copies import Copies
from anabranch.kernels.merge.keyed import MergeResult, Runs
from anabranch.kernels.merge.nodes import Elements
from anabranch.kernels.merge.order import broken
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time

SEEN: Final = "seen"
LAST_ELEMENTS: Final = "said"
TWICE: Final = "has two elements of one payload and start"


def step_ordered(
    runs: Runs, elements: Elements, case: Case, since: Time, until: Time, ordinal: Ints
) -> MergeResult:
    """Let every element pass once; `ordinal` is its number among those of its input and start."""
    held = runs.get(SEEN, ())
    last, seen, checks = int(BEGINNING), np.empty(0, np.uint64), np.empty(0, np.uint64)
    if held:
        rows = held[0].rows
        last = rows.column(TIME)[0].as_py()
        seen, checks = rows.column(ID).to_numpy(), rows.column(CHECK).to_numpy()
    fresh = (elements.start >= last) & (elements.start >= since)
    # Mostly all are, and need not be copied.
    fresh_rows = slice(None) if fresh.all() else np.flatnonzero(fresh)
    start = elements.start[fresh_rows]
    ids, check = _identity(elements, case, fresh_rows, ordinal)
    order = first_ones(start, ids, check, case)
    # At the largest start so far some have passed already.
    again = np.flatnonzero(start[order] == last)
    if len(again) and len(seen):
        at = order[again]
        passed = _among(ids[at], check[at], seen, checks)
        order = np.delete(order, again[passed])
    out = order if isinstance(fresh_rows, slice) else fresh_rows[order]
    starts = elements.start[out]
    after = _remember(runs, starts, ids[order], check[order], last, seen, checks, until)
    output = EventBatch(elements.payload.take(out), starts, starts, elements.new_end[out], until)
    return MergeResult(after, output, np.flatnonzero(~fresh), np.empty(0, np.int64))


def _among(ids: Ids, check: Ids, seen: Ids, checks: Ids) -> Mask:
    """Which identities were seen before; none of them occurs twice."""
    every, both = np.concatenate([seen, ids]), np.concatenate([checks, check])
    # Sorting keeps the order of equals, so those that were seen come first.
    order = np.lexsort((both, every))
    again = np.empty(len(order), np.bool_)
    again[order] = ~is_first(every[order], both[order])
    return again[len(seen) :]


def first_ones(start: Ints, ids: Ids, check: Ids, case: Case) -> Ints:
    """The first row of every start and identity, by start.

    Rows of one start nearly always have one identity, too: only the others are sorted by that.
    """
    # Every input is in order already, and this kind of sort merges what is.
    order = np.argsort(start, kind="stable")
    if case == "r0":
        return order[is_first(start[order])]
    first, mixed = _leaders(start, ids, check, order)
    open_rows = np.flatnonzero(mixed)
    if len(open_rows):
        at = order[open_rows]
        again = np.lexsort((check[at], ids[at], start[at]))
        open_rows, at = open_rows[again], at[again]
        first[open_rows] = is_first(start[at], ids[at], check[at])
    return order[first]


def _leaders(start: Ints, ids: Ids, check: Ids, order: Ints) -> tuple[Mask, Mask]:
    """In that order: the first row of every identity, and the rows for which that is left open."""
    if is_compiled(len(order)):
        found: tuple[Mask, Mask] = native().leaders(start, ids, check, order)
        return found
    first = is_first(start[order])
    group = group_starts(first)
    lead, mixed = order[group], np.zeros(len(order), np.bool_)
    mixed[group[(ids[order] != ids[lead]) | (check[order] != check[lead])]] = True
    return first, mixed[group]


def _identity(elements: Elements, case: Case, rows: slice | Ints, ordinal: Ints) -> tuple[Ids, Ids]:
    """What tells elements of one start apart."""
    if case == "r2":
        return elements.ids[rows], elements.check[rows]
    number = ordinal[rows].view(np.uint64)
    none = np.zeros(len(number), np.uint64)
    return (none if case == "r0" else number), none


def _remember(
    runs: Runs,
    start: Ints,
    ids: Ids,
    check: Ids,
    last: int,
    seen: Ids,
    checks: Ids,
    until: Time,
) -> Runs:
    """What passed at the largest start."""
    if until == FOREVER:
        return {}
    if not len(start):
        return runs
    most = int(start.max())
    at = start == most
    if most == last:
        ids, check = np.concatenate([seen, ids[at]]), np.concatenate([checks, check[at]])
    else:
        ids, check = ids[at], check[at]
    rows = pa.RecordBatch.from_pydict(
        {
            ID: pa.array(ids),
            TIME: pa.array(np.full(len(ids), most, np.int64)),
            CHECK: pa.array(check),
        }
    )
    return {**runs, SEEN: (SortedRun(rows),)}


def refuse_twice(runs: Runs, elements: Elements, copies: Copies) -> tuple[SortedRun, ...]:
    """Check that no input has a payload twice at a start; give what each said at its last one.

    The same element again does no harm.

    Raises:
        StreamError: An input has two elements of one payload and start, with different ends.
    """
    names = (ID, CHECK, TIME, END, KEY)
    keys = np.array([copy.key for copy in copies.heard], np.int64)
    columns = [
        elements.ids,
        elements.check,
        elements.start,
        elements.new_end,
        keys[elements.column],
    ]
    held = [run.rows for run in runs.get(LAST_ELEMENTS, ())]
    before = sum(rows.num_rows for rows in held)
    ids, check, start, end, key = (
        np.concatenate([*(rows.column(name).to_numpy() for rows in held), column])
        for name, column in zip(names, columns)
    )
    order = np.lexsort((check, ids, start, key))
    first = is_first(key[order], start[order], ids[order], check[order])
    differs = ~first[1:] & (end[order][1:] != end[order][:-1])
    if differs.any():
        row = int(order[1:][differs].min()) - before
        raise broken(copies.heard[elements.column[row]], elements, row, "r2", TWICE)
    order = order[first]
    # Inputs that have left are not heard, and at earlier starts nothing comes any more.
    heard = sorted((copy.key, copy.last) for copy in copies.heard)
    if not heard:
        return ()
    keys_heard = np.array([one for one, _ in heard], np.int64)
    last = np.array([time for _, time in heard], np.int64)
    index = np.minimum(np.searchsorted(keys_heard, key[order]), len(keys_heard) - 1)
    kept = order[(keys_heard[index] == key[order]) & (last[index] == start[order])]
    if not len(kept):
        return ()
    arrays = [pa.array(column[kept]) for column in (ids, check, start, end, key)]
    return (SortedRun(pa.RecordBatch.from_arrays(arrays, names=list(names))),)
