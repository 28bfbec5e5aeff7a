"""Merging redundant streams one element at a time: written to be read, never to be fast."""

from __future__ import annotations

from typing import final

from anabranch.errors import PlanError
from anabranch.model.time import BEGINNING, Duration, Time, subtract_saturating
from anabranch.testing.merge.in2t import KeyedIndex
from anabranch.testing.merge.in3t import MultisetIndex
from anabranch.testing.merge.inputs import (
    AdjustPolicy,
    InsertPolicy,
    Lag,
    MergeIndex,
    MergeInput,
    MergeState,
    StablePolicy,
)
from anabranch.testing.merge.ordered import OrderedIndex
from anabranch.testing.physical import AnyElement, Element, KitStable, Move, move_or_stable
from anabranch.testing.replica_forms import MergeCase


@final
class MergeModel:
    """What a merge says, element by element (Chandramouli et al., IV and V).

    A joining input (one that stands for events from a time on that the output has not promised
    yet) prompts nothing and never leads. As soon as it has joined, what it said before counts, its
    promise included: from then on all others may fail.

    Where the inputs contradict each other, the output stays a legal stream: an event that is there
    for good stays, with the end that the most advanced input says that has it.

    >>> from anabranch.testing import insert, stable
    >>> model = MergeModel("R3")
    >>> model.attach("left"), model.attach("right")
    ([], [])
    >>> model.take("left", insert("A", start=6, end=10))
    [insert('A')[6, 10)]
    >>> model.take("right", insert("A", start=6, end=12)), model.take("right", stable(11))
    ([], [adjust('A')[6, 10 -> 12), stable(11)])

    Args:
        case: What is known of the inputs.
        inserts: When an event leaves; R0 to R2 remember too little for anything but `first`.
        adjusts: When an end is corrected.
        stable: How much the output promises.
    """

    def __init__(
        self,
        case: MergeCase,
        *,
        inserts: InsertPolicy = "first",
        adjusts: AdjustPolicy = "lazy",
        stable: StablePolicy = "max",
    ) -> None:
        self._state = MergeState(inserts, adjusts)
        self._lag = Duration(stable.by if isinstance(stable, Lag) else 0)
        self._names: set[str] = set()
        self._index: MergeIndex
        if case == "R3":
            self._index = KeyedIndex(self._state)
        elif case == "R4":
            self._index = MultisetIndex(self._state)
        elif inserts != "first":
            raise PlanError(
                f"a merge as {case} emits every event at once",
                where=f"policy for inserts: {inserts}",
                hint="merge as R3 or R4, which is always sound, or leave the policy at 'first'",
            )
        else:
            self._index = OrderedIndex(case, self._state)

    @property
    def stable(self) -> int:
        """What the output has promised."""
        return self._state.stable

    @property
    def divergences(self) -> int:
        """How often inputs contradicted each other where it mattered."""
        return self._state.divergences

    @property
    def leader(self) -> str | None:
        """The joined input with the largest promise."""
        return None if self._state.leader is None else self._state.leader.name

    def joined(self) -> list[str]:
        """The inputs that suffice if all others fail."""
        return [each.name for each in self._state.joined()]

    def attach(self, name: str, from_time: int = BEGINNING) -> list[Element]:
        """An input comes, or comes again after it has left or begun anew.

        It stands for all events that end at `from_time` or later.
        """
        if name in self._state.inputs:
            self._index.forget(name)
        self._names.add(name)
        self._state.inputs[name] = MergeInput(name, from_time)
        return self._go_on()

    def detach(self, name: str) -> list[Element]:
        """An input leaves; nothing it says from now on counts."""
        self._attached(name)
        self._state.inputs.pop(name, None)
        self._index.forget(name)
        return self._go_on()

    def take(self, name: str, element: AnyElement) -> list[Element]:
        """An input says something; what the merge says then.

        Raises:
            StreamError: The input is not what the case says; with its name and the element.
        """
        given = self._attached(name)
        read = move_or_stable(element)
        if given is None:
            return []
        if isinstance(read, Move):
            self._index.move(given, read)
        else:
            given.stable = max(given.stable, read.time)
        return self._go_on()

    def _attached(self, name: str) -> MergeInput | None:
        if name not in self._names:
            raise PlanError(
                "an input speaks that was never attached",
                where=f"input '{name}'",
                hint=f"attach it first; attached were: {', '.join(sorted(self._names)) or 'none'}",
            )
        return self._state.inputs.get(name)

    def _go_on(self) -> list[Element]:
        """Promise what can be promised; inputs that join by that may lead further."""
        state = self._state
        while True:
            leader = state.lead()
            self._index.review()
            if leader is None:
                break
            time = subtract_saturating(Time(leader.stable), self._lag)
            if time <= state.stable:
                break
            self._index.freeze(leader, time)
            state.stable = time
            state.out.append(KitStable(time))
        emitted, state.out = state.out, []
        return emitted
