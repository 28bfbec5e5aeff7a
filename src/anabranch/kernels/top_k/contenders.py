"""Rows that may be among the first k, told from the others before anything is sorted.

Where rows hold for windows on a grid, many have one lifetime, and of those only the best k can be
among the first k. So nearly all of a large batch can be left out of the comparison. They are left
out only where nothing of their kind goes in the same batch:

- moves that undo each other (a row comes and is withdrawn in one batch) are left out together;
- a row that comes is *contested* if a row that goes agrees with it in what is ordered by. It stays,
  and does not count as one of k better ones, for it may be gone after the batch;
- of the others, k better ones with the same lifetime hold after the batch whenever the row does,
  whatever held before it. So it is not among the first k, and these k are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.algebra.top_k import Ordering
from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.families import TOP
from anabranch.kernels.columns.grouped import Ints, Mask, mostly_different
from anabranch.kernels.columns.lazy_concat import LazyConcat
from anabranch.kernels.contract.keys import ids_and_checks
from anabranch.kernels.top_k.row_order import order_codes


def contenders(
    k: int,
    concat: LazyConcat,
    order_by: Sequence[Ordering],
    owner: Ints,
    begin: Ints,
    finish: Ints,
) -> Ints | None:
    """Positions of the rows that may matter to the first k of their owners; None: all of them.

    Rows hold from `begin` to `finish`, or go where that runs backwards. Small batches and those
    whose rows hold differently long are not looked at: little would be left out.
    """
    loops = TOP.loops(len(owner))
    if loops is None or mostly_different(owner, begin, finish):
        return None
    keys = np.stack(order_codes(concat, order_by))
    keep = np.ones(len(owner), np.bool_)
    counted = finish > begin
    goes = np.flatnonzero(finish < begin)
    if len(goes):
        rows = np.flatnonzero(loops.like(owner, keys, goes))
        keep[rows] = ~_undone(concat, rows, owner, begin, finish)
        rows = rows[keep[rows]]
        left = np.flatnonzero(finish[rows] < begin[rows])
        contested = loops.like(owner[rows], np.ascontiguousarray(keys[:, rows]), left)
        counted[rows[contested]] = False
        counted &= keep
    keep &= loops.contenders(k, owner, begin, finish, keys, counted)
    return None if keep.all() else np.flatnonzero(keep)


def _undone(concat: LazyConcat, rows: Ints, owner: Ints, begin: Ints, finish: Ints) -> Mask:
    """Rows whose moves add up to nothing with those of others: equal ones over the same stretch."""
    payload = concat.take(rows)
    row_ids, checks = ids_and_checks(payload.columns, len(rows))
    low, high = np.minimum(begin[rows], finish[rows]), np.maximum(begin[rows], finish[rows])
    change = np.where(finish[rows] > begin[rows], 1, -1)
    owners = owner[rows].view(np.uint64)
    first, sums = columns.native().add_up_events(owners, row_ids, checks, low, high, change)
    return np.asarray(sums[first] == 0)
