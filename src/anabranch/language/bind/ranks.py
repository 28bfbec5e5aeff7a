"""Functions with OVER: the position of a row among others, and what its neighbours hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

from sqlglot import exp

from anabranch.algebra.forms.explode import Explode
from anabranch.algebra.ranking import RankCall, Ranking
from anabranch.algebra.top_k import Ordering
from anabranch.errors import AnabranchError
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import rebind
from anabranch.language.bind.select_items import ResultColumn
from anabranch.language.bind.stage import BoundClauses
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import plan_column
from anabranch.language.text.rank_text import RANK_FUNCTIONS, bind_rank


@final
@dataclass(frozen=True, slots=True)
class _Over:
    """What stands behind OVER, bound: equal ones become one operator."""

    partition_by: tuple[tuple[str, Expression], ...]
    order_by: tuple[Ordering, ...]


def rank_columns(
    columns: list[ResultColumn], stage: BoundClauses
) -> tuple[list[ResultColumn], BoundClauses]:
    """The columns of a SELECT with plain columns in place of functions with OVER, and their plan.

    Raises:
        QueryError: A function cannot be used with OVER, or has no order.
    """
    windows = [each for column in columns for each in _windows(column.tree)]
    if not windows:
        return columns, stage
    found: dict[_Over, list[tuple[str, RankCall]]] = {}
    taken = {*stage.node.schema.names, *(column.name for column in columns)}
    names: dict[int, str] = {}
    for window in windows:
        call, over = _call(window, stage), _over(window, stage)
        calls = found.setdefault(over, [])
        known = next((name for name, other in calls if other == call), None)
        if known is None:
            known = fresh_name(call.function, taken)
            taken.add(known)
            calls.append((known, call))
        names[id(window)] = known
    replaced = [replace(column, tree=_swapped(column.tree, names)) for column in columns]
    for over, calls in found.items():
        stage = replace(stage, node=_ranking(stage, over, calls, windows[0]))
    return replaced, stage


def _windows(tree: exp.Expr) -> Iterator[exp.Window]:
    for part in tree.walk(prune=lambda part: isinstance(part, exp.Query)):
        if isinstance(part, exp.Window):
            yield part


def _swapped(tree: exp.Expr, names: dict[int, str]) -> exp.Expr:
    """A tree with columns of the plan in place of windows."""
    if id(tree) in names:
        return plan_column(names[id(tree)])
    for window in list(_windows(tree)):
        window.replace(plan_column(names[id(window)]))
    return tree


def _over(window: exp.Window, stage: BoundClauses) -> _Over:
    context, schema = stage.context, stage.node.schema
    order = window.args.get("order")
    if order is None:
        raise context.wrong(
            f"{window.this.sql_name()} needs an ORDER BY",
            window,
            "write OVER (PARTITION BY a ORDER BY b)",
        )
    orders: list[Ordering] = []
    for part in order.expressions:
        inner = part.this if isinstance(part, exp.Ordered) else part
        down, nulls = bool(part.args.get("desc")), part.args.get("nulls_first")
        bound = context.bind(stage.value(inner), schema, inner)
        orders.append((bound, down, not down if nulls is None else bool(nulls)))
    keys = [context.bind(stage.value(key), schema, key) for key in _partition(window)]
    named = {key.sql: (key.is_column or key.sql, key) for key in keys}
    return _Over(tuple(named.values()), tuple(orders))


def _partition(window: exp.Window) -> list[exp.Expr]:
    return list(window.args.get("partition_by") or ())


def _call(window: exp.Window, stage: BoundClauses) -> RankCall:
    context, schema = stage.context, stage.node.schema
    if type(window.this) not in RANK_FUNCTIONS:
        raise context.wrong(
            "this function is not supported with OVER",
            window,
            "ROW_NUMBER, RANK, DENSE_RANK, LAG and LEAD are; write windows in FROM and aggregate "
            "with GROUP BY: FROM s WINDOW(PARTITION BY a ROWS 10)",
        )
    try:
        return bind_rank(
            window.this,
            lambda part: context.bind(stage.value(part), schema, part),
            lambda text: context.scalar(text, schema),
        )
    except AnabranchError as problem:
        raise context.wrong(problem.what, window, problem.hint) from None


def _ranking(
    stage: BoundClauses, over: _Over, calls: list[tuple[str, RankCall]], at: exp.Expr
) -> Ranking:
    schema = stage.node.schema

    def moved(expression: Expression) -> Expression:
        return rebind(expression, schema)

    def moved_call(call: RankCall) -> RankCall:
        if call.argument is None:
            return call
        default = None if call.default is None else moved(call.default)
        return replace(call, argument=moved(call.argument), default=default)

    node = stage.context.build(
        at,
        lambda: Ranking(
            input=stage.node,
            columns=tuple((name, moved_call(call)) for name, call in calls),
            order_by=tuple((moved(each), down, nulls) for each, down, nulls in over.order_by),
            partition_by=tuple((name, moved(key)) for name, key in over.partition_by),
        ),
    )
    assert isinstance(node, Ranking)
    return node


def explode_columns(
    columns: list[ResultColumn], stage: BoundClauses
) -> tuple[list[ResultColumn], BoundClauses]:
    """The columns of a SELECT with plain columns in place of `explode(...)`, and their plan.

    Raises:
        QueryError: There is more than one array, or something that is no array.
    """
    asked = [column for column in columns if _explodes(column.tree)]
    if len(asked) > 1:
        raise stage.context.wrong(
            "a SELECT can explode one array only",
            asked[1].tree,
            "explode the other one in a query around this one",
        )
    if not asked:
        return columns, stage
    context, call = stage.context, asked[0].tree
    if len(call.expressions) != 1:
        raise context.wrong(f"{call.name} takes one array", call, "write explode(items) AS item")
    argument = context.bind(stage.value(call.expressions[0]), stage.node.schema, call)
    name = fresh_name(asked[0].name, {*stage.node.schema.names})
    outer = call.name.lower() == "explode_outer"
    node = context.build(
        call, lambda: Explode(input=stage.node, argument=argument, name=name, outer=outer)
    )
    replaced = [
        replace(column, tree=plan_column(name)) if column is asked[0] else column
        for column in columns
    ]
    return replaced, replace(stage, node=node)


def _explodes(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name.lower() in ("explode", "explode_outer")
