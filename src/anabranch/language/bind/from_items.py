"""The streams in FROM, and how they are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.language.bind.as_of import bind_versions, holds_one_instant, read_as_of, time_columns
from anabranch.language.bind.broadcast_hints import Broadcast, broadcast_names, refuse_unused
from anabranch.language.bind.conditions import conjuncts, has_outer
from anabranch.language.bind.known import bind_known, refuse_known
from anabranch.language.bind.merges import bind_merge
from anabranch.language.bind.operator_items import bind_operator_item
from anabranch.language.bind.stream_functions import bind_stream_function
from anabranch.language.bind.windows import bind_axis, bind_granularity, bind_window
from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import Item, Scope, plan_column
from anabranch.language.text.stream_dialect import STREAM_FUNCTIONS
from anabranch.language.text.window_text import MergeText, OperatorText, StreamFunctionText

BindQuery: TypeAlias = Callable[[exp.Query, Context], Node]

_KINDS: Final[Mapping[tuple[str, str], JoinKind]] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("", "ANTI"): "anti",
}


@final
@dataclass(frozen=True, slots=True)
class Block:
    """What FROM gives: a plan, and what names mean over it."""

    node: Node
    scope: Scope


def bind_from(select: exp.Select, context: Context, bind: BindQuery, outer: Scope | None) -> Block:
    """The product or join of everything in FROM."""
    source = select.args.get("from_")
    if source is None:
        raise context.wrong(
            "a query must read at least one stream",
            select if select.expressions else None,
            "write SELECT columns FROM and the name of a stream",
        )
    broadcast = broadcast_names(select, context)
    node, item = bind_item(source.this, context, bind)
    block = Block(node, Scope((item,), {}, outer))
    for join in [*(source.this.args.get("joins") or ()), *(select.args.get("joins") or ())]:
        block = _join(block, join, context, bind, broadcast)
    refuse_unused(broadcast, block.scope, context)
    return block


def bind_item(table: exp.Expr, context: Context, bind: BindQuery) -> tuple[Node, Item]:
    """One entry of FROM: a name or a query, with its window and its alias."""
    alias = table.args.get("alias")
    own, hidden = "", tuple[str, ...]()
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse_known(table, context)
    match table:
        case exp.Table(meta={"merge": MergeText() as merged}):
            node = bind_merge(merged, context, lambda each: bind_item(each, context, bind))
        case exp.Table(meta={"module": OperatorText() as operator}):
            node = bind_operator_item(
                operator, context, lambda each: bind_item(each, context, bind)
            )
        case exp.Subquery() if any(table.args.get(key) for key in ("with_", "order", "limit")):
            node = bind(table, context)
        case exp.Subquery(this=exp.Table() | exp.Subquery() as inner):
            if inner.args.get("joins"):
                raise context.wrong(
                    "a join in parentheses is not supported",
                    inner,
                    "leave them out, or write (SELECT ... FROM a JOIN b ON ...)",
                )
            node, _ = bind_item(inner, context, bind)
        case exp.Subquery():
            node = bind(table.this, context)
        case exp.Table(this=exp.Identifier()) if not table.args.get("db"):
            node, own, hidden = _named(table, context)
        case exp.Table(meta={"stream_function": StreamFunctionText() as function}):
            node, of = bind_stream_function(
                function, context, lambda each: bind_item(each, context, bind)
            )
            own, hidden = of.own, of.hidden
        case exp.Table(this=exp.Func()):
            raise context.wrong(
                f"there is no function '{context.script.written(table).split('(')[0]}' that FROM "
                f"accepts",
                table,
                f"FROM accepts MERGE, TUMBLE, HOP, SESSION, {', '.join(STREAM_FUNCTIONS)}",
            )
        case exp.Table(this=exp.Identifier()):
            name = ".".join(part.name for part in table.parts)
            raise context.wrong(f"unknown stream '{name}'", table, context.catalog.nearest(name))
        case _:
            raise context.wrong(
                f"{table.key.upper()} is not allowed in FROM",
                table,
                "FROM accepts streams, relations and queries in parentheses",
            )
    name = str(alias.name) if alias is not None and alias.name else own
    if alias is not None and alias.args.get("columns"):
        node = _rename(node, [column.name for column in alias.columns], table, context)
    below = () if hidden else _inner_hidden(node, context)
    item = Item(name=name, own=own, hidden=hidden, inner_hidden=below, columns=_same(node))
    if "axis" in table.meta:
        node = bind_axis(table.meta["axis"], node, item, context)
        item = replace(item, columns=_same(node))
    if "window" in table.meta:
        node = bind_window(table.meta["window"], node, item, context)
    if "granularity" in table.meta:
        node = bind_granularity(table.meta["granularity"], node, context)
    return node, replace(item, times=_times(node, table, hidden, context))


def _inner_hidden(node: Node, context: Context) -> tuple[tuple[str, str], ...]:
    """The columns that order the streams of a query and are not among theirs, and whose."""
    read = {each.name for each in node.walk() if isinstance(each, Source)}
    entries = [each for each in context.catalog.entries.values() if each.name in read]
    return tuple((column, each.name) for each in entries for column in each.hidden)


def _times(
    node: Node, table: exp.Expr, hidden: tuple[str, ...], context: Context
) -> tuple[str, ...]:
    """The columns that are the time of the rows, the hidden one first."""
    if not holds_one_instant(node):
        return ()
    entries = context.catalog.entries
    kept = {
        each.name: each.time
        for each in entries.values()
        if each.time is not None and each.time in each.node.schema.names
    }
    # What was known has the columns of what is known.
    kept |= {name: kept[leaf.entry] for name, leaf in context.known.items() if leaf.entry in kept}
    entry = entries.get(str(table.name).lower()) if isinstance(table, exp.Table) else None
    first = [entry.time] if entry is not None and entry.time in hidden and entry.time else []
    return (*first, *sorted(time_columns(node, kept)))


def _named(table: exp.Expr, context: Context) -> tuple[Node, str, tuple[str, ...]]:
    name = str(table.name)
    entry = context.named.get(name.lower()) or context.catalog.entries.get(name.lower())
    if entry is None:
        hint = context.catalog.nearest(name)
        raise context.wrong(f"unknown stream '{name}'", table.this, hint)
    if name.lower() in context.named:
        refuse_known(table, context)
        return entry.node, entry.name, entry.hidden
    context.used.add(entry.name)
    if "known" in table.meta:
        return bind_known(table.meta["known"], entry, context), entry.name, entry.hidden
    return entry.node, entry.name, entry.hidden


def _same(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in node.schema.names)


def _rename(node: Node, names: list[str], table: exp.Expr, context: Context) -> Node:
    if len(names) != len(node.schema):
        raise context.wrong(
            f"the alias names {len(names)} columns, but there are {len(node.schema)}",
            table,
            f"columns are: {', '.join(node.schema.names)}",
        )
    columns = [
        (new, Expression.column(old, node.schema)) for new, old in zip(names, node.schema.names)
    ]
    return context.build(table, lambda: Map(input=node, columns=tuple(columns)))


def _join(
    left: Block, join: exp.Join, context: Context, bind: BindQuery, broadcast: Broadcast
) -> Block:
    side, word = (join.side or "").upper(), (join.kind or "").upper()
    method = str(join.method or "").upper()
    if method not in ("", "NATURAL", "ASOF"):
        raise context.wrong(f"{method} JOIN is not supported", join, "write JOIN ... ON")
    if method == "NATURAL" and (join.args.get("on") or join.args.get("using")):
        raise context.wrong(
            "a NATURAL JOIN has no condition", join, "remove either NATURAL or the condition"
        )
    kind = _KINDS.get((side, word))
    if kind is None:
        written = f"{side} {word}".strip()
        raise context.wrong(
            f"{written} JOIN is not supported",
            join,
            "joins are INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI and LEFT ANTI",
        )
    node, item = bind_item(join.this, context, bind)
    names = [each.name.lower() for each in left.scope.items if each.name]
    if item.name and item.name.lower() in names:
        raise context.wrong(
            f"'{item.name}' appears twice in FROM",
            join.this,
            f"give one of them an alias: {item.name} AS other",
        )
    small = broadcast.side(left.scope.items, item)
    as_of = read_as_of(join, left.scope.items, item, left.node, context)
    node, item = _apart(node, item, left.node.schema)
    if as_of is not None:
        # What is joined is a version: its time is not that of the row.
        item = replace(item, times=())
    scope = Scope((*left.scope.items, item), left.scope.shared, left.scope.outer)
    given = list(join.args.get("using") or ())
    given = given[:-1] if as_of is not None and as_of.only_equations else given
    using = _using(left, item, given, join, context)
    condition = join.args.get("on")
    if as_of is not None and condition is not None:
        condition = exp.and_(*as_of.conditions) if as_of.conditions else None
    if condition is not None and condition.find(exp.Query):
        raise context.wrong(
            "a nested query is not allowed in ON", condition, "move the condition to WHERE"
        )
    both = pa.schema([*left.node.schema, *node.schema])
    predicate: Expression | None = None
    parts: list[exp.Expr] = []
    if using:
        parts = [
            exp.EQ(this=plan_column(one), expression=plan_column(other))
            for one, other in using.values()
        ]
        predicate = context.bind(exp.and_(*parts), both, join)
    elif condition is not None:
        resolved = context.resolve(condition, scope)
        if has_outer(resolved):
            raise context.wrong(
                "ON cannot refer to a column of the outer query",
                condition,
                "use it in WHERE of the nested query: inner.column = outer.column",
            )
        predicate = context.bind(resolved, both, condition)
        parts = conjuncts(resolved)
    right = node
    if as_of is not None:
        right = bind_versions(as_of, parts, left.node, node, join, context)
    joined = context.build(
        condition if condition is not None else join,
        lambda: Join(kind=kind, left=left.node, right=right, predicate=predicate, broadcast=small),
    )
    if kind in ("semi", "anti"):
        return Block(joined, left.scope)
    return _share(joined, scope, using, kind, context)


def _using(
    left: Block, item: Item, given: list[exp.Expr], join: exp.Join, context: Context
) -> dict[str, tuple[str, str]]:
    """The columns of USING, which are given, or NATURAL, on both sides."""
    names = [str(part.name) for part in given]
    natural = str(join.method or "").upper() == "NATURAL"
    if natural:
        seen = {name.lower() for each in left.scope.items for name, _ in each.columns}
        names = [name for name, _ in item.columns if name.lower() in seen]
    found: dict[str, tuple[str, str]] = {}
    for position, name in enumerate(names):
        at = given[position] if given else join
        mine = left.scope.shared.get(name.lower())
        owners = [plan for each in left.scope.items for plan in each.find(name)]
        theirs = item.find(name)
        if not (mine or len(owners) == 1) or len(theirs) != 1:
            raise context.wrong(
                f"'{name}' is not exactly one column of each side",
                at,
                "write the condition with ON",
            )
        found[name.lower()] = (mine or owners[0], theirs[0])
    return found


def _share(
    joined: Node,
    scope: Scope,
    using: Mapping[str, tuple[str, str]],
    kind: JoinKind,
    context: Context,
) -> Block:
    """Columns of USING stand for both sides: for the one that has a value."""
    if not using:
        return Block(joined, scope)
    shared = dict(scope.shared)
    added: list[tuple[str, Expression]] = []
    for name, (mine, theirs) in using.items():
        if kind != "full":
            shared[name] = theirs if kind == "right" else mine
            continue
        fresh = fresh_name(name, {*joined.schema.names, *(item for item, _ in added)})
        value = exp.func("COALESCE", plan_column(mine), plan_column(theirs))
        added.append((fresh, context.bind(value, joined.schema)))
        shared[name] = fresh
    if added:
        kept = [(name, Expression.column(name, joined.schema)) for name in joined.schema.names]
        joined = Map(input=joined, columns=(*kept, *added))
    return Block(joined, Scope(scope.items, shared, scope.outer))


def _apart(node: Node, item: Item, taken: pa.Schema) -> tuple[Node, Item]:
    """The right side with names that the left one does not have."""
    used = {name.lower() for name in taken.names}
    if not any(plan.lower() in used for _, plan in item.columns):
        return node, item
    used |= {plan.lower() for _, plan in item.columns}
    columns: list[tuple[str, str]] = []
    for seen, plan in item.columns:
        new = plan
        if plan.lower() in {name.lower() for name in taken.names}:
            new = fresh_name(f"{item.name}_{plan}" if item.name else plan, used)
            used.add(new.lower())
        columns.append((seen, new))
    renamed = [
        (new, Expression.column(plan, node.schema))
        for (_, new), (_, plan) in zip(columns, item.columns)
    ]
    return Map(input=node, columns=tuple(renamed)), replace(item, columns=tuple(columns))
