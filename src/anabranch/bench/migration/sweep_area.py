"""What one side of a nested-loops join holds, with the predicate over all of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anabranch.bench.migration.pieces import NEVER, Stretch

_MODULUS = 1_000_003


class SweepArea:
    """Pieces of one input, in the order of arrival, each until it expires.

    A probe evaluates the predicate for every piece, as nested loops do; `evaluations` counts
    them. `rounds` makes the predicate so many times as expensive.
    """

    def __init__(self, rounds: int = 0) -> None:
        self.evaluations: int = 0
        self._rounds = rounds
        self._count = 0
        # All arrays have one length, of which the first `_count` entries are in use.
        self._keys = np.empty(64, np.int64)
        self._expiry = np.empty(64, np.float64)
        self._is_old = np.zeros(64, np.bool_)
        self._pieces = np.empty(64, object)
        self._next_expiry = NEVER

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Stretch]:
        return iter(self._pieces[: self._count].tolist())

    @property
    def holds_old(self) -> bool:
        """Whether a piece is here that came before the start of the migration."""
        return bool(self._is_old[: self._count].any())

    def add(self, key: int, piece: Stretch, expiry: float) -> None:
        """Keep a piece until the other input has reached a time."""
        if self._count == len(self._keys):
            for name in ("_keys", "_expiry", "_is_old", "_pieces"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.empty_like(array)]))
        at = self._count
        self._keys[at], self._expiry[at] = key, expiry
        self._is_old[at], self._pieces[at] = not piece.new, piece
        self._count += 1
        self._next_expiry = min(self._next_expiry, expiry)

    def purge(self, reached: float) -> None:
        """Drop what has expired by a time."""
        if self._next_expiry > reached:
            return
        kept = self._expiry[: self._count] > reached
        left = int(np.count_nonzero(kept))
        for array in (self._keys, self._expiry, self._is_old, self._pieces):
            array[:left] = array[: self._count][kept]
        # Nobody else may hold what has expired.
        self._pieces[left : self._count] = None
        self._count = left
        self._next_expiry = float(self._expiry[:left].min()) if left else NEVER

    def keep_longer(self, window: float) -> None:
        """Keep every piece for a whole window after its start, although it ends before."""
        for at in range(self._count):
            self._expiry[at] = self._pieces[at].start + window
        self._next_expiry = float(self._expiry[: self._count].min()) if self._count else NEVER

    def probe(self, key: int) -> list[Stretch]:
        """The pieces that satisfy the predicate."""
        self.evaluations += self._count
        held = self._keys[: self._count]
        wanted = np.int64(key)
        # A predicate of many steps, over every piece; equal keys stay equal.
        for _ in range(self._rounds):
            held, wanted = (held * 31 + 7) % _MODULUS, (wanted * 31 + 7) % _MODULUS
        matches = np.flatnonzero(held == wanted)
        return [self._pieces[at] for at in matches]
