"""GROUP BY and aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from sqlglot import exp

from anabranch.aggregates.call import AggregateCall
from anabranch.aggregates.table import how_to_write
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError
from anabranch.expressions.expression import Expression
from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import plan_column
from anabranch.language.text.aggregate_text import bind_aggregate


@final
@dataclass(frozen=True, slots=True)
class Grouped:
    """An aggregation, and which of its columns stands for what: by the text of an expression."""

    node: Aggregation | ApplyOperator
    columns: Mapping[str, str]

    def rewrite(self, tree: exp.Expr, context: Context, extra: Iterable[str] = ()) -> exp.Expr:
        """An expression over the rows, as one over the groups.

        Raises:
            QueryError: It uses a column that is not grouped by.
        """

        def swap(node: exp.Expr) -> exp.Expr:
            name = self.columns.get(text_of(node))
            if name is None:
                return node
            column = plan_column(name)
            column.this.meta.update(_first_position(node))
            return column

        found = tree.transform(swap)
        names = {*self.node.schema.names, *extra}
        for column in found.find_all(exp.Column):
            if column.name not in names:
                keys = ", ".join(name for name, _ in self.node.group_by)
                hint = f"group by it as well, or aggregate it: MAX({column.name})"
                if keys:
                    hint += f"; the query groups by {keys}"
                raise context.wrong(
                    f"'{column.name}' is neither in GROUP BY nor in an aggregate", column, hint
                )
        return found


def text_of(tree: exp.Expr) -> str:
    """A resolved expression as text: equal expressions have equal texts, and no others.

    The text of Spark's dialect would not do: it writes PERCENTILE_CONT and PERCENTILE_DISC alike.
    """
    return tree.sql(comments=False, normalize_functions="upper")


def find_aggregates(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregates of an expression, with their FILTER."""
    if isinstance(tree, exp.Query):
        return
    if isinstance(tree, exp.Window):
        # The function before OVER is none; what it, PARTITION BY and ORDER BY look at may be.
        order = tree.args.get("order")
        inside = [*tree.this.iter_expressions(), *(tree.args.get("partition_by") or ())]
        for part in [*inside, *([order] if order is not None else [])]:
            yield from find_aggregates(part)
        return
    if is_aggregate(tree):
        yield tree
        return
    for part in tree.iter_expressions():
        yield from find_aggregates(part)


def is_aggregate(tree: exp.Expr) -> bool:
    """`MAX(x)`, `MAX(x) FILTER (WHERE y)`, `PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)`.

    A call of a user's module is one where it was marked as such.
    """
    if isinstance(tree, exp.Filter | exp.WithinGroup):
        return is_aggregate(tree.this)
    if "module" in tree.meta:
        return True
    return isinstance(tree, exp.AggFunc) and not isinstance(tree, exp.RowNumber)


def group(
    node: Node,
    keys: Sequence[tuple[str, exp.Expr]],
    trees: Iterable[exp.Expr],
    context: Context,
) -> Grouped:
    """An aggregation by some keys, with all aggregates that some expressions need.

    Keys and expressions are resolved; keys come with the names that their columns shall have.
    """
    group_by, columns = bind_keys(node, keys, context)
    calls: list[tuple[str, AggregateCall]] = []
    for tree in trees:
        for call in find_aggregates(tree):
            text = text_of(call)
            if text in columns:
                continue
            taken = {name for name, _ in (*group_by, *calls)}
            name = fresh_name(_name(call, context), taken)
            calls.append((name, bind_call(call, node, context)))
            columns[text] = name
    made = context.build(
        keys[0][1] if keys else None,
        lambda: Aggregation(input=node, group_by=tuple(group_by), aggregates=tuple(calls)),
    )
    assert isinstance(made, Aggregation)
    return Grouped(made, columns)


def bind_keys(
    node: Node, keys: Sequence[tuple[str, exp.Expr]], context: Context
) -> tuple[list[tuple[str, Expression]], dict[str, str]]:
    """What is grouped by, each once, and its names by the text of the expressions."""
    columns: dict[str, str] = {}
    group_by: list[tuple[str, Expression]] = []
    for wanted, tree in keys:
        if text_of(tree) in columns:
            continue
        if next(find_aggregates(tree), None) is not None:
            raise context.wrong(
                "GROUP BY cannot contain an aggregate", tree, "aggregate in a nested query first"
            )
        name = fresh_name(_free(wanted), {key for key, _ in group_by})
        group_by.append((name, context.bind(tree, node.schema)))
        columns[text_of(tree)] = name
    return group_by, columns


def bind_call(call: exp.Expr, node: Node, context: Context) -> AggregateCall:
    """A resolved aggregate, with its FILTER."""
    for part in call.walk():
        if part is not call and is_aggregate(part) and not isinstance(call, exp.Filter):
            if part is call.this and isinstance(call, exp.WithinGroup):
                continue
            raise context.wrong(
                "an aggregate cannot contain another aggregate",
                part,
                "compute the inner one in a nested query in FROM",
            )
    plain = _without_filter(call, context)
    try:
        return bind_aggregate(plain, call.sql(comments=False), node.schema, context.in_workers)
    except AnabranchError as problem:
        what, hint = problem.what, problem.hint
        if what.endswith("is not an aggregate"):
            written = context.script.written(call) or call.sql(dialect="spark", comments=False)
            what = f"'{written}' is not an aggregate that streams support"
            hint = how_to_write(written)
        raise context.wrong(what, call, hint) from None


def _without_filter(call: exp.Expr, context: Context) -> exp.Expr:
    """`MAX(x) FILTER (WHERE y)` as `MAX(CASE WHEN y THEN x END)`: NULLs do not count."""
    if isinstance(call, exp.CountIf):
        return exp.Count(this=exp.Case().when(call.this.copy(), exp.Literal.number(1)))
    if not isinstance(call, exp.Filter):
        return call
    condition = call.expression.this
    plain: exp.Expr = _without_filter(call.this.copy(), context)
    if isinstance(plain, exp.WithinGroup):
        raise context.wrong(
            "FILTER is not supported after WITHIN GROUP", call, "write PERCENTILE(x, 0.9) instead"
        )
    argument = plain.this
    if isinstance(argument, exp.Distinct):
        inner = [exp.Case().when(condition.copy(), part.copy()) for part in argument.expressions]
        plain.set("this", exp.Distinct(expressions=inner))
    else:
        star = argument is None or isinstance(argument, exp.Star)
        value = exp.Literal.number(1) if star else argument.copy()
        plain.set("this", exp.Case().when(condition.copy(), value))
    return plain


def _name(call: exp.Expr, context: Context) -> str:
    """What an aggregate is called in a plan: as Spark would call it."""
    del context
    inner = call.this if isinstance(call, exp.Filter | exp.WithinGroup) else call
    argument = inner.this
    word = inner.sql_name().lower() if isinstance(inner, exp.Func) else "aggregate"
    plain = isinstance(argument, exp.Column) and isinstance(argument.this, exp.Identifier)
    return f"{word}_{argument.name}" if plain else word


def _free(name: str) -> str:
    return name.lstrip("_") or "key"


def _first_position(tree: exp.Expr) -> dict[str, int]:
    for node in tree.walk():
        if "start" in node.meta:
            return {key: node.meta[key] for key in ("start", "end")}
    return {}
