"""The order in which streams are joined."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, final

from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind
from anabranch.optimizer.cost import Cost, CostModel, join_cost, measured_buckets
from anabranch.optimizer.equations import equation_of
from anabranch.optimizer.estimates import Estimate, of_join, share_of
from anabranch.optimizer.failing import may_fail
from anabranch.optimizer.origins import Origin, origin_in
from anabranch.optimizer.selectivity import VALUES

MOST_EXACT: Final = 8
"""All orders of so many inputs are looked at; beyond, the next best pair is joined."""


@final
@dataclass(frozen=True, slots=True)
class Chain:
    """Inner joins without their order: what is joined, by which conditions, into which columns."""

    inputs: tuple[Node, ...]
    conditions: tuple[Expression, ...]
    names: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Tree:
    """A join tree over inputs of the chain, given by index: one input, or two smaller trees."""

    inputs: frozenset[int]
    estimate: Estimate
    cost: Cost
    sides: tuple[Tree, Tree] | None = None


@final
@dataclass(frozen=True, slots=True)
class Pricing:
    """What joins of a chain are priced by: the chain, and what was measured of its conditions."""

    chain: Chain
    named: Origin
    shares: Mapping[str, float]


def reorder_joins(node: Node, model: CostModel) -> Node | None:
    """Join(Join(x, y, p), z, q) -> Join(x, Join(y, z, q), p) and the like (R-10.4, K17).

    The cheapest of all trees without products, where the conditions allow to avoid them; a map
    on top keeps the order of the columns. None if that is the order there is.
    """
    chain = chain_of(node)
    if chain is None or len(chain.inputs) < 3:
        return None
    leaves = [
        Tree(frozenset([index]), model.estimate(each), Cost())
        for index, each in enumerate(chain.inputs)
    ]
    pricing = Pricing(chain, origin_in(chain.inputs), model.statistics.shares)
    exact = len(leaves) <= MOST_EXACT
    best = _cheapest(leaves, pricing) if exact else _greedy(leaves, pricing)
    return _in_order(_built(best, chain), chain.names)


def chain_of(node: Node) -> Chain | None:
    """The inner joins at a node, seen through maps that only leave columns out."""
    if not isinstance(node, Join) or not _takes_part(node):
        return None
    inputs: list[Node] = []
    conditions: list[Expression] = []

    def collect(at: Node) -> None:
        below = at.input if isinstance(at, Map) and _only_drops(at) else at
        if isinstance(below, Join) and _takes_part(below):
            collect(below.left)
            collect(below.right)
            if below.predicate is not None:
                conditions.extend(conjuncts(below.predicate))
        else:
            inputs.append(at)

    collect(node)
    names = [name for each in inputs for name in each.schema.names]
    if len(set(names)) < len(names):
        # A map left a name out that is used again above it.
        return None
    if any(part.columns <= set(each.schema.names) for part in conditions for each in inputs):
        # It does not depend on the order; other rules bring it to its side first.
        return None
    return Chain(tuple(inputs), tuple(conditions), tuple(node.schema.names))


def _takes_part(join: Join) -> bool:
    if join.kind != "inner" or join.broadcast is not None:
        return False
    # A condition that may fail stays with the pairs it is asked for.
    return join.predicate is None or not may_fail(join.predicate)


def _only_drops(map_: Map) -> bool:
    return all(each.is_column == name for name, each in map_.columns)


def _cheapest(leaves: Sequence[Tree], pricing: Pricing) -> Tree:
    """Dynamic programming over all sets of inputs."""
    best: dict[frozenset[int], Tree] = {leaf.inputs: leaf for leaf in leaves}
    everything = range(len(leaves))
    for size in range(2, len(leaves) + 1):
        for chosen in map(frozenset, combinations(everything, size)):
            trees = [
                tree
                for left, right in _halves(chosen)
                if left in best and right in best
                for tree in [_join(best[left], best[right], pricing)]
                if tree is not None
            ]
            if trees:
                best[chosen] = min(trees, key=lambda tree: tree.cost.weight)
    whole = frozenset(everything)
    # What no condition connects is multiplied at the end.
    return best[whole] if whole in best else _greedy(leaves, pricing)


def _halves(chosen: frozenset[int]) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """Every way to part a set in two, the one with the first member left."""
    first, *others = sorted(chosen)
    for size in range(len(others)):
        for more in combinations(others, size):
            left = frozenset([first, *more])
            yield left, chosen - left


def _greedy(leaves: Sequence[Tree], pricing: Pricing) -> Tree:
    """Join the cheapest pair, again and again; products last."""
    trees = list(leaves)
    while len(trees) > 1:
        pairs = [
            (left, right, _join(left, right, pricing)) for left, right in combinations(trees, 2)
        ]
        connected = [(left, right, tree) for left, right, tree in pairs if tree is not None]
        if not connected:
            connected = [
                (left, right, _combined(left, right, [], pricing)) for left, right, _ in pairs
            ]
        left, right, tree = min(connected, key=lambda found: found[2].cost.weight)
        at = trees.index(left)
        trees = [each for each in trees if each is not left and each is not right]
        trees.insert(at, tree)
    return trees[0]


def _join(left: Tree, right: Tree, pricing: Pricing) -> Tree | None:
    """Both trees joined by the conditions that connect them; None if there are none."""
    conditions = _new_conditions(pricing.chain, left, right)
    return _combined(left, right, conditions, pricing) if conditions else None


def _combined(left: Tree, right: Tree, conditions: Sequence[Expression], by: Pricing) -> Tree:
    distinct = {**left.estimate.distinct, **right.estimate.distinct}
    share = share_of(conditions, distinct, by.named, by.shares)
    buckets = measured_buckets(conditions, by.named, by.shares) if conditions else 1.0
    if buckets is None:
        pairs = [pair for each in conditions if (pair := equation_of(each)) is not None]
        buckets = math.prod(max(distinct.get(name, VALUES) for name in pair) for pair in pairs)
    estimate = of_join("inner", left.estimate, right.estimate, share)
    own = join_cost(left.estimate, right.estimate, buckets, estimate.stream.rate)
    cost = left.cost + right.cost + own
    return Tree(left.inputs | right.inputs, estimate, cost, (left, right))


def _new_conditions(chain: Chain, left: Tree, right: Tree) -> list[Expression]:
    """The conditions that can be asked for here, and for neither side alone."""
    mine, theirs = _names(chain, left), _names(chain, right)
    return [
        each
        for each in chain.conditions
        if each.columns <= mine | theirs and not each.columns <= mine and not each.columns <= theirs
    ]


def _names(chain: Chain, tree: Tree) -> frozenset[str]:
    return frozenset(name for at in tree.inputs for name in chain.inputs[at].schema.names)


def _built(tree: Tree, chain: Chain) -> Node:
    if tree.sides is None:
        (index,) = tree.inputs
        return chain.inputs[index]
    left, right = (_built(side, chain) for side in tree.sides)
    joined = Join(kind="inner", left=left, right=right)
    conditions = [rebind(each, joined.both) for each in _new_conditions(chain, *tree.sides)]
    if not conditions:
        return joined
    return Join(kind="inner", left=left, right=right, predicate=conjoin(conditions))


def _in_order(node: Node, names: Sequence[str]) -> Node:
    """The columns there were, in the order there was."""
    if list(names) == node.schema.names:
        return node
    columns = tuple((name, Expression.column(name, node.schema)) for name in names)
    return Map(input=node, columns=columns)
