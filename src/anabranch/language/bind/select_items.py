"""The columns after SELECT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from sqlglot import exp

from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import Item, Scope, plan_column


@final
@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: its name, and the expression as it is written.

    `aliased`: the name was given; else it comes from the expression and may change to be unique.
    """

    name: str
    tree: exp.Expr
    aliased: bool


def expand_items(select: exp.Select, scope: Scope, context: Context) -> list[ResultColumn]:
    """All columns, with `*` spelled out.

    Raises:
        QueryError: Two columns have the same name.
    """
    trees = list(select.expressions)
    distinct = select.args.get("distinct")
    if distinct is not None and len(trees) == 1 and isinstance(trees[0], exp.Tuple | exp.Paren):
        # As the dissertation writes it: DISTINCT(a, b).
        trees = trees[0].expressions if isinstance(trees[0], exp.Tuple) else [trees[0].this]
    if not trees:
        raise context.wrong("nothing is selected", select, "write SELECT and the columns, or *")
    found = [column for tree in trees for column in _expand(tree, scope, context)]
    taken: set[str] = {column.name.lower() for column in found if column.aliased}
    result: list[ResultColumn] = []
    seen: set[str] = set()
    for column in found:
        name = column.name
        if column.aliased and name.lower() in seen:
            raise context.wrong(
                f"two columns are called '{name}'", column.tree, f"rename one: ... AS other_{name}"
            )
        if not column.aliased and (name.lower() in seen or name.lower() in taken):
            name = fresh_name(_qualified(column), seen | taken)
        seen.add(name.lower())
        result.append(ResultColumn(name, column.tree, column.aliased))
    return result


def _qualified(column: ResultColumn) -> str:
    owner = column.tree.meta.get("owner") or (
        column.tree.table if isinstance(column.tree, exp.Column) else ""
    )
    return f"{owner}_{column.name}" if owner else column.name


def _expand(tree: exp.Expr, scope: Scope, context: Context) -> Iterator[ResultColumn]:
    if isinstance(tree, exp.Star):
        yield from _star(tree, scope.all_columns(), context)
    elif isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
        position = tree.args["table"].meta
        span = (position["start"], position["end"] + 1) if "start" in position else None
        item = scope.called(tree.table, context.script, span)
        yield from _star(tree.this, ((item, seen, plan) for seen, plan in item.columns), context)
    elif isinstance(tree, exp.Alias):
        yield ResultColumn(tree.alias, tree.this, True)
    elif isinstance(tree, exp.Column):
        yield ResultColumn(tree.name, tree, False)
    else:
        yield ResultColumn(_text(tree, context), tree, False)


def _star(
    star: exp.Star, columns: Iterator[tuple[Item, str, str]], context: Context
) -> Iterator[ResultColumn]:
    dropped = {part.name.lower() for part in star.args.get("except_") or ()}
    missing = set(dropped)
    for item, seen, plan in columns:
        missing.discard(seen.lower())
        if seen.lower() in dropped:
            continue
        column = plan_column(plan)
        column.meta["owner"] = item.name
        yield ResultColumn(seen, column, False)
    if missing:
        name = sorted(missing)[0]
        raise context.wrong(f"unknown column '{name}' in EXCEPT", star, "name a column of *")


def _text(tree: exp.Expr, context: Context) -> str:
    """What a column without a name is called: what stands there."""
    written = context.script.written(tree)
    text = tree.sql(dialect="spark", comments=False)
    # A span of a text may lack a bracket at its end; the canonical text never does.
    closed = written.count("(") == written.count(")") and written.count("'") % 2 == 0
    name = written if closed else text
    return name.lstrip("_") or text
