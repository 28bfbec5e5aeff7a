"""Merging multisets, in any order and with adjusts: case R4."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import final

from anabranch.model.time import FOREVER
from anabranch.testing.merge.inputs import (
    MergeIndex,
    MergeInput,
    MergeState,
    Quorum,
    most_advanced,
)
from anabranch.testing.physical import Move
from anabranch.testing.replica_view import Key, in_order


@final
@dataclass(slots=True)
class _BagNode:
    """All events with one payload and start: how often each end is said, by whom."""

    ends: dict[str, Counter[int]] = field(default_factory=dict)
    out: Counter[int] = field(default_factory=Counter)

    def of(self, given: MergeInput) -> Counter[int]:
        return self.ends.get(given.name, Counter())

    def is_empty(self) -> bool:
        return not self.out and not any(self.ends.values())


@final
@dataclass(slots=True)
class MultisetIndex(MergeIndex):
    """A node per payload and start, with a multiset of ends per input (algorithm R4)."""

    state: MergeState
    nodes: dict[Key, _BagNode] = field(default_factory=dict)

    def move(self, given: MergeInput, move: Move) -> None:
        """Remember what the input says; say it if the policies want that."""
        key = (move.payload, move.start)
        if key not in self.nodes and move.start < self.state.stable:
            # All of them were there and are final.
            return
        node = self.nodes.setdefault(key, _BagNode())
        mine = node.ends.setdefault(given.name, Counter())
        if mine[move.end] > 0:
            mine[move.end] -= 1
        if move.new_end > move.start:
            mine[move.new_end] += 1
        node.ends[given.name] = +mine
        if self.state.is_joined(given):
            self._insert(key, node, given, move)
            self._follow(key, node, given, move)
        if node.is_empty():
            del self.nodes[key]

    def freeze(self, leading: MergeInput, time: int) -> None:
        """As many events as the leading input has; those that end before the time end as there."""
        for key in in_order(key for key in self.nodes if key[1] < time):
            node = self.nodes[key]
            if key[1] >= self.state.stable:
                self._level(key, node, leading)
                leading_ends = node.of(leading)
            else:
                leading_ends = self._completed(node, leading)
            self._settle(key, node, leading_ends, time)
            if all(end < time for end in node.out):
                del self.nodes[key]

    def review(self) -> None:
        """Inserts that the policy wants by now, and the ends of who leads by now."""
        leader = self.state.leader
        for key in in_order(self.nodes):
            node = self.nodes[key]
            self._insert(key, node, None, None)
            if leader is not None and self.state.adjusts == "leading":
                self._align(key, node, node.of(leader))

    def forget(self, name: str) -> None:
        """The output keeps what it has said, until somebody knows better."""
        for key, node in list(self.nodes.items()):
            node.ends.pop(name, None)
            if node.is_empty():
                del self.nodes[key]

    def _wanted(self, key: Key, node: _BagNode) -> int:
        """How many events with this payload and start the policy for inserts wants."""
        joined = self.state.joined()
        match self.state.inserts:
            case "first":
                counts = [node.of(each).total() for each in joined]
            case "leading":
                counts = [node.of(each).total() for each in joined if each is self.state.leader]
            case "half_frozen":
                counts = [node.of(each).total() for each in joined if key[1] < each.stable]
            case Quorum() as quorum:
                needed = quorum.needed(len(joined))
                counts = sorted((node.of(each).total() for each in joined), reverse=True)
                counts = counts[needed - 1 : needed]
        return max(counts, default=0)

    def _insert(
        self, key: Key, node: _BagNode, acting: MergeInput | None, move: Move | None
    ) -> None:
        """Say events that are not there, if the policy for inserts wants them."""
        if key[1] < self.state.stable:
            return
        is_responsive = self.state.inserts == "first" or isinstance(self.state.inserts, Quorum)
        while node.out.total() < self._wanted(key, node):
            count = node.out.total()
            holders = [each for each in self.state.joined() if node.of(each).total() > count]
            if self.state.inserts == "leading":
                holders = [each for each in holders if each is self.state.leader]
            if is_responsive and acting in holders and move is not None:
                end = move.new_end
            else:
                source = most_advanced(holders)
                assert source is not None
                end = min(node.of(source) - node.out)
            self._set(key, node, None, end)

    def _follow(self, key: Key, node: _BagNode, acting: MergeInput, move: Move) -> None:
        """Say a change at once, if the policy for adjusts wants it."""
        eager = self.state.adjusts == "eager"
        if not eager and not (self.state.adjusts == "leading" and acting is self.state.leader):
            return
        self._align(key, node, node.of(acting))
        most = max((node.of(each).total() for each in self.state.joined()), default=0)
        while node.out.total() > most and key[1] >= self.state.stable:
            self._set(key, node, move.end if node.out[move.end] else max(node.out), None)

    def _align(self, key: Key, node: _BagNode, leading_ends: Counter[int]) -> None:
        """Give events ends that somebody says, as far as there are events with other ends."""
        lacking = [
            end for end in (leading_ends - node.out).elements() if self.state.may_move(key, end)
        ]
        others = [
            end for end in (node.out - leading_ends).elements() if self.state.may_move(key, end)
        ]
        for old, new in zip(sorted(others), sorted(lacking)):
            self._set(key, node, old, new)

    def _level(self, key: Key, node: _BagNode, leading: MergeInput) -> None:
        """The number of events becomes that of the leading input, and final."""
        leading_ends = node.of(leading)
        facts = [node.of(it).total() for it in self.state.joined() if key[1] < it.stable]
        if max(facts, default=0) > leading_ends.total():
            self.state.divergences += 1
        while node.out.total() > leading_ends.total():
            self._set(key, node, max(node.out - leading_ends), None)
        while node.out.total() < leading_ends.total():
            self._set(key, node, None, min(leading_ends - node.out))

    def _completed(self, node: _BagNode, leading: MergeInput) -> Counter[int]:
        """What the leading input says, and where it lacks events, what others say of these."""
        leading_ends = _from(node.of(leading), self.state.stable)
        missing = _from(node.out, self.state.stable).total() - leading_ends.total()
        if missing:
            self.state.divergences += 1
        others = sorted(self.state.joined(), key=lambda each: -each.stable)
        for view in (*(node.of(each) for each in others), node.out):
            more = sorted((_from(view, self.state.stable) - leading_ends).elements(), reverse=True)
            more = more[: max(missing, 0)]
            leading_ends = leading_ends + Counter(more)
            missing -= len(more)
        return leading_ends

    def _settle(self, key: Key, node: _BagNode, leading_ends: Counter[int], time: int) -> None:
        """Events that end before the time get the ends that are said, the others later ones."""
        first = max(self.state.stable, key[1])
        for end in sorted(end for end in leading_ends if first <= end < time):
            while node.out[end] < leading_ends[end]:
                sources = _from(node.out - leading_ends, first) or _from(
                    Counter({it: count for it, count in node.out.items() if it >= time}), first
                )
                if not sources:
                    break
                self._set(key, node, min(sources), end)
        for end in sorted(end for end in (node.out - leading_ends) if first <= end < time):
            while node.out[end] > leading_ends[end]:
                later = [it for it in (leading_ends - node.out) if it >= time]
                self._set(key, node, end, min(later, default=FOREVER))

    def _set(self, key: Key, node: _BagNode, old: int | None, new: int | None) -> None:
        start = key[1]
        self.state.emit(key, start if old is None else old, start if new is None else new)
        if old is not None:
            node.out[old] -= 1
        if new is not None:
            node.out[new] += 1
        node.out = +node.out


def _from(ends: Counter[int], time: int) -> Counter[int]:
    """Those at a time or later."""
    return Counter({end: count for end, count in ends.items() if end >= time})
