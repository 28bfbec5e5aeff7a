"""Drawn queries with GROUP BY and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from anabranch.testing.sql.from_clause import Clause, Sources
from anabranch.testing.sql.nested import Nested
from anabranch.testing.sql.scope import DrawnScope, Scalars, Visible
from anabranch.testing.sql.text import DrawnColumn, Either, Kind, Part, Query, Text, joined, text

_ROUGH: Final = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VARIANCE")


@final
@dataclass(slots=True)
class GroupDrawer:
    """Draws SELECT, GROUP BY and HAVING over a FROM clause."""

    scalars: Scalars
    sources: Sources
    scope: DrawnScope
    nested: Nested | None
    final: bool

    def query(
        self,
        clause: Clause,
        where: Part,
        kinds: Sequence[Kind] | None,
        *,
        linked: bool,
        single: bool,
    ) -> Query:
        """The groups of a FROM clause, summed up."""
        pick, chance = self.scalars.pick, self.scalars.chance
        drawn = [] if single else [self._key() for _ in range(pick([1, 1, 2, 0]))]
        keys = [(part, kind) for part, kind, _ in drawn]
        scope = DrawnScope(tuple(column for _, _, column in drawn if column is not None))
        items: list[tuple[Part, Kind]] = []
        written: list[Part] = []
        for part, kind in keys:
            wanted = kinds is None or (len(items) < len(kinds) and kinds[len(items)] == kind)
            if wanted and not chance(5):
                items.append((part, kind))
            else:
                written.append(part)
        shown = len(items)
        missing = kinds[shown:] if kinds is not None else [None] * pick([1, 1, 2])
        items += [self._summed(kind) for kind in missing]
        if self.nested is not None and kinds is None and not linked and chance(8):
            items.append((self.nested.scalar(scope, "int"), "int"))
        names = [self.sources.fresh("c") for _ in items]
        for index in range(shown):
            part = items[index][0]
            way = pick(["text", "place", "alias"])
            shorter = {"text": part, "place": str(index + 1), "alias": names[index]}[way]
            written.append(Either(shorter, part))
        columns = tuple(DrawnColumn(name, kind) for name, (_, kind) in zip(names, items))
        listed = joined(", ", [text(f"{{}} AS {n}", part) for n, (part, _) in zip(names, items)])
        group: Part = text(" GROUP BY {}", joined(", ", written)) if written else ""
        having = self._having(keys, scope, linked)
        # Over nothing plain SQL gives a row, and we do not.
        plain = having if keys else text("{}{}COUNT(*) > 0", having, " AND " if having else "")
        both = Either(
            text(" HAVING {}", having) if having else "",
            text(" HAVING {}", plain) if plain else "",
        )
        distinct = "DISTINCT " if not single and chance(10) else ""
        shape = f"SELECT {distinct}{{}} FROM {{}}{{}}{{}}{{}}"
        body = text(shape, listed, clause.text, where, group, both)
        if not linked and not single and not distinct and chance(8):
            first = self._first(body, keys)
            return Query(first, columns, False, clause.endless, clause.granules, bare=False)
        return Query(body, columns, False, clause.endless, clause.granules)

    def _first(self, body: Part, keys: list[tuple[Part, Kind]]) -> Text:
        """The first groups by an aggregate; the keys decide ties."""
        call, _ = self._aggregate("int")
        order: list[Part] = [Either(text("{} DESC", call), text("{} DESC NULLS LAST", call))]
        order += [Either(key, text("{} ASC NULLS FIRST", key)) for key, _ in keys]
        shape = f"{{}} ORDER BY {{}} LIMIT {self.scalars.pick([1, 2])}"
        return text(shape, body, joined(", ", order))

    def _key(self) -> tuple[Part, Kind, Visible | None]:
        usable = [column for column in self.scope.columns if column.kind != "bool"]
        if usable and not self.scalars.chance(4):
            column = self.scalars.pick(usable)
            return self.scalars.column(column), column.kind, column
        kind: Kind = self.scalars.pick(["int", "text"])
        value = self.scalars.value(kind, self.scope)
        return text("COALESCE({}, {})", value, _ELSE[kind]), kind, None

    def _summed(self, wanted: Kind | None) -> tuple[Part, Kind]:
        """An aggregate, or something made of some."""
        if wanted is None and self.final and self.scalars.chance(6):
            word = self.scalars.pick(_ROUGH)
            argument = self.scalars.value(self.scalars.pick(["float", "int"]), self.scope)
            return text(f"{word}({{}})", argument), "float"
        kinds: list[Kind] = ["int", "float", "text", "int", "bool"]
        kind: Kind = self.scalars.pick(kinds) if wanted is None else wanted
        if kind == "bool":
            one, other = self._aggregate("int")[0], self._aggregate("int")[0]
            return text(f"{{}} {self.scalars.sign()} {{}}", one, other), kind
        call, kind = self._aggregate(kind)
        if kind == "int" and self.scalars.chance(6):
            return text("({} + {})", call, self._aggregate("int")[0]), kind
        if self.scalars.chance(8):
            return text("COALESCE({}, {})", call, _ELSE[kind]), kind
        return call, kind

    def _aggregate(self, kind: Kind) -> tuple[Part, Kind]:
        pick, value = self.scalars.pick, self.scalars.value
        suffix: Part = ""
        if self.scalars.chance(6):
            suffix = text(" FILTER (WHERE {})", self.scalars.condition(self.scope))
        match kind:
            case "text":
                ways = ["MIN({})", "MAX({})", "STRING_AGG", "STRING_AGG DISTINCT"]
                shape = pick(ways)
                argument = value("text", self.scope)
                if shape.startswith("STRING_AGG"):
                    distinct = shape.partition(" ")[2] + " " if " " in shape else ""
                    ours = text(f"STRING_AGG({distinct}{{}}, ',')", argument)
                    plain = text(f"STRING_AGG({distinct}{{}}, ',' ORDER BY {{}})", *[argument] * 2)
                    return text("{}{}", Either(ours, plain), suffix), kind
            case "float":
                shape = pick(["SUM({})", "AVG({})", "MIN({})", "MAX({})", "MEDIAN({})", "QUANTILE"])
                exact: Kind = "float" if shape in ("SUM({})", "MIN({})", "MAX({})") else "int"
                argument = value(pick([exact, "float"]), self.scope)
                if shape == "QUANTILE":
                    shape = "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {})"
                    suffix = ""
            case _:
                shape = pick(
                    [
                        *("COUNT(*)", "COUNT({})", "SUM({})", "MAX({})", "MIN({})"),
                        *("COUNT(DISTINCT {})", "SUM(DISTINCT {})", "COUNT_IF({})", "QUANTILE"),
                    ]
                )
                argument = value("int", self.scope)
                if shape == "COUNT_IF({})":
                    argument = self.scalars.condition(self.scope)
                    # Of no rows DuckDB's own gives NULL.
                    plain = text("COUNT(CASE WHEN {} THEN 1 END)", argument)
                    return text("{}{}", Either(text(shape, argument), plain), suffix), kind
                if shape == "COUNT(*)":
                    return text("COUNT(*){}", suffix), kind
                if shape == "QUANTILE":
                    shape = "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {})"
                    suffix = ""
        return text(shape + "{}", argument, suffix), kind

    def _having(self, keys: list[tuple[Part, Kind]], scope: DrawnScope, linked: bool) -> Part:
        """A condition on groups, with a nested query at times, connected by keys."""
        if not self.scalars.chance(4):
            return ""
        if self.nested is not None and scope.columns and not linked and self.scalars.chance(3):
            return self.nested.condition(scope)
        call, _ = self._aggregate("int")
        one: Part = call
        if keys and self.scalars.chance(3):
            one = self.scalars.pick([key for key, kind in keys if kind == "int"] or [call])
        if self.nested is not None and not linked and self.scalars.chance(4):
            other = self.nested.scalar(scope, "int")
        else:
            other = self.scalars.pick(["1", "2", "0"])
        return text(f"{{}} {self.scalars.sign()} {{}}", one, other)


_ELSE: Final[dict[Kind, Part]] = {"int": "0", "text": "'z'", "float": "0e0", "bool": "TRUE"}
