"""Conditions that hold for every row of a plan."""

from __future__ import annotations

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, rebind, rename
from anabranch.optimizer.pushing import Columns, composed
from anabranch.optimizer.simplify import is_true, simplified


def facts(node: Node, names: frozenset[str]) -> list[Expression]:
    """Conditions on some columns of a node that hold for all its rows, as far as is seen.

    They are bound to any columns of these names.
    """
    match node:
        case Filter(input=x, predicate=p):
            return [*_about(names, p), *facts(x, names)]
        case Map(input=x, columns=columns):
            return _renamed(x, columns, names, node)
        case Aggregation(input=x, group_by=columns) | ApplyOperator(input=x, group_by=columns):
            return _renamed(x, columns, names, node)
        case Join(kind="inner", left=x, right=y, predicate=p):
            asked = [] if p is None else _about(names, p)
            return [*asked, *facts(x, names), *facts(y, names)]
        case Join(kind="left" | "semi" | "anti", left=x) | Join(kind="right", right=x):
            return facts(x, names)
        case SetOperation(kind="difference" | "strict difference" | "intersection", left=x):
            return facts(x, names)
        case _ if node.traits.keeps_payloads:
            return facts(node.inputs[0], names)
    return []


def holds(node: Node, condition: Expression) -> bool:
    """Whether a condition over its columns is known to hold for all rows of a node.

    It is looked for on the ways that pushing a filter down would take it, so whatever was pushed
    is found again.
    """
    condition = simplified(rebind(condition, node.schema))
    if is_true(condition):
        return True
    match node:
        case Filter():
            # Written in the same order, conditions are equal when their texts are.
            return _implies(node.predicate, condition) or _below(node, condition)
        case Map():
            return _computed(node, node.columns, condition)
        case Aggregation() | ApplyOperator():
            return _computed(node, node.group_by, condition)
        case Union():
            return all(holds(each, condition) for each in node.inputs)
        case Join():
            return _joined(node, condition)
        case SetOperation(kind="max-union"):
            return holds(node.left, condition) and holds(node.right, condition)
        case SetOperation():
            return holds(node.left, condition)
        case _ if node.traits.keeps_payloads:
            return _below(node, condition)
    return False


def _implies(predicate: Expression, condition: Expression) -> bool:
    """Whether a condition is part of a predicate, or nothing passes that at all."""
    condition_found = simplified(predicate)
    never = condition_found.constant is not None and not is_true(condition_found)
    return never or condition in conjuncts(condition_found)


def _below(node: Node, condition: Expression) -> bool:
    (below,) = node.inputs
    return condition.columns <= set(below.schema.names) and holds(below, condition)


def _computed(node: Node, columns: Columns, condition: Expression) -> bool:
    (below,) = node.inputs
    if not condition.columns <= {name for name, _ in columns}:
        return False
    found = composed(condition, dict(columns), below.schema)
    return found is not None and holds(below, found)


def _joined(node: Join, condition: Expression) -> bool:
    predicate = node.predicate if node.kind == "inner" else None
    if predicate is not None and _implies(predicate, condition):
        return True
    sides = {
        "inner": (node.left, node.right),
        "left": (node.left,),
        "right": (node.right,),
        "full": (),
        "semi": (node.left,),
        "anti": (node.left,),
    }
    return any(
        condition.columns <= set(side.schema.names) and holds(side, condition)
        for side in sides[node.kind]
    )


def _about(names: frozenset[str], predicate: Expression) -> list[Expression]:
    return [each for each in conjuncts(predicate) if each.columns and each.columns <= names]


def _renamed(below: Node, columns: Columns, names: frozenset[str], node: Node) -> list[Expression]:
    """What is known of the columns that are kept under these names."""
    new: dict[str, str] = {}
    for name, each in columns:
        if each.is_column is not None and name in names:
            new.setdefault(each.is_column, name)
    return [rename(each, new, node.schema) for each in facts(below, frozenset(new))]
