"""Whether the output of a merge can still follow its inputs, wherever these go."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from anabranch.model.payload import Payload, show_payload
from anabranch.model.time import BEGINNING, format_time
from anabranch.testing.physical import (
    AnyElement,
    Element,
    KitStable,
    Move,
    PhysicalState,
    move_or_stable,
)
from anabranch.testing.replica_view import Key, ReplicaView

Rule: TypeAlias = Literal["C1", "C2", "C3.1", "C3.2", "illegal", "chatty"]


@final
@dataclass(frozen=True, slots=True)
class MergeViolation:
    """What an output must not say, or must say and does not.

    Attributes:
        rule: `C1` promised too much; `C2` holds what no input stands for; `C3.1` lacks what an
            input has fully frozen; `C3.2` lacks what an input has half frozen; `illegal` is no
            stream; `chatty` says more than it heard.
        event: Payload and start, where the rule is about one.
        text: What the output says and what the inputs say.
    """

    rule: Rule
    event: Key | None
    text: str

    def __str__(self) -> str:
        about = "" if self.event is None else f" {show_payload(self.event[0])}@{self.event[1]}"
        return f"{self.rule}{about}: {self.text}"


def compatible(
    inputs: Mapping[str, Iterable[AnyElement]] | Iterable[Iterable[AnyElement]],
    output: Iterable[AnyElement],
    *,
    multiset: bool = False,
) -> list[MergeViolation]:
    """Why an output cannot follow these inputs; empty if it can (Chandramouli et al., III).

    Inputs and output are prefixes: all inputs are there from the beginning, and what they say is
    taken first. `MergeWatch` says the same after every element, and of inputs that come and go.

    >>> from anabranch.testing import insert, stable
    >>> one = [insert("A", start=2, end=16), stable(14)]
    >>> print(*compatible({"I1": one}, [insert("A", start=2, end=12), stable(13)]))
    C2 ('A')@2: the output has [2, 12) frozen at 13; I1 has [2, 16) half frozen at 14

    Args:
        inputs: Elements by the name of the input, or in order.
        output: What the merge has said.
        multiset: Several events may have the same payload and start.
    """
    named = (
        inputs
        if isinstance(inputs, Mapping)
        else {f"input {number}": elements for number, elements in enumerate(inputs, start=1)}
    )
    watch = MergeWatch(multiset=multiset)
    for name, elements in named.items():
        watch.attach(name)
        for element in elements:
            watch.take(name, element)
    for element in output:
        watch.emit(element)
    return watch.violations()


@final
@dataclass(slots=True)
class Traffic:
    """How many elements of each kind went by."""

    inserts: int = 0
    adjusts: int = 0
    withdrawals: int = 0
    stables: int = 0

    def count(self, element: Element) -> None:
        """One more."""
        if isinstance(element, KitStable):
            self.stables += 1
        elif element.end == element.start:
            self.inserts += 1
        elif element.new_end == element.start:
            self.withdrawals += 1
        else:
            self.adjusts += 1


@final
@dataclass(slots=True, kw_only=True)
class MergeWatch:
    """Looks on while a merge works; may be asked after every element.

    News about an event are compared for that event alone, a promise for those that have started
    before it and are not over, so asking often costs little.

    What an input has frozen stays a fact when the input leaves. An input that was attached from a
    time on stands only for events that end then or later, and its promises count from when the
    output's has reached that time.

    The bounds of `laconic` hold for case R3 with first inserts, lazy adjusts and inputs that do not
    contradict each other: no more inserts than inserts came, no more withdrawals either, no more
    inserts and adjusts together than inserts and adjusts came, no more stables than stables came.
    (The bound in Chandramouli et al., theorem 1, all against inserts, does not hold: an event
    whose end is put off several times after its start is stable is inserted once.)

    Attributes:
        multiset: Several events may have the same payload and start (cases R1 and R4).
        laconic: Check as well that the output is not chatty.
        received: What came.
        emitted: What left.
    """

    multiset: bool = False
    laconic: bool = False
    received: Traffic = field(default_factory=Traffic)
    emitted: Traffic = field(default_factory=Traffic)
    _views: list[ReplicaView] = field(default_factory=list)
    _attached: dict[str, ReplicaView] = field(default_factory=dict)
    _output: ReplicaView = field(default_factory=lambda: ReplicaView(name="the output"))
    _legal: PhysicalState = field(default_factory=PhysicalState.empty)
    _lasting: list[MergeViolation] = field(default_factory=list)
    _standing: dict[Key, MergeViolation] = field(default_factory=dict)
    # Events to look at again: news about them; started before the promise and not over; the rest
    # by start (and a number, so that payloads are not compared).
    _changed: set[Key] = field(default_factory=set)
    _live: set[Key] = field(default_factory=set)
    _ahead: list[tuple[int, int, Key]] = field(default_factory=list)
    _pushed: int = 0

    @property
    def stable(self) -> int:
        """What the output has promised."""
        return self._output.stable

    @property
    def reached(self) -> int:
        """What it may promise: the most that an input has that had joined by then."""
        reached = int(BEGINNING)
        while True:
            stables = [view.stable for view in self._views if view.from_time <= reached]
            if max(stables, default=BEGINNING) <= reached:
                return reached
            reached = max(stables)

    def events(self) -> list[tuple[Payload, int, int]]:
        """What the output holds, sorted by start and end."""
        held = [
            (payload, start, end)
            for (payload, start), ends in self._output.ends.items()
            for end in ends
        ]
        return sorted(held, key=lambda event: (event[1], event[2], repr(event[0])))

    def attach(self, name: str, from_time: int = BEGINNING) -> None:
        """An input comes, or comes again; it stands for events that end at `from_time` or later."""
        view = ReplicaView(name=name, from_time=from_time)
        self._attached[name] = view
        self._views.append(view)

    def detach(self, name: str) -> None:
        """An input leaves; what it says from now on does not count."""
        del self._attached[name]

    def take(self, name: str, element: AnyElement) -> None:
        """An input says something."""
        view = self._attached.get(name)
        if view is None:
            return
        given = move_or_stable(element)
        self.received.count(given)
        view.take(given, keyed=not self.multiset)
        self._note(given)

    def emit(self, element: AnyElement) -> None:
        """The merge says something."""
        given = move_or_stable(element)
        self.emitted.count(given)
        wrong = self._legal.take(given)
        if wrong:
            event = None if isinstance(given, KitStable) else (given.payload, given.start)
            self._lasting.append(MergeViolation("illegal", event, f"{given!r} {wrong}"))
        if self.laconic:
            self._count()
        self._output.take(given, keyed=False)
        self._note(given)

    def violations(self) -> list[MergeViolation]:
        """What is wrong now, and the illegal and chatty elements there were."""
        for key in self._changed:
            found = self._of_many(key) if self.multiset else self._of_one(key)
            if found is None:
                self._standing.pop(key, None)
            else:
                self._standing[key] = found
            if found is None and self._is_over(key):
                self._live.discard(key)
            elif key[1] < self.stable:
                self._live.add(key)
        self._changed.clear()
        return [*self._lasting, *self._promise(), *self._standing.values()]

    def _promise(self) -> list[MergeViolation]:
        """C1: no promise that no input has made."""
        if self.stable <= self.reached:
            return []
        given = ", ".join(view.promise() for view in self._views) or "there is no input"
        text = f"the output is stable at {format_time(self.stable)}; {given}"
        return [MergeViolation("C1", None, text)]

    def _of_one(self, key: Key) -> MergeViolation | None:
        """C2 and C3 where payload and start are a key."""
        held, stable = self._output.ends_of(key), self.stable
        if len(held) > 1:
            return self._violation("C2", key)
        if stable <= key[1]:
            return None
        frozen = [end for view in self._views for end in view.frozen(key)]
        halves = [view.stable for view in self._views if view.half_frozen(key)]
        for end in held:
            if end < stable:
                if end not in frozen:
                    return self._violation("C2", key)
            elif not any(stable <= time for time in (*frozen, *halves)):
                return self._violation("C2", key)
        is_half_frozen = bool(held) and held[0] >= stable
        for end in frozen:
            if not (is_half_frozen if stable <= end else end in held):
                return self._violation("C3.1", key)
        if halves and not frozen and not (stable <= max(halves) and is_half_frozen):
            return self._violation("C3.2", key)
        return None

    def _of_many(self, key: Key) -> MergeViolation | None:
        """The same for multisets: events that ended are counted one by one, others together."""
        held, stable = self._output.ends_of(key), self.stable
        if stable <= key[1]:
            return None
        views = [view for view in self._views if key[1] < view.stable]
        for end in held:
            count = held.count(end)
            if end < stable and all(view.frozen(key).count(end) < count for view in views):
                return self._violation("C2", key)
        open_still = self._output.reaching(key, stable)
        leading = [view for view in views if view.from_time <= stable <= view.stable]
        if open_still and all(view.reaching(key, stable) < open_still for view in leading):
            return self._violation("C2", key)
        for view in views:
            both = min(view.stable, stable)
            frozen = view.frozen(key)
            if any(held.count(end) < frozen.count(end) for end in frozen if end < both):
                return self._violation("C3.1", key)
            if view.from_time <= both and self._output.reaching(key, both) < view.reaching(
                key, both
            ):
                rule: Rule = "C3.2" if view.half_frozen(key) else "C3.1"
                return self._violation(rule, key)
        return None

    def _note(self, element: Element) -> None:
        """An insert or adjust is news about one event, a promise about all that may be final."""
        if isinstance(element, Move):
            key = (element.payload, element.start)
            self._changed.add(key)
            if self.stable <= element.start:
                self._pushed += 1
                heapq.heappush(self._ahead, (element.start, self._pushed, key))
            return
        while self._ahead and self._ahead[0][0] < self.stable:
            self._changed.add(heapq.heappop(self._ahead)[2])
        self._changed.update(self._live)

    def _is_over(self, key: Key) -> bool:
        """No promise changes the verdict any more, only news about the event."""
        attached = self._attached.values()
        return all(end < self.stable for end in self._output.ends_of(key)) and all(
            end < self.stable and (end < view.stable or view not in attached)
            for view in self._views
            for end in view.ends_of(key)
        )

    def _violation(self, rule: Rule, key: Key) -> MergeViolation:
        given = [view.opinion(key) for view in self._views if view.ends_of(key)]
        what = ", ".join(given) or "no input has it"
        return MergeViolation(rule, key, f"{self._output.opinion(key)}; {what}")

    def _count(self) -> None:
        """The bounds of `laconic`; each is reported once."""
        received, left = self.received, self.emitted
        bounds = [
            ("inserts", left.inserts, received.inserts),
            ("withdrawals", left.withdrawals, received.inserts),
            (
                "inserts and adjusts",
                left.inserts + left.adjusts,
                received.inserts + received.adjusts + received.withdrawals,
            ),
            ("stables", left.stables, received.stables),
        ]
        for what, many, few in bounds:
            if many == few + 1:
                text = f"{many} {what} left the merge; {few} came"
                self._lasting.append(MergeViolation("chatty", None, text))
