"""A plan on its way through the clauses of a SELECT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.analysis.join_keys import JoinKeys
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.language.bind.grouping import Grouped
from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import Scope, plan_column


@final
@dataclass(frozen=True, slots=True)
class Bound:
    """A nested query, bound.

    Attributes:
        node: Its plan. The columns behind the visible ones serve `conditions`.
        visible: The columns it selects.
        conditions: What connects it with the query around: over columns of both.
        single: Whether there is at most one row at a time for each row around.
    """

    node: Node
    visible: tuple[str, ...]
    conditions: tuple[exp.Expr, ...] = ()
    single: bool = False


@final
@dataclass(frozen=True, slots=True)
class BoundClauses:
    """What is there after FROM, or after GROUP BY: a plan, and what names mean over it."""

    node: Node
    scope: Scope
    context: Context
    grouped: Grouped | None = None

    def value(self, tree: exp.Expr) -> exp.Expr:
        """An expression as written, in terms of the plan."""
        resolved = self.context.resolve(tree, self.scope)
        return self.raised(resolved)

    def raised(self, resolved: exp.Expr) -> exp.Expr:
        """A resolved expression, over the groups where there are any."""
        if self.grouped is None:
            return resolved
        return self.grouped.rewrite(resolved, self.context, self.node.schema.names)

    def filtered(self, condition: exp.Expr, at: exp.Expr | None = None) -> BoundClauses:
        """Only the rows for which a condition (in terms of the plan) holds."""
        predicate = self.context.bind(condition, self.node.schema, at)
        node = self.context.build(
            at if at is not None else condition,
            lambda: Filter(input=self.node, predicate=predicate),
        )
        return replace(self, node=node)

    def joined(
        self,
        kind: JoinKind,
        right: Node,
        condition: exp.Expr | None,
        at: exp.Expr,
    ) -> BoundClauses:
        """With the rows of another plan, whose columns have names of their own."""
        both = pa.schema([*self.node.schema, *right.schema])
        predicate = None if condition is None else self.context.bind(condition, both, at)

        def make() -> Node:
            join = Join(kind=kind, left=self.node, right=right, predicate=predicate)
            if kind in ("semi", "anti", "left") and not JoinKeys.of(join).left:
                # Without an equation there is no key to shard by; the nested side is the small one.
                return replace(join, broadcast="right")
            return join

        return replace(self, node=self.context.build(at, make))

    def apart(self, bound: Bound) -> tuple[Node, list[str], list[exp.Expr]]:
        """A nested plan under names that are free here; its columns; its conditions, over both."""
        taken = set(self.node.schema.names)
        names: dict[str, str] = {}
        for name in bound.node.schema.names:
            names[name] = fresh_name(name, taken)
            taken.add(names[name])
        node = bound.node
        if any(old != new for old, new in names.items()):
            columns = [(new, Expression.column(old, node.schema)) for old, new in names.items()]
            node = Map(input=node, columns=tuple(columns))

        def swap(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            if not part.meta.get("outer"):
                return plan_column(names[part.name])
            column = plan_column(part.name)
            column.this.meta.update(part.this.meta)
            return self.raised(column) if self.grouped is not None else column

        conditions = [condition.transform(swap) for condition in bound.conditions]
        return node, [names[name] for name in bound.visible], conditions


def distinct_rows(node: Node, columns: list[tuple[str, Expression]]) -> Node:
    """Some columns of a plan, every combination once."""
    return Distinct(input=Map(input=node, columns=tuple(columns)))
