"""Aggregates of the Python API: `MAX(price) - MIN(price)`, `COUNT(*) FILTER (WHERE price > 80)`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, final

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.aggregates.call import AggregateCall
from anabranch.aggregates.table import how_to_write
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.language.bind.grouping import bind_call, find_aggregates, is_aggregate, text_of
from anabranch.language.names.catalog import Catalog
from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import Item, Scope, plan_column
from anabranch.language.text.aggregate_text import parse_aggregate, parse_text
from anabranch.language.text.script import Script

Read = TypeVar("Read")

Keys: TypeAlias = tuple[tuple[str, Expression], ...]
Named: TypeAlias = Sequence[tuple[str, str]]
"""Aggregates as they are written, with the names of their columns."""


def plan_aggregates(node: Node, keys: Keys, named: Named, parse: ParseScalar) -> Node:
    """The groups of every snapshot, with aggregates and expressions over them.

    Single aggregates are columns of the aggregation itself. Where there are expressions, the
    aggregation has each aggregate once, and a projection computes the rest.

    Raises:
        QueryError: A text has no aggregate, or is wrong.
    """
    simple = [(name, _single(text, node, parse)) for name, text in named]
    calls = [(name, call) for name, call in simple if call is not None]
    if len(calls) == len(simple):
        return Aggregation(input=node, group_by=keys, aggregates=tuple(calls))
    taken = {name for name, _ in keys}
    made: list[tuple[str, AggregateCall]] = []
    columns = {text_of(plan_column(name)): name for name, key in keys if key.is_column == name}
    trees: list[tuple[str, exp.Expr, Context]] = []
    for name, text in named:
        context, tree = _resolved(text, node, parse)
        trees.append((name, tree, context))
        for call in find_aggregates(tree):
            if text_of(call) not in columns:
                fresh = fresh_name(name, taken | {each for each, _ in made})
                made.append((fresh, bind_call(call, node, context)))
                columns[text_of(call)] = fresh
    groups = Aggregation(input=node, group_by=keys, aggregates=tuple(made))
    results = [
        (name, _over(tree, columns, groups.schema, context)) for name, tree, context in trees
    ]
    kept = [(name, Expression.column(name, groups.schema)) for name, _ in keys]
    return Map(input=groups, columns=(*kept, *results))


@final
@dataclass(frozen=True, slots=True)
class Result:
    """A column of the result: an expression over the columns of calls."""

    name: str
    tree: exp.Expr

    @staticmethod
    def alone(name: str) -> Result:
        """What a call gives, as it is, under its own name."""
        return Result(name, plan_column(name))

    @property
    def is_alone(self) -> bool:
        """Whether it is what a call gives, as it is."""
        return isinstance(self.tree, exp.Column) and self.tree.name == self.name


def calls_in(
    name: str, text: str, read: Callable[[str], Read]
) -> tuple[list[tuple[str, Read]], Result]:
    """The calls in a text, with columns for them, and the result over these columns.

    Raises:
        QueryError: A call is wrong.
    """
    try:
        tree = _parsed(text)
    except QueryError:
        tree = None
    if tree is None or is_aggregate(tree) or next(find_aggregates(tree), None) is None:
        # Who reads it says best what is wrong.
        return [(name, read(text))], Result.alone(name)
    holder = exp.Paren(this=tree)
    found: list[tuple[str, Read]] = []
    for number, call in enumerate(list(find_aggregates(tree)), 1):
        column = f"{name}_{number}"
        found.append((column, read(call.sql(dialect="spark"))))
        call.replace(plan_column(column))
    return found, Result(name, holder.this)


def computed(
    node: Node, called: Collection[str], results: Sequence[Result], parse: ParseScalar
) -> Node:
    """Results over the columns of calls, `called`; all others stay as they are, in front."""
    kept = [(n, Expression.column(n, node.schema)) for n in node.schema.names if n not in called]
    made = [(each.name, parse(each.tree.sql(dialect="spark"), node.schema)) for each in results]
    return Map(input=node, columns=(*kept, *made))


def _single(text: str, node: Node, parse: ParseScalar) -> AggregateCall | None:
    """An aggregate that stands alone; None where the text is more than that."""
    try:
        return parse_aggregate(text, node.schema, parse)
    except QueryError:
        try:
            context, tree = _resolved(text, node, parse)
        except QueryError:
            tree = None
        if tree is None or next(find_aggregates(tree), None) is None:
            raise
        return bind_call(tree, node, context) if is_aggregate(tree) else None


def _resolved(text: str, node: Node, parse: ParseScalar) -> tuple[Context, exp.Expr]:
    script = Script(text)
    context = Context(script=script, catalog=Catalog(), scalar=parse, in_workers=parse)
    scope = Scope((Item(name="", columns=tuple((name, name) for name in node.schema.names)),))
    return context, context.resolve(_parsed(text), scope)


def _parsed(text: str) -> exp.Expr:
    try:
        tree = parse_text(f"SELECT {text}")
    except SqlglotError as problem:
        first = str(problem).split("\n", 1)[0]
        raise QueryError(
            f"cannot read '{text.strip()}'", where=first, hint=how_to_write(text)
        ) from None
    selects = tree.selects if isinstance(tree, exp.Select) else []
    if len(selects) != 1:
        raise QueryError(f"'{text.strip()}' is not one aggregate", hint=how_to_write(text))
    found: exp.Expr = selects[0].unalias()
    for part in found.walk():
        # Positions count from SELECT, which nobody has written.
        part.meta.pop("start", None)
        part.meta.pop("end", None)
    return found


def _over(
    tree: exp.Expr, columns: dict[str, str], schema: pa.Schema, context: Context
) -> Expression:
    """An expression over the columns of the groups."""

    def swap(part: exp.Expr) -> exp.Expr:
        name = columns.get(text_of(part))
        return part if name is None else plan_column(name)

    found = tree.transform(swap)
    for column in found.find_all(exp.Column):
        if column.name not in schema.names:
            raise QueryError(
                f"'{column.name}' is neither grouped by nor in an aggregate",
                where=f"in: {context.script.text}",
                hint=f"group by it as well, or aggregate it: MAX({column.name})",
            )
    return context.bind(found, schema)


def named_aggregate(text: str) -> tuple[str, str]:
    """The name of a column and its aggregate: `MAX(price) AS top`; else it is called as written.

    >>> named_aggregate("MAX(price) AS top"), named_aggregate("MAX(price)")
    (('top', 'MAX(price)'), ('MAX(price)', 'MAX(price)'))
    """
    try:
        tree = parse_text(f"SELECT {text}")
    except (SqlglotError, QueryError):
        return text.strip(), text
    selects = tree.selects if isinstance(tree, exp.Select) else []
    if len(selects) == 1 and isinstance(selects[0], exp.Alias):
        # The text up to AS, as it stands: written anew it might mean something else.
        name = selects[0].alias
        cut = text.rstrip()
        for ending in (f"`{name}`", name):
            if cut.lower().endswith(ending.lower()):
                cut = cut[: len(cut) - len(ending)].rstrip()
                break
        if cut.upper().endswith(" AS"):
            return name, cut[:-3].rstrip()
        return name, selects[0].this.sql(dialect="spark")
    return text.strip(), text
