"""How often some payloads hold over time, for those that revisions take something from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np

from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.tally import Flags, Numbers
from anabranch.model.time import BEGINNING, TimeArray


def payload_hash(batch: EventBatch) -> Numbers:
    """A number for the payload of each row."""
    return stable_hash(batch.payload.columns, len(batch)).view(np.int64)


def withdrawn_payloads(pieces: Iterable[Arrivals]) -> Numbers:
    """The hashes of all payloads that revisions of a stream withdraw, in ascending order."""
    found = [np.empty(0, np.int64)]
    for piece in pieces:
        for revision in piece.revisions:
            changes = revision.changes
            found.append(payload_hash(changes)[changes.new_end < changes.end])
    return np.unique(np.concatenate(found))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _LevelSteps:
    """How multiplicities change, sorted by payload and instant."""

    payload: Numbers
    instant: TimeArray
    change: Numbers

    def __len__(self) -> int:
        return len(self.payload)

    @staticmethod
    def of(payload: Numbers, instant: TimeArray, change: Numbers) -> _LevelSteps:
        """Added up; what comes to nothing is left out."""
        order = np.lexsort((instant, payload))
        payload, instant = payload[order], instant[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (payload[1:] != payload[:-1]) | (instant[1:] != instant[:-1])
        first = np.flatnonzero(begins)
        total = np.add.reduceat(change[order], first) if len(first) else change
        keep = total != 0
        return _LevelSteps(payload[first][keep], instant[first][keep], total[keep])

    @staticmethod
    def of_moves(batch: EventBatch) -> _LevelSteps:
        """Each move adds one from its old end to its new one."""
        payload = payload_hash(batch)
        change = np.repeat(np.array([1, -1], np.int64), len(batch))
        return _LevelSteps.of(np.tile(payload, 2), np.r_[batch.end, batch.new_end], change)

    @staticmethod
    def merged(runs: list[_LevelSteps]) -> _LevelSteps:
        return _LevelSteps.of(
            np.concatenate([run.payload for run in runs]),
            np.concatenate([run.instant for run in runs]),
            np.concatenate([run.change for run in runs]),
        )

    def about(self, payloads: Numbers) -> _LevelSteps:
        """Those of some payloads, ascending; the work follows what is found."""
        low = np.searchsorted(self.payload, payloads)
        count = np.searchsorted(self.payload, payloads, side="right") - low
        offset = np.cumsum(count) - count
        rows = np.arange(int(count.sum())) + np.repeat(low - offset, count)
        return _LevelSteps(self.payload[rows], self.instant[rows], self.change[rows])


@final
class SettledLevels:
    """The multiplicities of some payloads at all instants.

    They are kept in runs of growing size: n additions cost about n log n, and a question costs what
    it asks for, in every run.

    Args:
        payloads: Their hashes, ascending; see `withdrawn_payloads`. Others are not kept.
    """

    def __init__(self, payloads: Numbers) -> None:
        self._payloads = payloads
        self._runs: list[_LevelSteps] = []

    def add(self, batch: EventBatch) -> None:
        """Add what rows change."""
        if not len(self._payloads):
            return
        moves = batch.where(self._is_kept(batch) & (batch.end != batch.new_end))
        if not len(moves):
            return
        run = _LevelSteps.of_moves(moves)
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = _LevelSteps.merged([self._runs.pop(), run])
        self._runs.append(run)

    def first_missing(
        self, changes: EventBatch, since: int = BEGINNING
    ) -> tuple[int, int, int] | None:
        """The first instant at which changes take away more than there is.

        Args:
            changes: Inserts and withdrawals of snapshots.
            since: What is before this instant is not known, and not looked at.

        Returns:
            The row of a withdrawal there, the instant, and how often its payload holds there;
            None if everything is there.
        """
        if not len(self._payloads):
            return None
        withdrawals = changes.where(self._is_kept(changes) & (changes.new_end < changes.end))
        if not len(withdrawals):
            return None
        payloads = np.unique(payload_hash(withdrawals))
        about = [run.about(payloads) for run in (*self._runs, _LevelSteps.of_moves(changes))]
        steps = _LevelSteps.merged([each for each in about if len(each)])
        begins = np.ones(len(steps), np.bool_)
        begins[1:] = steps.payload[1:] != steps.payload[:-1]
        level = np.cumsum(steps.change)
        first = np.flatnonzero(begins)
        level -= (level[first] - steps.change[first])[np.cumsum(begins) - 1]
        until = np.append(steps.instant[1:], np.int64(2**63 - 1))
        missing = np.flatnonzero((level < 0) & (until > since))
        if not len(missing):
            return None
        at = np.maximum(steps.instant[missing], since)
        best = int(np.argmin(at))
        instant, payload = int(at[best]), steps.payload[missing[best]]
        there = (payload_hash(changes) == payload) & (changes.new_end <= instant)
        there &= instant < changes.end
        rows = np.flatnonzero(there)
        return int(rows[0]), instant, int(level[missing[best]]) + len(rows)

    def _is_kept(self, batch: EventBatch) -> Flags:
        hashes = payload_hash(batch)
        at = np.searchsorted(self._payloads, hashes)
        at[at == len(self._payloads)] = 0
        return np.asarray(self._payloads[at] == hashes)
