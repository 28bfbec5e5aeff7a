"""Valid SQL to draw: scripts over registered streams, with all the clauses there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, final

from hypothesis import strategies as st

from anabranch.testing.sql.from_clause import Clause, Registered, Sources, star
from anabranch.testing.sql.groups import GroupDrawer
from anabranch.testing.sql.nested import Nested
from anabranch.testing.sql.scope import DrawnScope, Scalars, Visible
from anabranch.testing.sql.text import (
    DrawnColumn,
    Either,
    Kind,
    Part,
    Query,
    Text,
    joined,
    ours,
    text,
)

_SET_WORDS: Final = (*("UNION ALL", "UNION", "EXCEPT ALL", "EXCEPT", "INTERSECT ALL", "INTERSECT"),)
_KINDS: Final[tuple[Kind, ...]] = ("int", "text", "float", "int", "bool")


@final
@dataclass(frozen=True, slots=True)
class DrawnScript:
    """Derived streams by name, and a query that may use them."""

    derived: tuple[tuple[str, Query], ...]
    query: Query

    @property
    def text(self) -> str:
        """All statements."""
        made = [f"CREATE STREAM {name} AS {ours(query)};" for name, query in self.derived]
        return "\n".join([*made, ours(self.query)])

    def __repr__(self) -> str:
        return self.text


@st.composite
def scripts(draw: st.DrawFn, streams: Mapping[str, Registered], depth: int = 2) -> DrawnScript:
    """Scripts whose last statement is a query over some streams."""
    maker = Queries(Scalars(draw), Sources(Scalars(draw), streams))
    derived: list[tuple[str, Query]] = []
    for _ in range(maker.scalars.pick([0, 0, 0, 1, 2])):
        query = maker.query(1)
        name = maker.sources.fresh("d")
        maker.sources.named[name] = query
        derived.append((name, query))
    return DrawnScript(tuple(derived), maker.query(depth, final=True))


@final
@dataclass(slots=True)
class Queries:
    """Draws queries."""

    scalars: Scalars
    sources: Sources

    def query(self, depth: int, *, final: bool = False) -> Query:
        """A SELECT, ranked rows, a set operation, perhaps with WITH."""
        pick, chance = self.scalars.pick, self.scalars.chance
        if depth > 0 and chance(8):
            return self._with_named(depth, final)
        way = pick(["select"] * 8 + ["ranked"] + (["set"] * 2 if depth > 0 else []))
        if way == "set":
            return self._set_operation(depth)
        if way == "ranked":
            return self._ranked(depth)
        return self.select(depth, final=final)

    def _with_named(self, depth: int, final: bool) -> Query:
        inner = self.query(depth - 1)
        name, named = self.sources.fresh("c"), self.sources.named
        written, body = name, inner
        if self.scalars.chance(3):
            columns = tuple(
                DrawnColumn(self.sources.fresh("n"), column.kind) for column in inner.columns
            )
            names = ", ".join(column.name for column in columns)
            renamed = text(f"SELECT * FROM ({{}}) AS inside({names})", inner)
            written, inner = f"{name}({names})", replace(inner, text=renamed, columns=columns)
        self.sources.named = {**named, name: inner}
        outer = self.query(depth - 1, final=final)
        self.sources.named = named
        begin = Either(text("WITH {} AS ({}) ", written, body), "")
        return replace(outer, text=text("{}{}", begin, outer.text), bare=False)

    def select(
        self,
        depth: int,
        *,
        final: bool = False,
        kinds: Sequence[Kind] | None = None,
        around: DrawnScope | None = None,
        link: Literal["none", "equation", "any"] = "none",
        single: bool = False,
    ) -> Query:
        """One SELECT.

        Args:
            depth: How deep queries may be nested in it.
            final: It is the result: columns need no names, and may be rounded.
            kinds: What the columns must be.
            around: What a nested query may refer to.
            link: How it refers to that.
            single: It gives one row at most.
        """
        pick, chance = self.scalars.pick, self.scalars.chance
        clause = self.sources.clause(depth, self.query, around)
        grouped = single or chance(3)
        if link == "none":
            around = None
        where, points = self._where(clause, depth, around, "equation" if grouped else link)
        if not grouped and kinds is None and chance(4):
            found = self._star(clause, where)
            if found is not None:
                return replace(found, points=points)
        if grouped:
            deep = self._nested(depth) if depth > 0 else None
            groups = GroupDrawer(self.scalars, self.sources, clause.scope, deep, final)
            return groups.query(clause, where, kinds, linked=link != "none", single=single)
        wanted = kinds or [pick(_KINDS) for _ in range(pick([1, 2, 2, 3]))]
        items: list[Part] = []
        columns: list[DrawnColumn] = []
        for kind in wanted:
            value: Part = self.scalars.value(kind, clause.scope)
            if depth > 0 and kind == "int" and link == "none" and chance(10):
                value = self._nested(depth).scalar(clause.scope, kind)
                points = False
            taken = {column.name.lower() for column in columns}
            items.append(self._named(value, kind, clause.scope, taken, columns))
        distinct = "DISTINCT " if chance(6) else ""
        body = text(f"SELECT {distinct}{{}} FROM {{}}{{}}", joined(", ", items), clause.text, where)
        query = Query(
            body, tuple(columns), points and not distinct, clause.endless, clause.granules
        )
        if link == "none" and chance(8):
            return self._limited(query)
        return query

    def _named(
        self,
        value: Part,
        kind: Kind,
        scope: DrawnScope,
        taken: set[str],
        columns: list[DrawnColumn],
    ) -> Part:
        """A column of the result: with a new name, one that FROM has, or that of a column."""
        free = [column for column in scope.columns if column.name.lower() not in taken]
        if free and self.scalars.chance(6):
            column = self.scalars.pick(free)
            columns.append(DrawnColumn(column.name, kind))
            if column.kind != kind:
                return text(f"{{}} AS {column.name}", value)
            shown = self.scalars.column(column)
            return Either(shown, text(f"{{}} AS {column.name}", shown))
        name = self.sources.fresh("c")
        columns.append(DrawnColumn(name, kind))
        return text(f"{{}} {self.scalars.pick(['AS ', ''])}{name}", value)

    def _nested(self, depth: int) -> Nested:
        return Nested(self.scalars, self.select, depth - 1)

    def _where(
        self, clause: Clause, depth: int, around: DrawnScope | None, link: str
    ) -> tuple[Part, bool]:
        """WHERE with what connects the query; whether points stay known as points."""
        parts = list(clause.conditions)
        if around is not None:
            many = self.scalars.pick([1, 1, 2])
            parts += [self._link(clause.scope, around, link) for _ in range(many)]
        many = self.scalars.pick([0, 0, 1, 1, 2])
        parts += [self.scalars.condition(clause.scope) for _ in range(many)]
        points = clause.points
        if depth > 0 and self.scalars.chance(3):
            parts.append(self._nested(depth).condition(clause.scope))
            points = False
        if not parts:
            return "", points
        wrapped: list[Part] = [text("({})", p) if self.scalars.chance(4) else p for p in parts]
        return text(" WHERE {}", joined(" AND ", wrapped)), points

    def _link(self, scope: DrawnScope, around: DrawnScope, link: str) -> Part:
        """A column here compared with one of the query around."""
        kinds = {column.kind for column in scope.columns} & {c.kind for c in around.columns}
        owned = [column for column in around.columns if column.owner and column.kind in kinds]
        if not owned:
            return "TRUE"
        outer = self.scalars.pick(owned)
        inner = self.scalars.pick(scope.of([outer.kind]))
        sides = [self.scalars.column(inner), self.scalars.column(outer, around=True)]
        sign = "=" if link == "equation" else self.scalars.pick(["=", "=", self.scalars.sign()])
        if sign == "=" and self.scalars.chance(2):
            sides.reverse()
        return text(f"{{}} {sign} {{}}", *sides)

    def _star(self, clause: Clause, where: Part) -> Query | None:
        """`SELECT *`, where that gives names that can be told apart."""
        columns = star(clause)
        if len({column.name.lower() for column in columns}) < len(columns):
            return None
        written: Part = "*"
        if len(clause.entries) == 1 and self.scalars.chance(3):
            written = f"{clause.entries[0].alias}.*"
        meant = ", ".join(f"{column.meant} AS {column.name}" for column in columns)
        body = text("SELECT {} FROM {}{}", Either(written, meant), clause.text, where)
        made = tuple(DrawnColumn(column.name, column.kind) for column in columns)
        return Query(body, made, False, clause.endless, clause.granules)

    def _limited(self, query: Query) -> Query:
        """With ORDER BY and LIMIT over the columns of the result; then these decide ties."""
        pick = self.scalars.pick
        order: list[Part] = []
        for index, column in enumerate(query.columns, start=1):
            if not order or self.scalars.chance(2):
                shown = pick([column.name, str(index)])
                order.append(self.ordered(shown, str(index)))
        ties: list[Part] = [
            Either("", f", {index} ASC NULLS FIRST") for index in range(1, len(query.columns) + 1)
        ]
        shape = f"{{}} ORDER BY {{}}{{}} LIMIT {pick([1, 2, 3])}"
        body = text(shape, query.text, joined(", ", order), Text(tuple(ties)))
        return replace(query, text=body, points=False, bare=False)

    def ordered(self, shown: Part, meant: Part) -> Part:
        """What is ordered by, up or down, and where NULLs stand."""
        word, nulls = self.scalars.pick([("", "FIRST"), (" DESC", "LAST"), (" ASC", "FIRST")])
        if self.scalars.chance(4):
            nulls = self.scalars.pick(["FIRST", "LAST"])
            return text(f"{{}}{word} NULLS {nulls}", Either(shown, meant))
        return Either(text(f"{{}}{word}", shown), text(f"{{}}{word} NULLS {nulls}", meant))

    def _ranked(self, depth: int) -> Query:
        """The first rows of each group, by ROW_NUMBER: all columns are ordered by."""
        pick, chance = self.scalars.pick, self.scalars.chance
        entry = self.sources.entry(depth, self.query, set())
        clause = self.sources.alone(entry)
        where, _ = self._where(clause, 0, None, "none")
        refs = [self.scalars.column(column) for column in clause.scope.columns]
        shift = pick(range(len(refs)))
        order = [self.ordered(each, each) for each in [*refs[shift:], *refs[:shift]]]
        by = text("PARTITION BY {} ", pick(refs)) if chance(2) else ""
        rank = text("ROW_NUMBER() OVER ({}ORDER BY {})", by, joined(", ", order))
        k = pick([1, 2, 3])
        bound = pick([f"<= {k}", f"< {k + 1}", *(["= 1"] if k == 1 else [])])
        wanted = tuple(DrawnColumn(c.name, c.kind) for c in entry.columns)
        facts = Query(text(""), wanted, False, clause.endless, clause.granules)
        if chance(2):
            shape = f"SELECT * FROM {{}}{{}} QUALIFY {{}} {bound}"
            return replace(facts, text=text(shape, clause.text, where, rank))
        inner = text("SELECT *, {} AS rank FROM {}{}", rank, clause.text, where)
        alias = self.sources.fresh("t")
        names = ", ".join(column.name for column in wanted)
        more: Part = ""
        if chance(3):
            scope = DrawnScope(tuple(c for c in self._outside(alias, wanted).columns))
            more = text(" AND {}", self.scalars.condition(scope))
        shape = f"SELECT {names} FROM ({{}}) AS {alias} WHERE rank {bound}{{}}"
        return replace(facts, text=text(shape, inner, more))

    def _outside(self, alias: str, columns: tuple[DrawnColumn, ...]) -> DrawnScope:
        return DrawnScope(
            tuple(Visible(c.name, c.kind, alias, f"{alias}.{c.name}") for c in columns)
        )

    def _set_operation(self, depth: int) -> Query:
        """Two or three queries with the same kinds of columns."""
        pick, chance = self.scalars.pick, self.scalars.chance
        kinds: list[Kind] = [pick(["int", "text", "float"]) for _ in range(pick([1, 2]))]
        parts = [self.select(depth - 1, kinds=kinds) for _ in range(pick([2, 2, 3]))]
        wrapped = [part.text if part.bare and chance(2) else text("({})", part) for part in parts]
        written = wrapped[0]
        for part in wrapped[1:]:
            written = text(f"{{}} {pick(_SET_WORDS)} {{}}", written, part)
        query = replace(
            parts[0],
            text=written,
            points=False,
            bare=False,
            endless=any(part.endless for part in parts),
            granules=frozenset[int]().union(*(part.granules for part in parts)),
        )
        return self._limited(query) if chance(6) else query
