"""A plan as text."""

from __future__ import annotations

from anabranch.algebra.node import Node


def explain_tree(node: Node) -> str:
    """One line per operator, inputs below and two columns further in."""
    return "\n".join(_lines(node, 0))


def _lines(node: Node, depth: int) -> list[str]:
    below = [line for each in node.inputs for line in _lines(each, depth + 1)]
    return ["  " * depth + node.label, *below]
