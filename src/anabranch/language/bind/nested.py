"""Nested queries in conditions: EXISTS, IN, ALL, ANY and comparisons (Kraemer 2007, 9.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from sqlglot import exp

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.language.bind.conditions import conjunction
from anabranch.language.bind.nulls import is_never_null
from anabranch.language.bind.stage import Bound, BoundClauses, distinct_rows
from anabranch.language.names.scope import plan_column

BindNested: TypeAlias = Callable[[exp.Query, BoundClauses], Bound]

_OPPOSITE: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
_MIRRORED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


def has_query(tree: exp.Expr) -> bool:
    """Whether a query stands inside an expression."""
    return tree.find(exp.Query) is not None


def apply_condition(part: exp.Expr, stage: BoundClauses, bind: BindNested) -> BoundClauses:
    """Keep the rows for which a condition with nested queries holds."""
    tree, negated = _stripped(part)
    match tree:
        case exp.Exists():
            return _exists(tree, stage, bind, negated)
        case exp.In() if tree.args.get("query") is not None and not has_query(tree.this):
            query = _query(tree.args["query"])
            return (_not_in if negated else _in)(tree, tree.this, query, stage, bind)
    if type(tree) in _OPPOSITE:
        done = _compare(tree, stage, bind, negated)
        if done is not None:
            return done
    lifted, stage = lift(part, stage, bind, filters=True)
    return stage.filtered(stage.value(lifted), part)


def lift(
    tree: exp.Expr, stage: BoundClauses, bind: BindNested, *, filters: bool = False
) -> tuple[exp.Expr, BoundClauses]:
    """An expression without nested queries: their values are columns of a larger plan.

    Where it `filters`, unknown is as good as false.
    """
    root = exp.Paren(this=tree.copy())
    while (found := _outermost(root)) is not None:
        if isinstance(found, exp.In) and not _only_asked_for_truth(found, filters):
            raise stage.context.wrong(
                "IN with a query cannot be used as a value: it may be unknown",
                found,
                "test whether it holds: CASE WHEN a IN (...) THEN TRUE ELSE FALSE END",
            )
        value, stage = _lift_one(found, stage, bind)
        found.replace(value)
    inner: exp.Expr = root.this
    inner.pop()
    return inner, stage


def _only_asked_for_truth(found: exp.Expr, filters: bool) -> bool:
    """Whether a condition may be false where it is unknown; NOT is refused elsewhere."""
    while found.parent is not None:
        above = found.parent
        if isinstance(above, exp.If) and above.this is found:
            return True
        if not isinstance(above, exp.And | exp.Or | exp.Paren | exp.Not):
            return False
        found = above
    return filters


def _outermost(root: exp.Expr) -> exp.Expr | None:
    """A nested query, with the EXISTS or IN it belongs to."""
    for node in root.walk(bfs=False):
        if isinstance(node, exp.Exists):
            return node
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return node
        if isinstance(node, exp.All | exp.Any):
            return node
        if isinstance(node, exp.Subquery | exp.Query):
            return node
    return None


def _lift_one(
    found: exp.Expr, stage: BoundClauses, bind: BindNested
) -> tuple[exp.Expr, BoundClauses]:
    context = stage.context
    if isinstance(found, exp.Exists):
        return _mark(found, [], _query(found.this), stage, bind)
    if isinstance(found, exp.In):
        if found.find_ancestor(exp.Not) is not None:
            raise context.wrong(
                "NOT IN with a query must be a condition of its own, joined to others by AND",
                found,
                "write NOT EXISTS (SELECT ... WHERE a = b) instead",
            )
        return _mark(found, _parts(found.this), _query(found.args["query"]), stage, bind)
    if isinstance(found, exp.All | exp.Any):
        raise context.wrong(
            f"{found.key.upper()} must be a condition of its own, joined to others by AND",
            found,
            "compare with MIN or MAX of the nested query instead",
        )
    bound = _scalar(found, stage, bind)
    node, values, conditions = stage.apart(bound)
    stage = stage.joined("left", node, conjunction(conditions), found)
    return plan_column(values[0]), stage


def _scalar(found: exp.Expr, stage: BoundClauses, bind: BindNested) -> Bound:
    """A query that gives one value at a time."""
    bound = bind(_query(found), stage)
    if len(bound.visible) != 1:
        raise stage.context.wrong(
            f"a query used as a value returns {len(bound.visible)} columns",
            found,
            "select one column",
        )
    if not bound.single:
        raise stage.context.wrong(
            "the nested query may return several rows at one instant",
            found,
            "aggregate it: MAX(...); or write = ANY (...), IN (...)",
        )
    return bound


def _mark(
    found: exp.Expr, values: list[exp.Expr], query: exp.Query, stage: BoundClauses, bind: BindNested
) -> tuple[exp.Expr, BoundClauses]:
    """A column that is there where a nested query has a fitting row."""
    bound = bind(query, stage)
    node, visible, conditions = stage.apart(bound)
    pairs = [
        exp.EQ(this=stage.value(mine), expression=plan_column(theirs))
        for mine, theirs in zip(_checked(values, visible, found, stage), visible)
    ]
    parts = [*pairs, *conditions]
    if not all(isinstance(part.unnest(), exp.EQ) for part in parts):
        raise stage.context.wrong(
            "this nested query is correlated by more than equations",
            found,
            "join such a condition to others by AND, not inside OR or CASE",
        )
    names = {column.name for part in parts for column in part.find_all(exp.Column)}
    kept = [name for name in node.schema.names if name in names]
    mark = "present"
    while mark in node.schema.names or mark in stage.node.schema.names:
        mark += "_"
    columns = [(name, Expression.column(name, node.schema)) for name in kept]
    columns.append((mark, Expression.parse("TRUE", node.schema)))
    marked = distinct_rows(node, columns)
    stage = stage.joined("left", marked, conjunction(parts), found)
    return exp.Not(this=exp.Is(this=plan_column(mark), expression=exp.null())), stage


def _exists(tree: exp.Exists, stage: BoundClauses, bind: BindNested, negated: bool) -> BoundClauses:
    bound = bind(_query(tree.this), stage)
    node, _, conditions = stage.apart(bound)
    if not conditions:
        free = _free("present", stage, node)
        node = distinct_rows(node, [(free, Expression.parse("TRUE", node.schema))])
    return stage.joined("anti" if negated else "semi", node, conjunction(conditions), tree)


def _in(
    tree: exp.Expr, value: exp.Expr, query: exp.Query, stage: BoundClauses, bind: BindNested
) -> BoundClauses:
    node, visible, conditions = stage.apart(bind(query, stage))
    pairs = [
        exp.EQ(this=stage.value(mine), expression=plan_column(theirs))
        for mine, theirs in zip(_checked(_parts(value), visible, tree, stage), visible)
    ]
    return stage.joined("semi", node, conjunction([*pairs, *conditions]), tree)


def _not_in(
    tree: exp.Expr, value: exp.Expr, query: exp.Query, stage: BoundClauses, bind: BindNested
) -> BoundClauses:
    """NULLs count: `x NOT IN (...)` is unknown beside a NULL, and for a NULL beside anything."""
    node, visible, conditions = stage.apart(bind(query, stage))
    values = [stage.value(each) for each in _checked(_parts(value), visible, tree, stage)]
    pairs = [
        exp.EQ(this=mine, expression=plan_column(theirs)) for mine, theirs in zip(values, visible)
    ]
    if len(values) > 1:
        # A row counts as found unless some column differs for certain.
        differs = exp.or_(
            *(exp.NEQ(this=p.this.copy(), expression=p.expression.copy()) for p in pairs)
        )
        possible = exp.Not(this=exp.func("COALESCE", exp.paren(differs), exp.false()))
        return stage.joined("anti", node, conjunction([possible, *conditions]), tree)
    nullable = not _never_null(values[0], stage)
    inner_nullable = not is_never_null(node, visible[0])
    stage = stage.joined("anti", node, conjunction([*pairs, *conditions]), tree)
    if inner_nullable:
        is_null = exp.Is(this=plan_column(visible[0]), expression=exp.null())
        only = stage.context.bind(is_null, node.schema)
        nulls = _present(Filter(input=node, predicate=only), conditions, stage)
        stage = stage.joined("anti", nulls, conjunction(conditions), tree)
    if nullable:
        any_row = _present(node, conditions, stage)
        is_null = exp.Is(this=values[0].copy(), expression=exp.null())
        stage = stage.joined("anti", any_row, conjunction([is_null, *conditions]), tree)
    return stage


def _present(node: Node, conditions: list[exp.Expr], stage: BoundClauses) -> Node:
    """Once each: that there is something, and the columns that conditions need."""
    needed = {column.name for part in conditions for column in part.find_all(exp.Column)}
    columns = [
        (name, Expression.column(name, node.schema)) for name in node.schema.names if name in needed
    ]
    if not columns:
        free = _free("present", stage, node)
        columns = [(free, Expression.parse("TRUE", node.schema))]
    return distinct_rows(node, columns)


def _compare(
    tree: exp.Expr, stage: BoundClauses, bind: BindNested, negated: bool
) -> BoundClauses | None:
    """`x < ALL (...)`, `x = ANY (...)`, `x = (SELECT MAX(...) ...)`."""
    kind: type[exp.Expr] = type(tree)
    mine, theirs = tree.args["this"], tree.args["expression"]
    if has_query(mine):
        mine, theirs, kind = theirs, mine, _MIRRORED[kind]
    if has_query(mine):
        return None
    quantified = theirs.unnest()
    if isinstance(quantified, exp.All | exp.Any):
        every = isinstance(quantified, exp.All) != negated
        if negated:
            kind = _OPPOSITE[kind]
        query = _query(quantified.this)
        if every and kind is exp.NEQ:
            return _not_in(tree, mine, query, stage, bind)
        node, visible, conditions = stage.apart(bind(query, stage))
        (value,) = _checked([mine], visible, tree, stage)
        resolved, other = stage.value(value), plan_column(visible[0])
        if not every:
            holds = kind(this=resolved, expression=other)
            return stage.joined("semi", node, conjunction([holds, *conditions]), tree)
        fails: exp.Expr = _OPPOSITE[kind](this=resolved, expression=other)
        if not (_never_null(resolved, stage) and is_never_null(node, visible[0])):
            nulls = [exp.Is(this=side.copy(), expression=exp.null()) for side in (resolved, other)]
            fails = exp.paren(exp.or_(fails, *nulls))
        return stage.joined("anti", node, conjunction([fails, *conditions]), tree)
    if negated or not isinstance(theirs.unnest(), exp.Query | exp.Subquery):
        return None
    bound = _scalar(theirs.unnest(), stage, bind)
    node, visible, conditions = stage.apart(bound)
    holds = kind(this=stage.value(mine), expression=plan_column(visible[0]))
    return stage.joined("semi", node, conjunction([holds, *conditions]), tree)


def _never_null(value: exp.Expr, stage: BoundClauses) -> bool:
    if isinstance(value, exp.Literal):
        return True
    return isinstance(value, exp.Column) and is_never_null(stage.node, value.name)


def _checked(
    values: list[exp.Expr], visible: list[str], at: exp.Expr, stage: BoundClauses
) -> list[exp.Expr]:
    if len(values) != len(visible) and values:
        raise stage.context.wrong(
            f"{len(values)} value{'s are' if len(values) > 1 else ' is'} compared with "
            f"{len(visible)} columns",
            at,
            "select the same number of columns in the nested query",
        )
    return values


def _stripped(tree: exp.Expr) -> tuple[exp.Expr, bool]:
    """Without parentheses and NOTs, and whether these turn the meaning round."""
    negated = False
    while True:
        tree = tree.unnest()
        if not isinstance(tree, exp.Not):
            return tree, negated
        tree, negated = tree.this, not negated


def _parts(value: exp.Expr) -> list[exp.Expr]:
    value = value.unnest()
    return list(value.expressions) if isinstance(value, exp.Tuple) else [value]


def _query(tree: exp.Expr) -> exp.Query:
    while isinstance(tree, exp.Paren) or (
        isinstance(tree, exp.Subquery) and not tree.args.get("limit") and not tree.args.get("order")
    ):
        tree = tree.this
    assert isinstance(tree, exp.Query)
    return tree


def _free(wanted: str, stage: BoundClauses, node: Node) -> str:
    while wanted in stage.node.schema.names or wanted in node.schema.names:
        wanted += "_"
    return wanted
