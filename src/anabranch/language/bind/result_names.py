"""Names and positions of the result, as GROUP BY, HAVING and ORDER BY use them."""

from __future__ import annotations

from sqlglot import exp

from anabranch.algebra.node import Node
from anabranch.language.bind.grouping import find_aggregates, is_aggregate
from anabranch.language.bind.select_items import ResultColumn
from anabranch.language.bind.stage import BoundClauses
from anabranch.language.bind.top_rows import TopText, apply_top
from anabranch.language.names.context import Context
from anabranch.language.names.scope import plan_column


def keys_of(
    select: exp.Select, columns: list[ResultColumn], stage: BoundClauses
) -> list[tuple[str, exp.Expr]] | None:
    """What GROUP BY names, as written: columns, expressions, aliases or positions."""
    group_by, context = select.args.get("group"), stage.context
    if group_by is None:
        return None
    if group_by.args.get("all"):
        if group_by.expressions:
            raise context.wrong(
                "GROUP BY ALL cannot name columns",
                group_by.expressions[0],
                "write GROUP BY ALL, or GROUP BY and the columns",
            )
        return [
            (column.name, column.tree)
            for column in columns
            if next(find_aggregates(column.tree), None) is None
        ]
    found: list[tuple[str, exp.Expr]] = []
    for tree in group_by.expressions:
        if isinstance(tree, exp.Literal) and not tree.is_string:
            found.append(_at_position(tree, columns, context))
        elif (alias := _aliased(tree, columns, stage)) is not None:
            found.append((alias.name, alias.tree))
        else:
            found.append((tree.name if isinstance(tree, exp.Column) else "key", tree))
    return found


def _at_position(
    tree: exp.Expr, columns: list[ResultColumn], context: Context
) -> tuple[str, exp.Expr]:
    position = int(tree.this) if str(tree.this).isdigit() else 0
    if not 1 <= position <= len(columns):
        raise context.wrong(
            f"there is no column {tree.this}", tree, f"columns are numbered 1 to {len(columns)}"
        )
    column = columns[position - 1]
    return column.name, column.tree


def _aliased(
    tree: exp.Expr, columns: list[ResultColumn], stage: BoundClauses
) -> ResultColumn | None:
    """The column of the result with this name, where FROM has none."""
    if not isinstance(tree, exp.Column) or tree.table or tree.meta.get("plan"):
        return None
    name = tree.name.lower()
    if name in stage.scope.shared or any(item.find(name) for item in stage.scope.items):
        return None
    return next((column for column in columns if column.name.lower() == name), None)


def without_aliases(tree: exp.Expr, columns: list[ResultColumn], stage: BoundClauses) -> exp.Expr:
    """An expression with what aliases stand for, where FROM has no column of that name."""

    def swap(node: exp.Expr) -> exp.Expr:
        column = _aliased(node, columns, stage)
        return exp.paren(column.tree.copy()) if column is not None else node

    return tree.transform(swap)


def needs_input(limit: TopText, columns: list[ResultColumn]) -> bool:
    """Whether the order uses something that is not a column of the result."""
    names = {column.name.lower() for column in columns}
    for part in limit.order_by:
        for column in part.find_all(exp.Column):
            if column.table or column.name.lower() not in names:
                return True
        if next(find_aggregates(part.this), None) is not None:
            return True
    return False


def top_of_input(limit: TopText, columns: list[ResultColumn], stage: BoundClauses) -> Node:
    """The first rows before they are selected; names of the result go before those of FROM."""

    def value(tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Literal) and not tree.is_string:
            return stage.value(_at_position(tree, columns, stage.context)[1])
        return stage.value(_in_terms_of_input(tree, columns))

    return apply_top(limit, stage.node, stage.context, value)


def _in_terms_of_input(tree: exp.Expr, columns: list[ResultColumn]) -> exp.Expr:
    """What ORDER BY says with the columns of the result replaced, except inside aggregates."""
    named = {column.name.lower(): column.tree for column in columns}

    def swap(node: exp.Expr) -> exp.Expr:
        if is_aggregate(node) or isinstance(node, exp.Query):
            return node
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in named:
            return exp.paren(named[node.name.lower()].copy())
        for part in list(node.iter_expressions()):
            part.replace(swap(part))
        return node

    inner: exp.Expr = swap(exp.Paren(this=tree.copy())).this
    return inner


def top_of_output(limit: TopText, node: Node, context: Context) -> Node:
    """The first rows of what is selected."""
    from_names = {name.lower(): name for name in node.schema.names}

    def value(tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Literal) and not tree.is_string:
            columns = [ResultColumn(name, plan_column(name), True) for name in node.schema.names]
            return _at_position(tree, columns, context)[1]

        def swap(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column) or part.meta.get("plan"):
                return part
            name = from_names.get(part.name.lower())
            if name is None:
                raise context.wrong(
                    f"unknown column '{part.name}'",
                    part,
                    f"columns of the result are: {', '.join(node.schema.names)}",
                )
            return plan_column(name)

        return tree.transform(swap)

    return apply_top(limit, node, context, value)
