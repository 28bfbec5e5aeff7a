"""The same operator over other inputs, whose columns may be fewer or called nullable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.modules.apply_operator import Call
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import rebind


def rebuilt(node: Node, inputs: Sequence[Node]) -> Node:
    """An operator over other inputs; its expressions are bound to their columns."""
    old = [each.schema for each in node.inputs]
    new = [each.schema for each in inputs]
    if all(mine == theirs for mine, theirs in zip(old, new)):
        return node.with_inputs(*inputs)
    schema = pa.schema([field for each in new for field in each])
    names = {field.name for field in fields(node)}  # type: ignore[arg-type]
    sides: dict[str, Any]
    if "inputs" in names:
        sides = {"inputs": tuple(inputs)}
    else:
        sides = dict(zip(("left", "right") if len(inputs) == 2 else ("input",), inputs))
    bound = {name: _bound(getattr(node, name), schema) for name in sorted(names - sides.keys())}
    return replace(node, **sides, **bound)  # type: ignore[type-var]


def _bound(value: Any, schema: pa.Schema) -> Any:
    if isinstance(value, Expression):
        return rebind(value, schema)
    if isinstance(value, AggregateCall) and value.argument is not None:
        return replace(value, argument=rebind(value.argument, schema))
    if isinstance(value, Call):
        return replace(value, arguments=_bound(value.arguments, schema))
    if isinstance(value, tuple):
        return tuple(_bound(part, schema) for part in value)
    return value
