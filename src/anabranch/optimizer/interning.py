"""Equal plans as one object, so that comparing them costs nothing."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from typing import Any

from anabranch.algebra.node import Node


class Interner:
    """Remembers plans and gives the same object for equal ones.

    Nodes compare by value, and a deep plan takes long to compare or to hash. Here a node is
    known by its own arguments and by the objects its inputs are.
    """

    def __init__(self) -> None:
        self._interned: dict[Hashable, Node] = {}
        self._canonical: set[int] = set()
        self._reachable: dict[int, dict[int, Node]] = {}

    def intern(self, node: Node) -> Node:
        """The one object for all plans equal to this one."""
        return self._intern(node, {})

    def reachable(self, *roots: Node) -> list[Node]:
        """All nodes of interned plans, each once, inputs first."""
        found: dict[int, Node] = {}
        for root in roots:
            found |= self.below(root)
        return list(found.values())

    def below(self, root: Node) -> dict[int, Node]:
        """All nodes of an interned plan, the root last, by the object they are."""
        reachable = self._reachable.get(id(root))
        if reachable is None:
            reachable = {}
            for each in root.inputs:
                reachable |= self.below(each)
            reachable[id(root)] = root
            self._reachable[id(root)] = reachable
        return reachable

    def _intern(self, node: Node, seen: dict[int, Node]) -> Node:
        if id(node) in self._canonical:
            return node
        if id(node) in seen:
            return seen[id(node)]
        inputs = [self._intern(each, seen) for each in node.inputs]
        key = (type(node), *_arguments(node), *(id(each) for each in inputs))
        found = self._interned.get(key)
        if found is None:
            same = all(mine is theirs for mine, theirs in zip(inputs, node.inputs))
            found = node if same else node.with_inputs(*inputs)
            self._interned[key] = found
            self._canonical.add(id(found))
        seen[id(node)] = found
        return found


def _arguments(node: Node) -> list[Any]:
    """What a node is made of besides its inputs."""
    inputs = node.inputs
    values = [getattr(node, field.name) for field in fields(node)]  # type: ignore[arg-type]
    return [value for value in values if not isinstance(value, Node) and value is not inputs]
