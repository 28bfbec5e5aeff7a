"""Products that are joins: `FROM a, b WHERE a.k = b.k` joins, and must not be shared as a product.

    σ(p AND q)(x × y) = σq(x ⋈p y)        where p has columns of x and of y

Two queries that differ in q have x × y in common as they are written. That part would be computed
by itself, with a row per pair.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.algebra.analysis.determinism import by_chance
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind
from anabranch.optimizer.failing import may_fail


def without_products(plan: Node) -> Node:
    """The plan with conditions above products in these, where they connect the two sides."""
    return _without(plan, {})


def _without(node: Node, done: dict[int, Node]) -> Node:
    found = done.get(id(node))
    if found is None:
        inputs = [_without(each, done) for each in node.inputs]
        same = all(mine is theirs for mine, theirs in zip(inputs, node.inputs))
        found = done[id(node)] = _joined(node if same else node.with_inputs(*inputs))
    return found


def _joined(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Join):
        return node
    if by_chance(node) is not None or may_fail(node.predicate):
        return node
    waiting = list(conjuncts(node.predicate))
    below, left = _asked(node.input, waiting)
    if len(left) == len(waiting):
        return node
    if not left:
        return below
    return Filter(input=below, predicate=conjoin(left))


def _asked(join: Join, waiting: list[Expression]) -> tuple[Join, list[Expression]]:
    """Products below with the conditions that connect them, and the conditions that are left."""
    if join.kind != "inner" or join.broadcast is not None:
        return join, waiting
    sides: list[Node] = []
    for side in (join.left, join.right):
        names = set(side.schema.names)
        own = [each for each in waiting if each.columns <= names]
        if isinstance(side, Join) and own:
            asked, own_left = _asked(side, own)
            waiting = [each for each in waiting if each not in own or each in own_left]
            side = asked
        sides.append(side)
    join = replace(join, left=sides[0], right=sides[1])
    if join.predicate is not None:
        return join, waiting
    mine, theirs = (set(side.schema.names) for side in sides)
    own = [each for each in waiting if each.columns & mine and each.columns & theirs]
    own = [each for each in own if each.columns <= mine | theirs]
    if not own:
        return join, waiting
    predicate = conjoin([rebind(each, join.both) for each in own])
    return replace(join, predicate=predicate), [each for each in waiting if each not in own]
