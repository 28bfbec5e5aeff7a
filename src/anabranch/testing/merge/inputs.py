"""Who takes part in a merge, who of them may be trusted, and what was decided to say when."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from anabranch.errors import StreamError
from anabranch.model.time import BEGINNING
from anabranch.testing.physical import Element, Move
from anabranch.testing.replica_view import Key


@final
@dataclass(frozen=True, slots=True)
class Quorum:
    """An event leaves when so many inputs have it: a number of them, or a fraction."""

    of: int | float

    def needed(self, inputs: int) -> int:
        """How many that are."""
        return self.of if isinstance(self.of, int) else max(1, math.ceil(self.of * inputs))


@final
@dataclass(frozen=True, slots=True)
class Lag:
    """The output promises so much less than the inputs."""

    by: int


InsertPolicy: TypeAlias = Literal["first", "leading", "half_frozen"] | Quorum
AdjustPolicy: TypeAlias = Literal["lazy", "eager", "leading"]
StablePolicy: TypeAlias = Literal["max"] | Lag


@final
@dataclass(slots=True, eq=False)
class MergeInput:
    """An attached input: from when on it stands for events, and what it promised."""

    name: str
    from_time: int
    stable: int = BEGINNING
    # What came while joining, for cases that cannot remember it elsewhere.
    held: list[Move] = field(default_factory=list)


@final
@dataclass(slots=True)
class MergeState:
    """What all cases share: the inputs, the promise of the output, and what leaves now."""

    inserts: InsertPolicy
    adjusts: AdjustPolicy
    stable: int = BEGINNING
    inputs: dict[str, MergeInput] = field(default_factory=dict)
    leader: MergeInput | None = None
    divergences: int = 0
    out: list[Element] = field(default_factory=list)

    def joined(self) -> list[MergeInput]:
        """The inputs that stand for everything that is not final in the output."""
        return [each for each in self.inputs.values() if each.from_time <= self.stable]

    def is_joined(self, given: MergeInput) -> bool:
        """Whether this one does."""
        return given.from_time <= self.stable

    def lead(self) -> MergeInput | None:
        """The joined input with the largest promise; who leads goes on leading among equals."""
        self.leader = max(
            self.joined(), key=lambda each: (each.stable, each is self.leader), default=None
        )
        return self.leader

    def emit(self, key: Key, end: int, new_end: int) -> None:
        """An event begins, moves its end, or goes."""
        self.out.append(Move(*key, end, new_end))

    def may_move(self, key: Key, *ends: int) -> bool:
        """Whether the output may still adjust an event from and to such ends."""
        return all(self.stable <= end for end in ends) or key[1] >= self.stable


class MergeIndex(ABC):
    """The part of a merge that differs from case to case."""

    @abstractmethod
    def move(self, given: MergeInput, move: Move) -> None:
        """An input inserts or adjusts."""

    @abstractmethod
    def freeze(self, leading: MergeInput, time: int) -> None:
        """Correct what the output could no longer correct after it has promised a time."""

    @abstractmethod
    def review(self) -> None:
        """Say what may be said by now: inputs came, left, joined or lead."""

    @abstractmethod
    def forget(self, name: str) -> None:
        """An input has left."""


def most_advanced(inputs: Sequence[MergeInput]) -> MergeInput | None:
    """The one with the largest promise, the first of them among equals."""
    return max(inputs, key=lambda each: each.stable, default=None)


def broken(case: str, promise: str, given: MergeInput, move: Move, hint: str) -> StreamError:
    """An input is not what it was declared to be."""
    return StreamError(
        f"a stream declared as {case} {promise}", where=f"input '{given.name}': {move!r}", hint=hint
    )
