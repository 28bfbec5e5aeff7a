"""A SELECT, from its text to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from sqlglot import exp

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.language.bind.axis_windows import mark_bounds, take_axis_window, without_bounds
from anabranch.language.bind.conditions import conjuncts, has_outer, only_outer
from anabranch.language.bind.from_items import bind_from
from anabranch.language.bind.grouping import Grouped, find_aggregates, group, text_of
from anabranch.language.bind.nested import apply_condition, has_query, lift
from anabranch.language.bind.operator_calls import (
    group_by_window,
    mark_operators,
    refuse_unknown,
    snapshots_of,
)
from anabranch.language.bind.ranks import explode_columns, rank_columns
from anabranch.language.bind.result_names import (
    keys_of,
    needs_input,
    top_of_input,
    top_of_output,
    without_aliases,
)
from anabranch.language.bind.select_items import ResultColumn, expand_items
from anabranch.language.bind.set_operations import bind_set_operation
from anabranch.language.bind.stage import Bound, BoundClauses
from anabranch.language.bind.top_rows import TopText, apply_top, bound_rank, limit_of, qualify_of
from anabranch.language.names.catalog import CatalogEntry
from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import Scope, plan_column
from anabranch.language.text.window_text import AxisWindowText


@final
@dataclass(frozen=True, slots=True)
class Axis:
    """A window of the time axis, whether its bounds are asked for, and whether it was written."""

    window: AxisWindowText
    bounds: bool
    written: bool = True


def bind_query(query: exp.Query, context: Context) -> Node:
    """The plan of a query that stands by itself.

    Raises:
        QueryError: A name is unknown, types do not fit, or something makes no sense.
    """
    return _bind(query, context, None).node


def _bind_around(query: exp.Query, stage: BoundClauses) -> Bound:
    """A query nested in another one, whose columns it may use."""
    return _bind(query, stage.context, stage.scope)


def _bind(query: exp.Query, context: Context, outer: Scope | None) -> Bound:
    context = _with_named(query, context)
    if isinstance(query, exp.Subquery):
        inner = _bind(query.this, context, outer)
        alias = query.args.get("alias")
        if alias is not None and alias.columns:
            names = [column.name for column in alias.columns]
            inner = replace(
                inner, node=_renamed(inner.node, names, query, context), visible=tuple(names)
            )
        top = limit_of(query, context)
        if top is None:
            return inner
        return replace(inner, node=top_of_output(top, inner.node, context))
    if isinstance(query, exp.SetOperation):
        node = bind_set_operation(query, context, bind_query)
        top = limit_of(query, context)
        if top is not None:
            node = top_of_output(top, node, context)
        return Bound(node, tuple(node.schema.names), (), node.properties.single)
    if not isinstance(query, exp.Select):
        raise context.wrong(
            f"{query.key.upper()} is not supported", query, "write SELECT ... FROM ..."
        )
    return _bind_select(query, context, outer)


def _with_named(query: exp.Query, context: Context) -> Context:
    """The context with the queries of WITH."""
    named = query.args.get("with_")
    if named is None:
        return context
    for each in named.expressions:
        node = bind_query(each.this, context)
        columns = each.args["alias"].args.get("columns") or ()
        if columns:
            node = _renamed(node, [column.name for column in columns], each, context)
        context = context.with_named(CatalogEntry(name=each.alias, kind="view", node=node))
    return context


def _renamed(node: Node, names: Sequence[str], at: exp.Expr, context: Context) -> Node:
    if len(names) != len(node.schema):
        raise context.wrong(
            f"the query has {len(node.schema)} columns but {len(names)} names",
            at,
            f"name each column once; columns are: {', '.join(node.schema.names)}",
        )
    columns = [
        (new, Expression.column(old, node.schema)) for new, old in zip(names, node.schema.names)
    ]
    return Map(input=node, columns=tuple(columns))


def _bind_select(select: exp.Select, context: Context, outer: Scope | None) -> Bound:
    select, window = take_axis_window(select, context)
    asked = mark_operators(select, context, windowed=window is not None)
    select = bound_rank(select, context)
    block = bind_from(select, context, bind_query, outer)
    stage = BoundClauses(block.node, block.scope, context)
    axis = None if window is None else Axis(window, mark_bounds(select, stage.scope))
    if window is None and asked:
        axis = Axis(snapshots_of(select), bounds=False, written=False)
    stage, correlated = _where(select, stage)
    columns = expand_items(select, stage.scope, context)
    top = select.meta.get("top") or qualify_of(select, context)
    keys = without_bounds(keys_of(select, columns, stage))
    having = select.args.get("having")
    needed = [column.tree for column in columns] + ([having.this] if having else [])
    needed += (
        [part.this for part in select.args["order"].expressions] if select.args.get("order") else []
    )
    aggregated = keys is not None or any(
        next(find_aggregates(tree), None) is not None for tree in needed
    )
    if not aggregated and having is not None:
        raise context.wrong("HAVING needs a GROUP BY", having, "write conditions on rows in WHERE")
    if aggregated:
        groups = _group(select, columns, keys or [], correlated, stage, axis)
        return _finish(*groups, select, top)
    return _finish(stage, columns, correlated, select, top)


def _where(select: exp.Select, stage: BoundClauses) -> tuple[BoundClauses, list[exp.Expr]]:
    """The rows that WHERE keeps, and what connects the query with the one around it."""
    where, context = select.args.get("where"), stage.context
    parts = conjuncts(where.this) if where is not None else []
    local: list[exp.Expr] = []
    correlated: list[exp.Expr] = []
    for part in parts:
        _refuse_aggregates(part, context)
        if not has_query(part):
            tree = context.resolve(part, stage.scope)
            (correlated if has_outer(tree) else local).append(tree)
    if local:
        assert where is not None
        at = where.this if len(local) == len(parts) else None
        stage = stage.filtered(exp.and_(*local), at)
    for part in parts:
        if has_query(part):
            stage = apply_condition(part, stage, _bind_around)
    return stage, correlated


def _refuse_aggregates(part: exp.Expr, context: Context) -> None:
    call = next(find_aggregates(part), None)
    if call is not None:
        raise context.wrong(
            "an aggregate is not allowed in WHERE", call, "write conditions on groups in HAVING"
        )


def _group(
    select: exp.Select,
    columns: list[ResultColumn],
    keys: list[tuple[str, exp.Expr]],
    correlated: list[exp.Expr],
    stage: BoundClauses,
    axis: Axis | None,
) -> tuple[BoundClauses, list[ResultColumn], list[exp.Expr]]:
    """The groups, with HAVING; correlated conditions become keys."""
    context = stage.context
    having, order = select.args.get("having"), select.args.get("order")
    condition = without_aliases(having.this, columns, stage) if having is not None else None
    trees = [column.tree for column in columns]
    trees += [condition] if condition is not None else []
    trees += [without_aliases(o.this, columns, stage) for o in order.expressions] if order else []
    resolved = [
        context.resolve(call, stage.scope) for tree in trees for call in find_aggregates(tree)
    ]
    bound_keys = [(name, context.resolve(tree, stage.scope)) for name, tree in keys]
    conditions: list[exp.Expr] = []
    for position, part in enumerate(correlated):
        inner, around = _equation(part, context)
        bound_keys.append((f"key_{position + 1}", inner))
        conditions.append(exp.EQ(this=around, expression=inner))
    if not bound_keys and not resolved and axis is None:
        raise context.wrong(
            "the query has no groups and no aggregate", having, "write GROUP BY and a column"
        )
    plain = [context.resolve(tree, stage.scope) for tree in trees if not has_query(tree)]
    refuse_unknown(plain, stage.node, context)
    if axis is None:
        grouped = group(stage.node, bound_keys, resolved, context)
    else:
        grouped = group_by_window(
            axis.window,
            stage.node,
            bound_keys,
            resolved,
            context,
            bounds=axis.bounds,
            written=axis.written,
        )
    around_stage = BoundClauses(grouped.node, stage.scope, context, grouped)
    connected: list[exp.Expr] = [
        exp.EQ(this=part.this, expression=plan_column(grouped.columns[text_of(part.expression)]))
        for part in conditions
    ]
    if condition is not None:
        for part in conjuncts(condition):
            if has_query(part):
                around_stage = apply_condition(part, around_stage, _bind_around)
            else:
                around_stage = around_stage.filtered(around_stage.value(part), part)
    return around_stage, columns, connected


def _equation(part: exp.Expr, context: Context) -> tuple[exp.Expr, exp.Expr]:
    """Inner and outer side of `inner = outer`."""
    tree = part.unnest()
    if isinstance(tree, exp.EQ):
        for inner, around in ((tree.left, tree.right), (tree.right, tree.left)):
            if only_outer(around) and not has_outer(inner):
                return inner, around
    raise context.wrong(
        "a nested query with aggregates can be correlated only by equations",
        part,
        "write inner.column = outer.column",
    )


def _finish(
    stage: BoundClauses,
    columns: list[ResultColumn],
    conditions: list[exp.Expr],
    select: exp.Select,
    top: TopText | None,
) -> Bound:
    """SELECT, DISTINCT, ORDER BY and LIMIT, over rows or groups."""
    context = stage.context
    keyed = stage.grouped is not None and _all_keys(conditions, stage.grouped)
    limit = limit_of(select, context)
    for first in (top, limit):
        if first is not None and conditions:
            raise context.wrong(
                "ORDER BY with LIMIT is not supported in a correlated nested query",
                first.at,
                "aggregate it instead: MAX(...), MIN(...)",
            )
    if top is not None:
        stage = replace(stage, node=apply_top(top, stage.node, context, stage.value))
    columns, stage = rank_columns(columns, stage)
    columns, stage = explode_columns(columns, stage)
    values: list[tuple[str, exp.Expr]] = []
    for column in columns:
        tree, stage = lift(column.tree, stage, _bind_around)
        value = stage.value(tree)
        if has_outer(value):
            raise context.wrong(
                "the nested SELECT cannot refer to a column of the outer query",
                column.tree,
                "use it in WHERE of the nested query: inner.column = outer.column",
            )
        values.append((column.name, value))
    distinct = select.args.get("distinct") is not None
    early = limit is not None and not distinct and needs_input(limit, columns)
    if limit is not None and early:
        stage = replace(stage, node=top_of_input(limit, columns, stage))
    bound = [(name, context.bind(value, stage.node.schema)) for name, value in values]
    extras, rewritten = _extras(conditions, stage, [name for name, _ in bound])
    node = context.build(columns[0].tree, lambda: Map(input=stage.node, columns=(*bound, *extras)))
    if distinct:
        node = Distinct(input=node)
    if limit is not None and not early:
        node = top_of_output(limit, node, context)
    single = node.properties.single if not conditions else keyed
    return Bound(node, tuple(name for name, _ in bound), tuple(rewritten), single)


def _all_keys(conditions: list[exp.Expr], grouped: Grouped) -> bool:
    """Whether conditions say what each key of the groups is."""
    fixed = {part.expression.name for part in conditions if isinstance(part, exp.EQ)}
    return fixed >= {name for name, _ in grouped.node.group_by}


def _extras(
    conditions: list[exp.Expr], stage: BoundClauses, names: list[str]
) -> tuple[list[tuple[str, Expression]], list[exp.Expr]]:
    """Columns that conditions need besides the selected ones, and the conditions over them."""
    taken: set[str] = set(names)
    extras: dict[str, tuple[str, Expression]] = {}

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.meta.get("outer"):
            return node
        if node.name not in extras:
            fresh = fresh_name(node.name, taken)
            taken.add(fresh)
            extras[node.name] = (fresh, Expression.column(node.name, stage.node.schema))
        return plan_column(extras[node.name][0])

    rewritten = [condition.transform(swap) for condition in conditions]
    return list(extras.values()), rewritten
