"""Elements before and after a batch: their numbers, and from when to when they are in a window.

Elements of a group are numbered 1, 2, 3 ... by time (and order_by). With `rows` R and `slide` S,
element i is in the window from the element whose number is the next multiple of S at or after i,
until the one whose number is the next multiple of S at or after i + R. With S = 1: from its own
instant until that of element i + R.

Only chunks without gaps are read (see `element_fetch`), so numbers are relative to a chunk;
`before` is how many elements of the group precede it, modulo S, which is all that a multiple of S
needs.

Example, R = 2, S = 1, elements at 10, 20, 30, 40, 50, 60; one arrives at 35. Read are 20, 30, 40
and 50:
    20: ends where the second element after it is, 40 before and 35 after the batch
    30: 50 before, 40 after
    35: not there before, [35, 50) after
    40: its end is element 60 before and after, which was not read: FOREVER both times, no move
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_compiled,
    is_first,
    merge_order,
    native,
    order_by_id_and_time,
)
from anabranch.kernels.contract.column_names import CHECK, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.row_windows.element_fetch import fetch
from anabranch.kernels.row_windows.element_trace import ElementLayout, refuse_collisions
from anabranch.kernels.row_windows.tie_order import sort_elements
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.time import FOREVER


@final
@dataclass(frozen=True, slots=True, eq=False)
class ElementRevision:
    """Elements around changes, sorted, each payload and instant once.

    Attributes:
        ids: The group of each.
        times: The instant of each.
        old, new: How often it is there, before and after.
        instant: Where another instant or group begins.
        source: The row of `rows` that has the payload.
        rows: What was held and what arrived.
        chunk: Elements with one number are a stretch of a group without gaps.
        before: Per chunk, how many elements of the group precede it, modulo the slide.
    """

    ids: Ids
    times: Ints
    old: Ints
    new: Ints
    instant: Mask
    source: Ints
    rows: pa.RecordBatch
    chunk: Ints
    before: Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class ElementMoves:
    """How lifetimes move: `element` is the index in a revision whose payload each has."""

    element: Ints
    start: Ints
    end: Ints
    new_end: Ints


def revise(
    runs: Sequence[SortedRun],
    layout: ElementLayout,
    arrived: pa.RecordBatch,
    row: Ints,
    times: Ints,
    by: Ints,
) -> ElementRevision:
    """Add elements to groups, `by` so many of the payload of a `row` that arrived at each time."""
    ids = arrived.column(ID).to_numpy()[row]
    order = order_by_id_and_time(ids, times)
    row, ids, times, by = row[order], ids[order], times[order], by[order]
    changed = is_first(ids, times)
    found = fetch(runs, layout, ids[changed], times[changed])
    names = [*layout.values(), *([CHECK] if layout.checked else [])]
    rows = pa.concat_batches([found.rows.select(names), arrived.select(names)])
    held = found.rows.num_rows
    chunk = np.concatenate([found.chunk, found.chunk_of[np.cumsum(changed) - 1]])
    times = np.concatenate([found.rows.column(TIME).to_numpy(), times])
    source = np.concatenate([np.arange(held), held + row])
    old = np.concatenate([found.rows.column(COUNT).to_numpy(), np.zeros_like(by)])
    new = np.concatenate([old[:held], by])
    cuts = np.cumsum([0, *found.parts, len(by)])
    order = merge_order([(chunk[low:high], times[low:high]) for low, high in pairwise(cuts)])
    ranked = sort_elements(order, chunk, times, layout.payload_of(rows), source, layout.order_by)
    order, begins = ranked.order, np.flatnonzero(ranked.element)
    first = order[begins]
    if layout.checked:
        check = rows.column(CHECK).to_numpy()[source[order]]
        refuse_collisions(found.ids[chunk[order]], check)
    return ElementRevision(
        ids=found.ids[chunk[first]],
        times=times[first],
        old=np.add.reduceat(old[order], begins),
        new=np.add.reduceat(new[order], begins),
        instant=ranked.instant[begins],
        source=source[first],
        rows=rows,
        chunk=chunk[first],
        before=found.before,
    )


def changed_lifetimes(revision: ElementRevision, layout: ElementLayout) -> ElementMoves:
    """The moves that lead from the lifetimes before to those after."""
    old, new = revision.old, revision.new
    if layout.slide == 1 and is_compiled(len(old)):
        # A window without a bound never pushes anything out.
        size = FOREVER if layout.rows is None else layout.rows
        chunk = np.ascontiguousarray(revision.chunk)
        return ElementMoves(*native().moved_ends(revision.times, old, new, chunk, int(size)))
    if layout.slide == 1 and layout.rows is not None:
        # More copies than the window holds push each other out at once.
        old, new = np.minimum(old, layout.rows), np.minimum(new, layout.rows)
    elif layout.slide == 1:
        both = np.minimum(old, new)
        old, new = old - both, new - both
    copies = np.maximum(old, new)
    element = np.repeat(np.arange(len(copies)), copies)
    copy = np.arange(len(element)) - (np.cumsum(copies) - copies)[element]
    was, now = (_lifetimes(revision, layout, counts, element, copy) for counts in (old, new))
    if layout.slide == 1:
        # All lifetimes of an element begin at its instant.
        start = revision.times[element]
        end, new_end = (np.where(there, till, start) for there, _, till in (was, now))
        moved = np.flatnonzero(end != new_end)
        return ElementMoves(element[moved], start[moved], end[moved], new_end[moved])
    same = was[0] & now[0] & (was[1] == now[1])
    moved = np.flatnonzero(same & (was[2] != now[2]))
    gone, come = np.flatnonzero(was[0] & ~same), np.flatnonzero(now[0] & ~same)
    start = np.concatenate([was[1][gone], was[1][moved], now[1][come]])
    return ElementMoves(
        element=element[np.concatenate([gone, moved, come])],
        start=start,
        end=np.concatenate([was[2][gone], was[2][moved], now[1][come]]),
        new_end=np.concatenate([was[1][gone], now[2][moved], now[2][come]]),
    )


def _lifetimes(
    revision: ElementRevision, layout: ElementLayout, counts: Ints, element: Ints, copy: Ints
) -> tuple[Mask, Ints, Ints]:
    """Whether these copies of elements are ever in the window, from when, and till when.

    What pushes an element out may lie beyond what was read. Then it is the same before and after
    the batch, and FOREVER stands for it both times.
    """
    total = np.cumsum(counts)
    instants = np.append(np.repeat(revision.times, counts), FOREVER)
    position = (total - counts)[element] + copy
    first = is_first(revision.chunk)
    chunk = revision.chunk[element]
    begin = (total - counts)[first][chunk]
    end = np.append((total - counts)[first][1:], len(instants) - 1)[chunk]

    def instant_of(position: Ints) -> Ints:
        return instants[np.where(position < end, position, len(instants) - 1)]

    offset = begin - 1 - revision.before[chunk]
    number = position - offset
    since = instant_of(_multiple(number, layout.slide) + offset)
    till = np.full(len(position), np.int64(FOREVER))
    if layout.rows is not None:
        leaves = _multiple(number + layout.rows, layout.slide)
        till = instant_of(leaves + offset)
    return (copy < counts[element]) & (since < till), since, till


def _multiple(numbers: Ints, slide: int) -> Ints:
    """The next multiple of the slide, at or after each number."""
    return numbers if slide == 1 else -(-numbers // slide) * slide
