"""`SELECT /*+ BROADCAST(name) */`: which side of a join is sent to every shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from sqlglot import exp

from anabranch.algebra.join import Side
from anabranch.language.names.context import Context
from anabranch.language.names.scope import Item, Scope
from anabranch.language.text.script import Span

_WORDS: Final = ("BROADCAST", "BROADCASTJOIN", "MAPJOIN")
_HINT: Final = "write SELECT /*+ BROADCAST(name) */ with the name or alias of a stream in FROM"


@final
@dataclass(frozen=True, slots=True)
class Broadcast:
    """The names in a hint, in small letters, and where they stand; `used` ones chose a side."""

    names: Mapping[str, exp.Expr]
    used: set[str] = field(default_factory=set)

    def side(self, left: Sequence[Item], right: Item) -> Side | None:
        """The side of a join that the hint names; the left one only if it is a single stream."""
        candidates: list[tuple[Side, Sequence[Item]]] = [("right", [right])]
        if len(left) == 1:
            candidates.append(("left", left))
        for side, items in candidates:
            (item,) = items
            found = {item.name.lower(), item.own.lower()} & set(self.names)
            if found:
                self.used.update(found)
                return side
        return None


def broadcast_names(select: exp.Select, context: Context) -> Broadcast:
    """The streams that the hint of a query names.

    Raises:
        QueryError: There is another hint, or one without names.
    """
    hint = select.args.get("hint")
    found: dict[str, exp.Expr] = {}
    for part in hint.expressions if hint is not None else ():
        named = not isinstance(part, exp.Func) or isinstance(part, exp.Anonymous)
        word = str(part.name if named else part.sql_name()).upper()
        if word not in _WORDS:
            raise context.wrong(f"there is no hint {word}", _span(context), _HINT)
        if not part.expressions:
            raise context.wrong(f"the hint {word} names no stream", _span(context), _HINT)
        found |= {str(each.name).lower(): each for each in part.expressions}
    return Broadcast(found)


def _span(context: Context) -> Span | None:
    """Where the first hint stands: what is in it counts its places from its own beginning."""
    start = context.script.text.find("/*+")
    end = context.script.text.find("*/", start)
    return (start, end + 2) if start >= 0 and end >= 0 else None


def refuse_unused(broadcast: Broadcast, scope: Scope, context: Context) -> None:
    """Refuse names that chose no side of any join.

    Raises:
        QueryError: A name is no stream in FROM, or is on no side of a join by itself.
    """
    for name, at in broadcast.names.items():
        if name in broadcast.used:
            continue
        names = ", ".join(item.name for item in scope.items if item.name)
        raise context.wrong(
            f"the hint BROADCAST({at.name}) matches no join of this query",
            _span(context),
            f"name the right side of a join, or the first stream: {names}",
        )
