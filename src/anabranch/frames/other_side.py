"""The other stream of a join or union, and what to do with what is none."""

from __future__ import annotations

from anabranch.algebra.node import Node
from anabranch.errors import PlanError


def node_of(other: object, where: str) -> Node:
    """The plan of another stream.

    Raises:
        PlanError: It is no stream: a DataFrame, a list, or the name of one.
    """
    node = getattr(other, "node", None)
    if isinstance(node, Node):
        return node
    if isinstance(other, str):
        raise PlanError(
            f"the text '{other}' is not a stream",
            where=where,
            hint=f"pass the stream itself: engine.sql('SELECT * FROM {other}') gives one by name",
        )
    kind = type(other)
    owner = kind.__module__.partition(".")[0]
    called = kind.__name__ if owner == "builtins" else f"{kind.__name__} of {owner}"
    raise PlanError(
        f"a {called} is not a stream",
        where=where,
        hint="make a relation of it, engine.relation(rows), or a stream, "
        "engine.stream(rows, start='at')",
    )
