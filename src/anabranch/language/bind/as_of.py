"""`ASOF JOIN` and `FOR SYSTEM_TIME AS OF`: rows meet the version that is valid at their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from sqlglot import exp

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.language.bind.conditions import conjuncts
from anabranch.language.names.context import Context
from anabranch.language.names.scope import Item

_LOOKS_BACK: Final[Mapping[type[exp.Expr], bool]] = {exp.GTE: False, exp.GT: True}
_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.GTE: exp.LTE,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.LT: exp.GT,
}


@final
@dataclass(frozen=True, slots=True)
class AsOf:
    """What the right side of a join is as of the time of the left one.

    Attributes:
        strict: Versions count only after the instant of their start.
        conditions: The rest of ON: what is left without the comparison of times.
        only_equations: Whether that must be equations: it is an ASOF JOIN, where USING ends with
            the column of time.
    """

    strict: bool
    conditions: tuple[exp.Expr, ...]
    only_equations: bool


def read_as_of(
    join: exp.Join, left: Sequence[Item], right: Item, mine: Node, context: Context
) -> AsOf | None:
    """What a join says about time; None: nothing.

    Raises:
        QueryError: It is no time of the left side, or is not looked back to.
    """
    version = join.this.args.get("version")
    asof = str(join.method or "").upper() == "ASOF"
    if version is None and not asof:
        return None
    at = version if version is not None else join
    word = "ASOF JOIN" if asof else "FOR SYSTEM_TIME AS OF"
    if version is not None and asof:
        raise context.wrong(
            "the time is given twice", version, "remove either ASOF or FOR SYSTEM_TIME"
        )
    if (str(join.side or "").upper(), str(join.kind or "").upper()) not in (
        ("", ""),
        ("", "INNER"),
        ("LEFT", ""),
        ("LEFT", "OUTER"),
    ):
        raise context.wrong(
            f"{word} is allowed only in a JOIN or LEFT JOIN", join, "put the rows on the left side"
        )
    if not holds_one_instant(mine):
        raise context.wrong(
            f"the rows on the left of {word} must hold for one instant",
            at,
            "put the window on the result: SELECT ... FROM (SELECT ... ASOF JOIN ...) WINDOW(...)",
        )
    on = join.args.get("on")
    parts = conjuncts(on) if on is not None else []
    if version is not None:
        _check_version(version, left, context)
        return AsOf(False, tuple(parts), only_equations=False)
    return _read_asof(join, parts, left, right, context)


def _check_version(version: exp.Expr, left: Sequence[Item], context: Context) -> None:
    time = version.args.get("expression")
    if str(version.this).upper() != "TIMESTAMP" or version.args.get("kind") != "AS OF":
        raise context.wrong(
            "streams have times, and no version numbers",
            version,
            "write FOR SYSTEM_TIME AS OF o.at",
        )
    if time is None or not _is_time(time.unnest(), left):
        raise context.wrong(
            "AS OF must name the time of the rows on the left",
            version,
            f"write FOR SYSTEM_TIME AS OF {_some_time(left)}; a result can be read at a fixed "
            "time: anabranch show --at",
        )


def _read_asof(
    join: exp.Join, parts: list[exp.Expr], left: Sequence[Item], right: Item, context: Context
) -> AsOf:
    if not right.times:
        raise context.wrong(
            "ASOF JOIN needs a stream whose rows hold for one instant, with a visible time column",
            join.this,
            "leave its window out; a nested query selects the time column, which the stream "
            "keeps with ORDERED BY at KEEP",
        )
    shape = f"{_some_time(left)} >= {_some_time([right])}"
    using = list(join.args.get("using") or ())
    if using:
        # As DuckDB has it: the last column is the time.
        last = using[-1]
        if not (_named(last, left) and _named(last, [right])):
            raise context.wrong(
                "the last column of USING must be the time column of both sides",
                last,
                f"write ON ... AND {shape}",
            )
        return AsOf(False, (), only_equations=True)
    found: list[tuple[exp.Expr, bool]] = []
    rest: list[exp.Expr] = []
    for part in parts:
        kind, first, second = type(part.unnest()), part.unnest().this, part.unnest().expression
        if kind in _MIRRORED:
            if _is_time(second, left) and _is_time(first, [right]):
                kind, first, second = _MIRRORED[kind], second, first
            if _is_time(first, left) and _is_time(second, [right]):
                if kind not in _LOOKS_BACK:
                    raise context.wrong(
                        "ASOF JOIN looks back in time, not ahead",
                        part,
                        f"write {shape}; to find the next row, swap the sides",
                    )
                found.append((part, _LOOKS_BACK[kind]))
                continue
        rest.append(part)
    if len(found) != 1:
        what = "does not compare times" if not found else "compares times twice"
        raise context.wrong(
            f"ASOF JOIN {what}",
            found[1][0] if found else join,
            f"write ON ... AND {shape}, with the columns that order the streams",
        )
    return AsOf(found[0][1], tuple(rest), only_equations=True)


def bind_versions(
    as_of: AsOf,
    conditions: Sequence[exp.Expr],
    mine: Node,
    theirs: Node,
    join: exp.Join,
    context: Context,
) -> Node:
    """The right side with every row held until the next one of its key.

    `conditions` are those of ON in terms of the plan; their equations say what the key is. Rows
    that hold for longer than an instant say themselves how long they are valid.
    """
    keys: list[tuple[str, Expression]] = []
    for part in conditions:
        key = _key(part, mine, theirs)
        if key is not None:
            bound = context.bind(key, theirs.schema)
            keys.append((bound.is_column or bound.sql, bound))
        elif as_of.only_equations:
            raise context.wrong(
                "ASOF JOIN takes equations and one comparison of times",
                part,
                "filter rows before the join, in a nested query, or after it, in WHERE",
            )
    if not holds_one_instant(theirs):
        return theirs
    if not keys and not as_of.only_equations:
        raise context.wrong(
            "ASOF JOIN needs an equation between the keys of both sides",
            join.args.get("on") or join,
            "write ON o.key = r.key",
        )
    return context.build(join, lambda: latest(theirs, keys, strict=as_of.strict))


def latest(node: Node, keys: Sequence[tuple[str, Expression]], *, strict: bool = False) -> Node:
    """The latest row of every key, from its instant on until there is another one.

    Of several at one instant the largest counts, compared column by column from the left: the
    order by a constant makes that the order. `strict`: from the next instant on.
    """
    by = {key.sql: (name, key) for name, key in keys}
    held = CountWindow(
        input=node,
        rows=1,
        partition_by=tuple(by.values()),
        order_by=(Expression.parse("0", node.schema),),
    )
    return Shift(input=held, by=1) if strict else held


def holds_one_instant(node: Node) -> bool:
    """Whether rows are points, or points with a partner or NULLs beside them."""
    if node.properties.only_points:
        return True
    match node:
        case Map(input=inner) | Filter(input=inner) | Distinct(input=inner):
            return holds_one_instant(inner)
        case Join(kind="left" | "semi" | "anti", left=inner):
            return holds_one_instant(inner)
    return False


def time_columns(node: Node, kept: Mapping[str, str]) -> frozenset[str]:
    """The columns that are the start of their rows; `kept` has those of sources by name."""
    match node:
        case Source(name=name):
            return frozenset({kept[name]} if name in kept and node.only_points else ())
        case Filter(input=inner) | Distinct(input=inner):
            return time_columns(inner, kept)
        case Map(input=inner, columns=columns):
            below = time_columns(inner, kept)
            return frozenset(name for name, value in columns if value.is_column in below)
        case Join(left=left, right=right, kind="inner"):
            return time_columns(left, kept) | time_columns(right, kept)
        case Join(left=left, kind="left" | "semi" | "anti"):
            return time_columns(left, kept)
    return frozenset()


def _key(part: exp.Expr, mine: Node, theirs: Node) -> exp.Expr | None:
    """The right side of an equation between both sides."""
    tree = part.unnest()
    if not isinstance(tree, exp.EQ):
        return None
    for one, other in ((tree.left, tree.right), (tree.right, tree.left)):
        here = {column.name for column in one.find_all(exp.Column)}
        there = {column.name for column in other.find_all(exp.Column)}
        if here and there and here <= set(mine.schema.names) and there <= set(theirs.schema.names):
            return other
    return None


def _is_time(tree: exp.Expr, items: Sequence[Item]) -> bool:
    """Whether a column is the time of an entry of FROM."""
    if not isinstance(tree, exp.Column):
        return False
    owner = tree.table.lower()
    fitting = [
        item for item in items if not owner or owner in (item.name.lower(), item.own.lower())
    ]
    return _named(tree.this, fitting)


def _named(name: exp.Expr, items: Sequence[Item]) -> bool:
    return any(name.name.lower() == time.lower() for item in items for time in item.times)


def _some_time(items: Sequence[Item]) -> str:
    """The time of some entry of FROM, as it can be written."""
    for item in items:
        if item.times:
            return f"{item.name}.{item.times[0]}" if item.name else item.times[0]
    name = next((item.name for item in items if item.name), "stream")
    return f"{name}.at"
