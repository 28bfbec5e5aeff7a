"""A merge says what its inputs tell: looked at after every element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from anabranch.model.payload import Payload
from anabranch.model.time import FOREVER, format_time
from anabranch.testing.compatible import MergeWatch
from anabranch.testing.physical import AnyElement, Element, KitStable, move_or_stable
from anabranch.testing.replicas import MergeScript


class WatchedMerge(Protocol):
    """What can be watched: each step returns what the merge says then."""

    def attach(self, name: str, from_time: int) -> Iterable[AnyElement]:
        """An input comes."""

    def detach(self, name: str) -> Iterable[AnyElement]:
        """An input leaves."""

    def take(self, name: str, element: Element) -> Iterable[AnyElement]:
        """An input says something."""


def assert_merges(
    script: MergeScript, merge: WatchedMerge, *, laconic: bool = False
) -> list[Element]:
    """Let a merge read copies of a stream, and compare after every element it says.

    After every element the output must be compatible with the inputs (`MergeWatch`). With every
    promise of the output, what it makes final must be as in the history that the copies tell of,
    and as many events must go on; after the last promise that is everything.

    Args:
        script: What happens at the merge.
        merge: What shall be tested.
        laconic: See `MergeWatch`.

    Returns:
        What the merge said.

    Raises:
        AssertionError: with the action, what is wrong, and all that happened before.
    """
    watch = MergeWatch(multiset=script.case in ("R1", "R4"), laconic=laconic)
    sent = [(event.payload, event.start, event.new_end) for event in script.history]
    output: list[Element] = []
    for number, action in enumerate(script.actions, start=1):
        match action:
            case ("attach", name, time):
                watch.attach(name, time)
                answer = merge.attach(name, time)
            case ("detach", name):
                watch.detach(name)
                answer = merge.detach(name)
            case ("element", name, element):
                watch.take(name, element)
                answer = merge.take(name, element)
        for each in map(move_or_stable, answer):
            output.append(each)
            watch.emit(each)
            wrong = [str(violation) for violation in watch.violations()]
            if isinstance(each, KitStable):
                wrong += unsettled(watch, sent)
            if wrong:
                before = MergeScript(script.case, script.history, script.actions[:number])
                lines = [f"with {each!r}: {wrong[0]}", repr(before), "what left:"]
                raise AssertionError("\n".join([*lines, *(f"  {it!r}" for it in output)]))
    return output


def unsettled(watch: MergeWatch, sent: Iterable[tuple[Payload, int, int]]) -> list[str]:
    """What is final and not as told."""

    def settled(events: Iterable[tuple[Payload, int, int]]) -> Counter[tuple[Payload, int, int]]:
        # Ends that are not final count as one.
        return Counter(
            (payload, start, min(end, watch.stable))
            for payload, start, end in events
            if start < watch.stable
        )

    is_end = watch.stable == FOREVER
    held = settled(watch.events()) if not is_end else Counter(watch.events())
    wanted = settled(sent) if not is_end else Counter(sent)
    return [
        f"the history has {wanted[event]} events {event[0]} from {event[1]} to "
        f"{format_time(event[2])}, the output {held[event]}"
        for event in (held - wanted) + (wanted - held)
    ]
