"""Counts of very many keys, added up as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.numbers.hashing import stable_hash

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """Keys of a few numbers each, and how often each occurs, in the order of a hash of the key."""

    hash: npt.NDArray[np.uint64]
    key: tuple[Numbers, ...]
    count: Numbers

    def __len__(self) -> int:
        return len(self.hash)

    @staticmethod
    def of(key: tuple[Numbers, ...], count: Numbers) -> KeyCounts:
        """Entries with these columns as their key."""
        return KeyCounts(stable_hash([pa.array(part) for part in key], len(count)), key, count)

    def take(self, rows: npt.NDArray[np.int64] | Flags) -> KeyCounts:
        """The entries at these positions, or those for which a mask is true."""
        return KeyCounts(self.hash[rows], tuple(part[rows] for part in self.key), self.count[rows])

    def order(self) -> npt.NDArray[np.int64]:
        """The positions that bring equal keys together; equal keys stay in their order."""
        order = np.argsort(self.hash, kind="stable")
        hashes = self.hash[order]
        same = np.flatnonzero(hashes[1:] == hashes[:-1])
        one, other = order[same], order[same + 1]
        if any((part[one] != part[other]).any() for part in self.key):
            return np.lexsort((*self.key, self.hash))
        return order

    def begins(self) -> Flags:
        """Where another key begins; the entries are in `order`."""
        is_new = np.ones(len(self), np.bool_)
        is_new[1:] = self.hash[1:] != self.hash[:-1]
        for part in self.key:
            is_new[1:] |= part[1:] != part[:-1]
        return is_new

    def added_up(self) -> KeyCounts:
        """One entry per key, in order, without those that come to nothing."""
        if not len(self):
            return self
        ordered = self.take(self.order())
        is_new = ordered.begins()
        total = np.add.reduceat(ordered.count, np.flatnonzero(is_new))
        distinct = ordered.take(is_new)
        return KeyCounts(distinct.hash, distinct.key, total).take(total != 0)


@final
class Tally:
    """Adds entries up, in runs of growing size: n additions cost about n log n.

    Args:
        keep: Which entries are still needed; asked whenever runs are merged.
    """

    def __init__(self, keep: Callable[[KeyCounts], Flags] | None = None) -> None:
        self._runs: list[KeyCounts] = []
        self._keep = keep

    def add(self, entries: KeyCounts) -> None:
        """Add all counts."""
        run = entries.added_up()
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = _merged([self._runs.pop(), run])
            if self._keep is not None:
                run = run.take(self._keep(run))
        if len(run):
            self._runs.append(run)

    def counts(self, keys: KeyCounts) -> Numbers:
        """How often each of these keys has been counted."""
        total = np.zeros(len(keys), np.int64)
        for run in self._runs:
            at = np.searchsorted(run.hash, keys.hash)
            open_rows = np.arange(len(keys))
            while len(open_rows):
                inside = at[open_rows] < len(run)
                open_rows = open_rows[inside]
                there = run.take(at[open_rows])
                open_rows, there = _both(there.hash == keys.hash[open_rows], open_rows, there)
                same = np.ones(len(open_rows), np.bool_)
                for mine, theirs in zip(there.key, keys.key):
                    same &= mine == theirs[open_rows]
                total[open_rows[same]] += there.count[same]
                # Another key at the same place: its neighbour may be the one.
                open_rows = open_rows[~same]
                at[open_rows] += 1
        return total

    def entries(self) -> KeyCounts:
        """All that is counted and kept, one entry per key."""
        if not self._runs:
            return KeyCounts.of((), np.empty(0, np.int64))
        run = _merged(self._runs)
        if self._keep is not None:
            run = run.take(self._keep(run))
        self._runs = [run]
        return run


def _both(mask: Flags, rows: Numbers, entries: KeyCounts) -> tuple[Numbers, KeyCounts]:
    return rows[mask], entries.take(mask)


def _merged(runs: list[KeyCounts]) -> KeyCounts:
    if len(runs) == 1:
        return runs[0]
    return KeyCounts(
        np.concatenate([run.hash for run in runs]),
        tuple(np.concatenate(parts) for parts in zip(*(run.key for run in runs))),
        np.concatenate([run.count for run in runs]),
    ).added_up()
