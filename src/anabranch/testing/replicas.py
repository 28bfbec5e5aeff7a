"""Copies of one stream that differ in every way they may, and how they reach a merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar, final

from hypothesis import strategies as st

from anabranch.model.time import (
    BEGINNING,
    Duration,
    Time,
    format_time,
    subtract_saturating,
)
from anabranch.testing.physical import Element, KitStable, Move
from anabranch.testing.replica_forms import MergeCase, draw_history, draw_replica

Action: TypeAlias = (
    tuple[Literal["element"], str, Element]
    | tuple[Literal["attach"], str, int]
    | tuple[Literal["detach"], str]
)
"""What happens at a merge: an input says something, comes (standing for what ends at a time or
later), or leaves."""

Below: TypeAlias = Callable[[int], int]
"""A number from 0 up to, but not including, another: drawn, or thrown with dice."""

_T = TypeVar("_T")
_NAMES: Final = ("one", "two", "three", "four", "five")


@final
@dataclass(frozen=True, slots=True)
class MergeScript:
    """Copies of a stream on their way to a merge.

    Attributes:
        case: What all copies have in common, R0 to R4.
        history: The events that all of them tell of in the end, as inserts.
        actions: What happens, in order.
        weak: The copies of which less holds than of the first one: they are as in `case`, and the
            others as in a stronger case.
    """

    case: MergeCase
    history: tuple[Move, ...]
    actions: tuple[Action, ...]
    weak: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """The events and all actions, one per line."""
        shown = ", ".join(repr(event) for event in self.history) or "nothing"
        lines = [f"copies as in {self.case} of {shown}"]
        for action in self.actions:
            match action:
                case ("element", name, element):
                    lines.append(f"  {name}: {element!r}")
                case ("attach", name, time):
                    lines.append(f"  {name}: attach from {format_time(time)}")
                case ("detach", name):
                    lines.append(f"  {name}: detach")
        return "\n".join(lines)


@st.composite
def merge_scripts(
    draw: st.DrawFn,
    case: MergeCase | st.SearchStrategy[MergeCase] = "R3",
    *,
    lag: int = 0,
    max_inputs: int = 5,
    max_events: int = 6,
    gaps: bool = True,
) -> MergeScript:
    """One to five copies of a stream, mutually consistent, in any interleaving.

    They differ in order, in what they say in between, in how often they promise something, and in
    how far they come. They stop, leave and come again, with the same elements or others, from the
    beginning or a later time on. Some miss events, where that does no harm: in R0 to R2 another
    copy was there first, and in all cases no copy promises anything of what it misses before
    another has made that final.

    Args:
        draw: Given by hypothesis.
        case: Which differences there may be.
        lag: How far the merge stays behind the copies; decides what does no harm.
        max_inputs: So many copies at most.
        max_events: So many events at most.
        gaps: Some copies miss events.
    """
    kind = draw(case) if isinstance(case, st.SearchStrategy) else case

    def below(count: int) -> int:
        return draw(st.integers(0, count - 1))

    return make_script(
        kind, below, lag=lag, max_inputs=max_inputs, max_events=max_events, gaps=gaps
    )


def make_script(
    case: MergeCase,
    below: Below,
    *,
    lag: int = 0,
    max_inputs: int = 5,
    max_events: int = 6,
    gaps: bool = True,
    weaker: MergeCase | None = None,
) -> MergeScript:
    """The same from any source of numbers, such as `random.Random(7).randrange`.

    With a `weaker` case, some copies besides the first one are only as that allows.
    """
    history = draw_history(case, below, max_events)
    names = _NAMES[: 1 + below(max_inputs)]
    weak = {name for name in names[1:] if weaker is not None and below(3) != 2}
    forms = {name: weaker if weaker is not None and name in weak else case for name in names}
    waiting = {
        name: _lives(name, forms[name], history, below, whole=name == _NAMES[0], gaps=gaps)
        for name in names
    }
    progress = _ReplicaProgress(case=case, lag=lag)
    actions: list[Action] = []
    while True:
        ready = [name for name in names if progress.prepare(waiting[name])]
        if not ready:
            return MergeScript(weaker or case, history, tuple(actions), frozenset(weak))
        name = ready[below(len(ready))]
        for _ in range(1 + below(4)):
            if progress.prepare(waiting[name]):
                step = waiting[name].pop(0)
                progress.take(step)
                actions.append(step.action)


@final
@dataclass(frozen=True, slots=True)
class _ReplicaStep:
    """One action of a copy, and which events this copy does not know."""

    action: Action
    missing: tuple[Move, ...]


def _lives(
    name: str,
    case: MergeCase,
    history: Sequence[Move],
    below: Below,
    *,
    whole: bool,
    gaps: bool,
) -> list[_ReplicaStep]:
    """All that an input ever does: it comes, talks, leaves, and comes again."""
    steps: list[_ReplicaStep] = []
    before: list[Element] = []
    for life in range(1 + (below(4) == 3) + (below(8) == 7)):
        start, events = int(BEGINNING), list(history)
        if (life or not whole) and below(3) == 2:
            start = _some_time(history, below)
            events = [event for event in history if event.new_end >= start or below(4) == 3]
        elif gaps and (life or not whole) and below(3) == 2:
            events = _some(case, history, below)
        missing = tuple(event for event in _minus(history, events))
        elements = before if before and below(3) == 2 and not missing else None
        if elements is None:
            elements = draw_replica(case, events, below)
        before = [] if missing else elements
        cut = below(len(elements) + 1) if below(3) == 2 else len(elements)
        spoken: list[Action] = [("element", name, element) for element in elements[:cut]]
        leaving: Action = ("detach", name)
        if below(4) == 3:
            # Some talk on after they have left.
            spoken.insert(len(spoken) - min(below(3), len(spoken)), leaving)
            leaves = True
        else:
            leaves = False
        actions: list[Action] = [("attach", name, start), *spoken]
        steps += [_ReplicaStep(action, missing if start == BEGINNING else ()) for action in actions]
        if not leaves:
            steps.append(_ReplicaStep(leaving, ()))
    if steps[-1].action[0] == "detach" and below(3) != 2:
        del steps[-1]
    return steps


def _some_time(history: Sequence[Move], below: Below) -> int:
    times = sorted({time for event in history for time in (event.start, event.new_end)})
    return times[below(len(times))] if times else 0


def _some(case: MergeCase, history: Sequence[Move], below: Below) -> list[Move]:
    """Most of the events; in R1 all or none of those that start together."""
    if case != "R1":
        return [event for event in history if below(4) != 3]
    lost = {start for start in {event.start for event in history} if below(4) == 3}
    return [event for event in history if event.start not in lost]


def _minus(history: Sequence[Move], events: Iterable[Move]) -> list[Move]:
    left = list(history)
    for event in events:
        left.remove(event)
    return left


@final
@dataclass(slots=True)
class _ReplicaInput:
    """A copy as the merge sees it."""

    from_time: int
    stable: int = BEGINNING


@final
@dataclass(slots=True, kw_only=True)
class _ReplicaProgress:
    """How far a merge of these copies is: what a copy that misses something must wait for."""

    case: MergeCase
    lag: int
    stable: int = BEGINNING
    passed: int = BEGINNING
    inputs: dict[str, _ReplicaInput] = field(default_factory=dict)

    def prepare(self, steps: list[_ReplicaStep]) -> bool:
        """Whether an input may go on; promises that would do harm are left out before."""
        while steps:
            step = steps[0]
            element = step.action[2] if step.action[0] == "element" else None
            if element is None or not step.missing or not self._harms(step.missing, element):
                return True
            if not isinstance(element, KitStable):
                return False
            del steps[0]
        return False

    def _harms(self, missing: Sequence[Move], element: Element) -> bool:
        """Whether to take this from a copy that misses something would lose it, or unsettle it."""
        if isinstance(element, KitStable):
            time = self._lagged(element.time)
            return time > self.stable and any(
                event.start < time and event.new_end >= self.stable for event in missing
            )
        ordered = self.case in ("R0", "R1", "R2")
        return ordered and any(self.passed <= event.start < element.start for event in missing)

    def take(self, step: _ReplicaStep) -> None:
        kind, name = step.action[:2]
        if step.action[0] == "attach":
            self.inputs[name] = _ReplicaInput(step.action[2])
        elif kind == "detach":
            self.inputs.pop(name, None)
        elif name in self.inputs and step.action[0] == "element":
            element, view = step.action[2], self.inputs[name]
            time = element.time if isinstance(element, KitStable) else element.start
            if view.from_time == BEGINNING and not step.missing:
                self.passed = max(self.passed, time)
            if isinstance(element, KitStable):
                view.stable = max(view.stable, time)
        self._advance()

    def _advance(self) -> None:
        while True:
            best = max(
                (
                    self._lagged(it.stable)
                    for it in self.inputs.values()
                    if it.from_time <= self.stable
                ),
                default=self.stable,
            )
            if best <= self.stable:
                return
            self.stable = best

    def _lagged(self, time: int) -> int:
        return subtract_saturating(Time(time), Duration(self.lag))
