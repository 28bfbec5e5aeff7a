"""The first rows: ORDER BY with LIMIT, and ROW_NUMBER with a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from sqlglot import exp

from anabranch.algebra.node import Node
from anabranch.algebra.top_k import Ordering, TopK
from anabranch.language.bind.conditions import conjuncts
from anabranch.language.names.context import Context
from anabranch.language.text.script import span_of


@final
@dataclass(frozen=True, slots=True)
class TopText:
    """The first `k` rows in an order, of each group, as written."""

    k: int
    partition_by: tuple[exp.Expr, ...]
    order_by: tuple[exp.Expr, ...]
    at: exp.Expr


def limit_of(query: exp.Query, context: Context) -> TopText | None:
    """ORDER BY and LIMIT of a query; one needs the other.

    Raises:
        QueryError: There is one without the other, or the limit is no number.
    """
    order, limit = query.args.get("order"), query.args.get("limit")
    if order is None and limit is None:
        return None
    if limit is None:
        raise context.wrong(
            "a stream has no order: ORDER BY needs a LIMIT",
            order,
            "write ORDER BY ... LIMIT 10 for the first rows of every snapshot, or leave it out",
        )
    if order is None:
        raise context.wrong(
            "LIMIT without ORDER BY would take arbitrary rows",
            limit,
            "say which rows come first: ORDER BY ... LIMIT",
        )
    bound = limit.expression
    if isinstance(limit, exp.Fetch):
        # FETCH FIRST 10 ROWS ONLY says the same in the words of the standard; a row is meant
        # where there is no number.
        bound = limit.args.get("count") or exp.Literal.number(1)
    if not _is_count(bound):
        at = limit if span_of(limit) is not None else order
        raise context.wrong("LIMIT must be a positive number", at, "write LIMIT 10")
    return TopText(int(bound.this), (), tuple(order.expressions), order)


def bound_rank(select: exp.Select, context: Context) -> exp.Select:
    """ROW_NUMBER in a nested query, bounded by WHERE or QUALIFY, as the first rows of that query.

    `SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (...) AS n FROM s) WHERE n <= 3` becomes the
    query without `n`, marked with the first three rows of every group.
    """
    source = select.args.get("from_")
    tables = [source.this] if source is not None else []
    tables += [join.this for join in select.args.get("joins") or ()]
    for table in tables:
        inner = table.this if isinstance(table, exp.Subquery) else None
        if not isinstance(inner, exp.Select):
            continue
        ranks = [
            item
            for item in inner.expressions
            if isinstance(item, exp.Alias) and _is_rank(item.this)
        ]
        if len(ranks) != 1:
            continue
        if _is_first_rows(select, table, ranks[0]):
            return bound_rank(_apply(select, table, inner, ranks[0]), context)
    return select


def _bounds(select: exp.Select, table: exp.Expr, rank: exp.Alias) -> list[tuple[exp.Expr, int]]:
    where = select.args.get("where")
    parts = conjuncts(where.this) if where is not None else []
    return [(part, k) for part in parts if (k := _bound(part, rank.alias, table.alias))]


def _is_first_rows(select: exp.Select, table: exp.Expr, rank: exp.Alias) -> bool:
    """Whether a number of rows is only compared with one bound: the rows need not be numbered."""
    bounds = _bounds(select, table, rank)
    if not bounds:
        return False
    part, k = bounds[0]
    uses = [
        column
        for column in select.find_all(exp.Column)
        if column.name.lower() == rank.alias.lower()
        and column.find_ancestor(exp.Select) is select
        and not _is_inside(column, part)
    ]
    return k == 1 or not uses


def _is_inside(node: exp.Expr, whole: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not whole:
        above = above.parent
    return above is not None


def _apply(select: exp.Select, table: exp.Expr, inner: exp.Select, rank: exp.Alias) -> exp.Select:
    where = select.args.get("where")
    parts = conjuncts(where.this) if where is not None else []
    part, k = _bounds(select, table, rank)[0]
    inner.meta["top"] = top_of(rank.this, k)
    rank.pop()
    rest = [each for each in parts if each is not part]
    select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
    for column in list(select.find_all(exp.Column)):
        if column.name.lower() == rank.alias.lower() and column.find_ancestor(exp.Select) is select:
            column.replace(exp.Literal.number(1))
    return select


def qualify_of(select: exp.Select, context: Context) -> TopText | None:
    """`QUALIFY ROW_NUMBER() OVER (...) <= 3`."""
    qualify = select.args.get("qualify")
    if qualify is None:
        return None
    tree = qualify.this.unnest()
    if isinstance(tree, exp.LTE | exp.LT | exp.EQ) and _is_rank(tree.left.unnest()):
        k = _count_of(tree)
        if k is not None:
            return top_of(tree.left.unnest(), k)
    raise context.wrong(
        "QUALIFY can only bound ROW_NUMBER",
        qualify,
        "write QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) <= 10",
    )


def top_of(window: exp.Expr, k: int) -> TopText:
    """The first rows by what stands behind OVER."""
    order = window.args.get("order")
    partition = tuple(window.args.get("partition_by") or ())
    return TopText(k, partition, tuple(order.expressions) if order else (), window)


def apply_top(
    top: TopText,
    node: Node,
    context: Context,
    resolve: Callable[[exp.Expr], exp.Expr],
) -> Node:
    """The node that keeps the first rows; `resolve` gives expressions in terms of the plan."""
    if not top.order_by:
        raise context.wrong(
            "ROW_NUMBER needs an ORDER BY", top.at, "write OVER (PARTITION BY a ORDER BY b)"
        )
    orders: list[Ordering] = []
    for part in top.order_by:
        inner = part.this if isinstance(part, exp.Ordered) else part
        down = bool(part.args.get("desc"))
        nulls = part.args.get("nulls_first")
        bound = context.bind(resolve(inner), node.schema, inner)
        orders.append((bound, down, not down if nulls is None else bool(nulls)))
    keys = [context.bind(resolve(tree), node.schema, tree) for tree in top.partition_by]
    partition = {key.sql: (key.is_column or key.sql, key) for key in keys}
    return context.build(
        top.at,
        lambda: TopK(
            input=node,
            k=top.k,
            order_by=tuple(orders),
            partition_by=tuple(partition.values()),
        ),
    )


def _is_rank(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Window) and isinstance(tree.this, exp.RowNumber)


def _is_count(tree: exp.Expr | None) -> bool:
    return (
        isinstance(tree, exp.Literal)
        and not tree.is_string
        and tree.this.isdigit()
        and int(tree.this) > 0
    )


def _bound(part: exp.Expr, rank: str, table: str) -> int | None:
    """`n <= 3`, `n < 4` or `n = 1`."""
    part = part.unnest()
    if isinstance(part, exp.GTE | exp.GT):
        flipped = exp.LTE if isinstance(part, exp.GTE) else exp.LT
        part = flipped(this=part.right.copy(), expression=part.left.copy())
    if not isinstance(part, exp.LTE | exp.LT | exp.EQ):
        return None
    column = part.left.unnest()
    if not isinstance(column, exp.Column) or column.name.lower() != rank.lower():
        return None
    if column.table and column.table.lower() != table.lower():
        return None
    return _count_of(part)


def _count_of(part: exp.Expr) -> int | None:
    limit = part.args["expression"].unnest()
    if not _is_count(limit):
        return None
    count = int(limit.this) - isinstance(part, exp.LT)
    if isinstance(part, exp.EQ) and count != 1:
        return None
    return count or None
