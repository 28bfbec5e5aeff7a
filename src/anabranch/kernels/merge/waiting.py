"""What a merge by order has to leave for later: those who are joining, and order that settles.

What those say waits who are joining: they may lack what others have yet to say. So does what an
input says ahead of its own promise, where its order holds before that only (`settled_order.py`).

Example: an input of two shards says B at 5, then A at 3, stable 6, in two batches. Taken as it
comes, A would look like a repetition, as B has passed already; before the promise comes, neither
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from anabranch.kernels.columns.grouped import group_starts, is_first
from anabranch.kernels.contract.column_names import COPY, TIMES
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.merge.arrived_rows import ArrivedRows
from anabranch.kernels.merge.copies import Copies
from anabranch.kernels.merge.keyed import Runs
from anabranch.kernels.merge.nodes import Elements
from anabranch.model.time import FOREVER

WAITING: Final = "waiting"

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def those_who_wait(
    runs: Runs, rows: ArrivedRows, before: Copies, copies: Copies, settles: Sequence[bool]
) -> tuple[ArrivedRows, tuple[SortedRun, ...]]:
    """What is to be looked at now, and what waits.

    `rows` are of those who are heard. `settles` says for each side whether its order is there
    before its promise only; the only side may stand for all inputs.
    """
    joining = [each.number for each in copies.heard if each.status == "joining"]
    waited = runs.get(WAITING, ())
    if not joining and not waited and not any(settles):
        return rows, ()
    if waited:
        # Who begins anew says again what it said before.
        lives = {each.number: each.life for each in before.each}
        same = [each.number for each in copies.heard if lives.get(each.number) == each.life]
        old = ArrivedRows.of([run.rows for run in waited], rows.payload.schema)
        old = old.take(np.flatnonzero(np.isin(old.column(COPY), same)))
        rows = ArrivedRows.of([old.as_batch(), rows.as_batch()], rows.payload.schema)
    number = rows.column(COPY)
    waits = np.isin(number, joining)
    if any(settles):
        waits |= rows.column(TIMES[0]) >= _promises(copies, settles)[number]
    if not waits.any():
        return rows, ()
    held = rows.take(np.flatnonzero(waits)).as_batch()
    return rows.take(np.flatnonzero(~waits)), (SortedRun(held),)


def told_apart(elements: Elements) -> Elements:
    """Elements of one start, told apart by payload, end, and number among those that are equal.

    An input that has promised a start has said all of them, in whatever order. So they are a
    multiset, and of equal elements the output has as many as the input with the most of them: as
    if each had put them in order of payload and end, also where one of them lacks some.
    """
    ids, check = ids_and_checks(
        elements.payload.take(np.arange(len(elements))).columns, len(elements)
    )
    ids = (ids ^ elements.new_end.view(np.uint64)) * _ODD
    order = np.lexsort((check, ids, elements.start, elements.column))
    first = is_first(*(each[order] for each in (elements.column, elements.start, ids, check)))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - group_starts(first)
    return replace(elements, ids=ids, check=(check ^ number.view(np.uint64)) * _ODD)


def _promises(copies: Copies, settles: Sequence[bool]) -> np.ndarray:
    """By number: what was promised of the order of each input; FOREVER: all of it."""
    promises = np.full(max(each.number for each in copies.each) + 1, FOREVER, np.int64)
    for each in copies.each:
        # The only side may stand for all inputs.
        if settles[each.number if len(settles) > 1 else 0]:
            promises[each.number] = each.stable
    return promises
