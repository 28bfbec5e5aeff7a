"""Merging streams with a key, in any order and with adjusts: case R3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from anabranch.testing.merge.inputs import (
    MergeIndex,
    MergeInput,
    MergeState,
    Quorum,
    broken,
    most_advanced,
)
from anabranch.testing.physical import Move
from anabranch.testing.replica_view import Key, in_order


@final
@dataclass(slots=True)
class _KeyNode:
    """One event: its end as each input says it, and as the output does."""

    ends: dict[str, int] = field(default_factory=dict)
    out: int | None = None


@final
@dataclass(slots=True)
class KeyedIndex(MergeIndex):
    """A node per payload and start, with an end per input (Chandramouli et al., algorithm R3)."""

    state: MergeState
    nodes: dict[Key, _KeyNode] = field(default_factory=dict)

    def move(self, given: MergeInput, move: Move) -> None:
        """Remember what the input says; say it if the policies want that."""
        key = (move.payload, move.start)
        if key not in self.nodes and move.start < self.state.stable:
            # It was there and is final.
            return
        node = self.nodes.setdefault(key, _KeyNode())
        if move.end == move.start and given.name in node.ends:
            raise broken(
                "R3",
                "has two events with one payload and start",
                given,
                move,
                "merge as R4, or attach an input again when it restarts",
            )
        node.ends.pop(given.name, None)
        if move.new_end > move.start:
            node.ends[given.name] = move.new_end
        if self.state.is_joined(given):
            self._insert(key, node, given)
            self._follow(key, node, given)
        if not node.ends and node.out is None:
            del self.nodes[key]

    def freeze(self, leading: MergeInput, time: int) -> None:
        """What ends before the time ends as the leading input says."""
        for key in in_order(key for key in self.nodes if key[1] < time):
            node = self.nodes[key]
            leading_ends = node.ends.get(leading.name)
            if leading_ends is None:
                leading_ends = self._absent(key, node, leading)
            if node.out is None:
                if leading_ends is not None:
                    self._set(key, node, leading_ends)
            elif leading_ends is None:
                self._set(key, node, None)
            elif leading_ends != node.out and min(leading_ends, node.out) < time:
                if self.state.may_move(key, leading_ends, node.out):
                    self._set(key, node, leading_ends)
                else:
                    self.state.divergences += 1
            if node.out is None or node.out < time:
                del self.nodes[key]

    def review(self) -> None:
        """Inserts that the policy wants by now, and the ends of who leads by now."""
        leader = self.state.leader
        for key in in_order(self.nodes):
            node = self.nodes[key]
            self._insert(key, node, None)
            if leader is not None and self.state.adjusts == "leading":
                self._adjust(key, node, node.ends.get(leader.name))

    def forget(self, name: str) -> None:
        """The output keeps what it has said, until somebody knows better."""
        for key, node in list(self.nodes.items()):
            node.ends.pop(name, None)
            if not node.ends and node.out is None:
                del self.nodes[key]

    def _holders(self, node: _KeyNode) -> list[MergeInput]:
        return [each for each in self.state.joined() if each.name in node.ends]

    def _insert(self, key: Key, node: _KeyNode, acting: MergeInput | None) -> None:
        """Say an event that is not there, if the policy for inserts wants it."""
        holders = self._holders(node)
        if node.out is not None or key[1] < self.state.stable or not holders:
            return
        match self.state.inserts:
            case "first":
                wanted = True
            case "leading":
                holders = [each for each in holders if each is self.state.leader]
                wanted = bool(holders)
            case "half_frozen":
                wanted = any(key[1] < each.stable for each in holders)
            case Quorum() as quorum:
                wanted = len(holders) >= quorum.needed(len(self.state.joined()))
        if wanted:
            is_responsive = self.state.inserts == "first" or isinstance(self.state.inserts, Quorum)
            source = acting if is_responsive and acting in holders else most_advanced(holders)
            assert source is not None
            self._set(key, node, node.ends[source.name])

    def _follow(self, key: Key, node: _KeyNode, acting: MergeInput) -> None:
        """Say a change at once, if the policy for adjusts wants it."""
        eager = self.state.adjusts == "eager"
        if not eager and not (self.state.adjusts == "leading" and acting is self.state.leader):
            return
        self._adjust(key, node, node.ends.get(acting.name))
        if node.out is not None and not self._holders(node) and key[1] >= self.state.stable:
            self._set(key, node, None)

    def _adjust(self, key: Key, node: _KeyNode, end: int | None) -> None:
        if node.out is None or end is None or end == node.out:
            return
        if self.state.may_move(key, end, node.out):
            self._set(key, node, end)

    def _absent(self, key: Key, node: _KeyNode, leading: MergeInput) -> int | None:
        """The end of an event that the leading input does not have; None if it goes."""
        others = [each for each in self._holders(node) if each is not leading]
        if key[1] >= self.state.stable:
            if any(key[1] < each.stable for each in others):
                self.state.divergences += 1
            return None
        # Too late to withdraw it: others know its end better than the one that lacks it.
        assert node.out is not None
        self.state.divergences += 1
        source = most_advanced(others)
        end = node.out if source is None else node.ends[source.name]
        return end if self.state.may_move(key, end) else node.out

    def _set(self, key: Key, node: _KeyNode, end: int | None) -> None:
        start = key[1]
        self.state.emit(key, start if node.out is None else node.out, start if end is None else end)
        node.out = end
