"""Merging streams of inserts in order of start: cases R0, R1 and R2."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal, final

from anabranch.model.payload import Payload
from anabranch.model.time import BEGINNING
from anabranch.testing.merge.inputs import MergeIndex, MergeInput, MergeState, broken
from anabranch.testing.physical import Move


@final
@dataclass(slots=True)
class OrderedIndex(MergeIndex):
    """Remembers only the latest start, and what was said at it (Chandramouli et al., IV-A to C).

    What a joining input says is held until it has joined: it may lack events that others have
    yet to bring, and passing their start would lose them.
    """

    case: Literal["R0", "R1", "R2"]
    state: MergeState
    latest: int = BEGINNING
    # At the latest start: how many events left, how many each input brought, and which payloads.
    left: int = 0
    brought: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    payloads: set[Payload] = field(default_factory=set)
    # Per input, for checking: its own latest start, and its payloads there.
    own: dict[str, tuple[int, set[Payload]]] = field(default_factory=dict)

    def move(self, given: MergeInput, move: Move) -> None:
        """Say an insert that is new."""
        self._check(given, move)
        given.held.append(move)
        self._release(given)

    def freeze(self, leading: MergeInput, time: int) -> None:
        """All that starts before has been said."""

    def review(self) -> None:
        """An input that has joined is heard."""
        for each in self.state.joined():
            self._release(each)

    def forget(self, name: str) -> None:
        """Events that only this input brought have left all the same."""
        self.brought.pop(name, None)
        self.own.pop(name, None)

    def _release(self, given: MergeInput) -> None:
        if self.state.is_joined(given):
            for move in given.held:
                if self._is_new(given, move):
                    self._say(move)
            given.held.clear()

    def _is_new(self, given: MergeInput, move: Move) -> bool:
        if move.start > self.latest:
            self.latest, self.left = move.start, 0
            self.brought.clear()
            self.payloads.clear()
            is_new = True
        elif move.start < self.latest or self.case == "R0":
            return False
        elif self.case == "R1":
            is_new = self.brought[given.name] == self.left
        else:
            is_new = move.payload not in self.payloads
        self.brought[given.name] += 1
        self.left += is_new
        self.payloads.add(move.payload)
        return is_new

    def _say(self, move: Move) -> None:
        if move.start < self.state.stable:
            # The output has promised, after an input without this event, that it does not exist.
            self.state.divergences += 1
        else:
            self.state.out.append(move)

    def _check(self, given: MergeInput, move: Move) -> None:
        if move.end != move.start:
            raise broken(
                self.case,
                "has an adjust",
                given,
                move,
                "it is not insert-only: merge as R3, or as R4 if payloads may start together twice",
            )
        latest, payloads = self.own.get(given.name, (BEGINNING, set[Payload]()))
        if move.start < latest:
            raise broken(
                self.case,
                f"goes back in time, from start {latest}",
                given,
                move,
                "put a cleanse in front of the merge, or merge as R3 or R4",
            )
        if move.start > latest:
            payloads = set()
        elif self.case == "R0":
            raise broken(
                "R0",
                "has two events with one start",
                given,
                move,
                "merge as R1 if ties come in the same order everywhere, else as R2",
            )
        elif self.case == "R2" and move.payload in payloads:
            raise broken(
                "R2",
                "has two events with one payload and start",
                given,
                move,
                "merge as R1 if ties come in the same order everywhere, else as R4",
            )
        self.own[given.name] = (move.start, payloads | {move.payload})
