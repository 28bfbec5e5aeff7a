"""Drawn conditions with nested queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from anabranch.testing.sql.scope import DrawnScope, Scalars
from anabranch.testing.sql.text import Kind, Part, Query, text


@final
@dataclass(slots=True)
class Nested:
    """Draws conditions that ask another query; `select` draws that one."""

    scalars: Scalars
    select: Callable[..., Query]
    depth: int

    def condition(self, scope: DrawnScope) -> Part:
        """A condition that stands beside others, joined by AND."""
        pick = self.scalars.pick
        linked = self.scalars.chance(2)
        link = "any" if linked else "none"
        ways = ["exists", "in", "not in", "scalar", "all", "any", "inside", "rows"]
        match pick(ways):
            case "exists":
                word = pick(["EXISTS", "NOT EXISTS"])
                return text(f"{word} ({{}})", self._query(scope, None, link))
            case "in" | "not in" as word:
                kind: Kind = pick(["int", "text"])
                value = self.scalars.value(kind, scope)
                if word == "not in" and self.scalars.chance(3):
                    return text("NOT ({} IN ({}))", value, self._query(scope, kind, link))
                return text(f"{{}} {word.upper()} ({{}})", value, self._query(scope, kind, link))
            case "all" | "any" as word:
                kind = pick(["int", "text", "float"])
                value, sign = self.scalars.value(kind, scope), self.scalars.sign()
                query = self._query(scope, kind, link)
                shape = f"{{}} {sign} {word.upper()} ({{}})"
                if self.scalars.chance(4):
                    shape = f"NOT ({shape})"
                return text(shape, value, query)
            case "inside":
                return self._inside(scope)
            case "rows":
                kinds: list[Kind] = ["int", "text"]
                values = [self.scalars.value(each, scope) for each in kinds]
                query = self.select(self.depth, kinds=kinds, around=scope, link=link)
                word = pick(["IN", "NOT IN"])
                return text(f"({{}}, {{}}) {word} ({{}})", *values, query)
        kind = pick(["int", "float", "text"])
        sides = [self.scalars.value(kind, scope), self.scalar(scope, kind)]
        if self.scalars.chance(3):
            sides.reverse()
        shape = f"{{}} {self.scalars.sign()} {{}}"
        return text(f"NOT {shape}" if self.scalars.chance(5) else shape, *sides)

    def _inside(self, scope: DrawnScope) -> Part:
        """A nested query within OR or CASE."""
        link = "equation" if self.scalars.chance(2) else "none"
        kind: Kind = self.scalars.pick(["int", "text"])
        match self.scalars.pick(["exists", "in", "scalar"]):
            case "exists":
                word = self.scalars.pick(["EXISTS", "NOT EXISTS"])
                part = text(f"{word} ({{}})", self._query(scope, None, link))
            case "in":
                value = self.scalars.value(kind, scope)
                part = text("{} IN ({})", value, self._query(scope, kind, link))
            case _:
                one = self.scalars.value(kind, scope)
                part = text(f"{{}} {self.scalars.sign()} {{}}", one, self.scalar(scope, kind))
        other = self.scalars.condition(scope)
        match self.scalars.pick(["or", "case"]):
            case "or":
                return text("({} OR {})", part, other)
        return text("CASE WHEN {} THEN {} ELSE {} END", part, other, self.scalars.condition(scope))

    def scalar(self, scope: DrawnScope, kind: Kind) -> Part:
        """A nested query in place of a value."""
        link = "equation" if self.scalars.chance(2) else "none"
        inner = self.select(self.depth, kinds=[kind], around=scope, link=link, single=True)
        return text("({})", inner)

    def _query(self, scope: DrawnScope, kind: Kind | None, link: str) -> Query:
        kinds = None if kind is None else [kind]
        return self.select(self.depth, kinds=kinds, around=scope, link=link)
