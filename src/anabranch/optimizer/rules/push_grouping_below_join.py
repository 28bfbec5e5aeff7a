"""Rows are summed up before they find their one partner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, rebind
from anabranch.optimizer.equations import equation_of, equations
from anabranch.optimizer.facts import facts
from anabranch.optimizer.failing import may_fail
from anabranch.optimizer.ordering import columns_of
from anabranch.optimizer.pushing import plain_columns
from anabranch.optimizer.rebuilding import rebuilt
from anabranch.optimizer.uniqueness import is_key


def push_grouping_below_join(node: Node) -> Node | None:
    """Aggregate(Join(s, r, k = l), by k and x, f(v)) -> Join(Aggregate(s, by k, f(v)), r) (K23).

    v are columns of s and x of r, and at no instant two rows of r agree in l: else the rows of s
    would be summed up more than once. The sums must not fail for rows without a partner.
    """
    match node:
        case Aggregation(input=Map(input=Join(kind="inner"), columns=columns)):
            if plain_columns(columns) is None:
                return None
            return _pushed(_without_map(node))
        case Aggregation(input=Join(kind="inner")):
            return _pushed(node)
    return None


def _without_map(node: Aggregation) -> Aggregation | None:
    """The same aggregate right above the join: a map in between only leaves columns out."""
    below = node.input
    assert isinstance(below, Map)
    if any(each.is_column != name for name, each in below.columns):
        return None
    found = rebuilt(node, below.inputs)
    assert isinstance(found, Aggregation)
    return found


def _pushed(node: Aggregation | None) -> Node | None:
    if node is None:
        return None
    join = node.input
    assert isinstance(join, Join)
    pairs = equations(join)
    if join.predicate is None or len(pairs) != len(conjuncts(join.predicate)):
        return None
    if join.broadcast is None and is_key((theirs for _, theirs in pairs), join.right):
        found = _over(node, join, dict(pairs), summed="left")
        if found is not None:
            return found
    if join.broadcast is None and is_key((mine for mine, _ in pairs), join.left):
        return _over(node, join, {theirs: mine for mine, theirs in pairs}, summed="right")
    return None


def _over(node: Aggregation, join: Join, partners: dict[str, str], summed: str) -> Node | None:
    """The aggregate over one side of the join; `partners` are its keys and those of the other."""
    side, other = (join.left, join.right) if summed == "left" else (join.right, join.left)
    groups = plain_columns(node.group_by)
    arguments = [call.argument for _, call in node.aggregates if call.argument is not None]
    if groups is None or not columns_of(*arguments) <= set(side.schema.names):
        return None
    # What equals a key of this side may stand for it.
    keys = {name: name for name in partners} | _aliases(side, partners)
    wanted = {name: keys.get(column, column) for name, column in groups.items()}
    asked = set(wanted.values())
    if not all(mine in asked or theirs in asked for mine, theirs in partners.items()):
        return None
    if not asked <= set(other.schema.names) | partners.keys():
        return None
    if any(may_fail(each) for each in arguments) or _overflows(node):
        return None
    names = [name for name, _ in node.aggregates]
    if set(names) & (set(other.schema.names) | partners.keys()):
        return None
    below = _grouped(node, side, list(partners))
    joined = rebuilt(join, (below, other) if summed == "left" else (other, below))
    kept = {**wanted, **{name: name for name in names}}
    columns = tuple((name, Expression.column(old, joined.schema)) for name, old in kept.items())
    return Map(input=joined, columns=columns)


def _grouped(node: Aggregation, side: Node, keys: list[str]) -> Aggregation:
    calls = tuple(
        (name, replace(call, argument=rebind(call.argument, side.schema)))
        if call.argument is not None
        else (name, call)
        for name, call in node.aggregates
    )
    columns = tuple((name, Expression.column(name, side.schema)) for name in keys)
    return Aggregation(input=side, group_by=columns, aggregates=calls)


def _aliases(side: Node, keys: Iterable[str]) -> dict[str, str]:
    """Columns of one side that are known to equal one of its keys."""
    found: dict[str, str] = {}
    for fact in facts(side, frozenset(side.schema.names)):
        pair = equation_of(fact)
        for key in keys if pair is not None else ():
            assert pair is not None
            if key in pair:
                found[pair[0] if pair[1] == key else pair[1]] = key
    return {name: key for name, key in found.items() if name not in set(keys)}


def _overflows(node: Aggregation) -> bool:
    """Whether a sum may become too large, which is an error."""
    return any(call.may_overflow for _, call in node.aggregates)
