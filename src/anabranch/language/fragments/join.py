"""Joins and as-of joins of the Python API as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.algebra.join import Join, JoinKind, Side
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.expressions.spark_text import Written
from anabranch.language.bind.as_of import holds_one_instant, latest

LEFT: Final = "__left"
RIGHT: Final = "__right"
"""What the sides of a join are called in conditions over columns of streams."""

_KINDS: Final[dict[str, JoinKind]] = {
    **dict.fromkeys(("inner", "cross"), "inner"),
    **dict.fromkeys(("left", "leftouter"), "left"),
    **dict.fromkeys(("right", "rightouter"), "right"),
    **dict.fromkeys(("full", "outer", "fullouter"), "full"),
    **dict.fromkeys(("semi", "leftsemi"), "semi"),
    **dict.fromkeys(("anti", "leftanti"), "anti"),
}


def join_kind(how: str) -> JoinKind:
    """The kind of a join by any of the names that Spark has for it.

    >>> join_kind("left_outer"), join_kind("leftanti")
    ('left', 'anti')

    Raises:
        PlanError: There is no such kind.
    """
    found = _KINDS.get(str(how).lower().replace("_", ""))
    if found is None:
        raise PlanError(
            f"there is no join of kind {how!r}",
            where="join(how=...)",
            hint="kinds are: inner, left, right, full, semi, anti",
        )
    return found


def plan_join(
    left: Node,
    right: Node,
    on: str | Sequence[str] | None,
    kind: JoinKind,
    *,
    suffix: str,
    broadcast: Side | None,
    parse: ParseScalar = Expression.parse,
    aliases: tuple[str | None, str | None] = (None, None),
) -> Node:
    """A join on a condition, or on columns that both sides have.

    `aliases` are the names of the sides, by which columns in the condition can be qualified.

    Raises:
        PlanError: A column is not on both sides, or names clash.
        QueryError: The condition is wrong.
    """
    shared = _shared(left, right, on)
    taken = {name: name for name in right.schema.names}
    for name in right.schema.names:
        if name in left.schema.names:
            taken[name] = f"{name}{suffix}"
            if taken[name] in (*left.schema.names, *right.schema.names):
                raise PlanError(
                    f"both sides have a column '{name}', and '{taken[name]}' is already taken",
                    where=f"join on {on!r}",
                    hint="choose another suffix, or rename a column with select",
                )
    renamed = right
    if any(name != other for name, other in taken.items()):
        columns = [(new, Expression.column(name, right.schema)) for name, new in taken.items()]
        renamed = Map(input=right, columns=tuple(columns))
    both = pa.schema([*left.schema, *renamed.schema])
    text: str | None = on if isinstance(on, str) else None
    if shared:
        text = " AND ".join(f"{_quoted(name)} = {_quoted(taken[name])}" for name in shared)
    elif text is not None:
        text = _unqualified(text, aliases, left.schema.names, taken)
    predicate = None if text is None else parse(text, both)
    join = Join(kind=kind, left=left, right=renamed, predicate=predicate, broadcast=broadcast)
    if not shared or kind in ("semi", "anti"):
        return join
    return _once(join, {name: taken[name] for name in shared})


def _unqualified(
    text: str,
    aliases: tuple[str | None, str | None],
    left: Sequence[str],
    right: Mapping[str, str],
) -> str:
    """A condition with `b.item` as the column that it is of both sides together."""
    one = {LEFT, (aliases[0] or LEFT).lower()}
    other = {RIGHT, (aliases[1] or RIGHT).lower()}
    try:
        tree = sqlglot.parse_one(text, dialect=Written)
    except SqlglotError:
        # Who reads the condition says best what is wrong.
        return text
    changed = False

    def swap(part: exp.Expr) -> exp.Expr:
        nonlocal changed
        if not isinstance(part, exp.Column):
            return part
        owner = str(part.table).lower()
        if owner not in one | other:
            return part
        changed = True
        if owner in one and part.name in left:
            return exp.column(part.name, quoted=True)
        if owner in other and part.name in right:
            return exp.column(right[part.name], quoted=True)
        columns = left if owner in one else list(right)
        raise PlanError(
            f"'{part.table}' has no column '{part.name}'",
            where=f"join on {text!r}",
            hint=f"its columns are: {', '.join(columns)}",
        )

    swapped = tree.transform(swap)
    return swapped.sql(dialect=Written) if changed else text


def plan_asof_join(
    left: Node,
    right: Node,
    on: str | Sequence[str],
    kind: JoinKind,
    *,
    strict: bool,
    suffix: str,
    parse: ParseScalar = Expression.parse,
) -> Node:
    """A join of points with the latest of other points, by columns that both sides have.

    Raises:
        PlanError: A side has rows that are no points, or lacks a column; or the kind is another.
    """
    names = [on] if isinstance(on, str) else list(on)
    _shared(left, right, names)
    if kind not in ("inner", "left"):
        raise PlanError(f"there is no asof_join of kind '{kind}'", hint="kinds are: inner, left")
    for side, node in (("left", left), ("right", right)):
        if not holds_one_instant(node):
            raise PlanError(
                f"rows on the {side} side of asof_join hold for longer than an instant",
                where=node.label,
                hint="join before the window; for rows with lifetimes use join",
            )
    keys = [(name, Expression.column(name, right.schema)) for name in names]
    held = latest(right, keys, strict=strict)
    return plan_join(left, held, names or None, kind, suffix=suffix, broadcast=None, parse=parse)


def _shared(left: Node, right: Node, on: str | Sequence[str] | None) -> list[str]:
    """The columns that must be equal; none where a condition is given."""
    if on is None:
        return []
    if isinstance(on, str):
        both = on in left.schema.names and on in right.schema.names
        return [on] if both else []
    for name in on:
        for side, node in (("left", left), ("right", right)):
            if name not in node.schema.names:
                raise PlanError(
                    f"the {side} side of the join has no column '{name}'",
                    hint=f"its columns are: {', '.join(node.schema.names)}",
                )
    return list(on)


def _once(join: Join, shared: dict[str, str]) -> Map:
    """Columns that are equal on both sides, once: from the side that always has them."""

    def take(name: str) -> Expression:
        if name not in shared or join.kind in ("inner", "left"):
            return Expression.column(name, join.schema)
        if join.kind == "right":
            return Expression.column(shared[name], join.schema)
        text = f"coalesce({_quoted(name)}, {_quoted(shared[name])})"
        return Expression.parse(text, join.schema)

    names = [name for name in join.schema.names if name not in shared.values()]
    return Map(input=join, columns=tuple((name, take(name)) for name in names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
