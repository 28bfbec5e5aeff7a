"""Drawn FROM clauses: streams and queries with windows, joined in all ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Final, Literal, TypeAlias, final

from anabranch.testing.sql.scope import DrawnScope, Scalars, Visible
from anabranch.testing.sql.text import (
    AxisSpec,
    DrawnColumn,
    Either,
    FromEntry,
    Part,
    Query,
    Text,
    WindowSpec,
    granules_in,
    joined,
    text,
)

_JOINS: Final = (
    *("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "INNER JOIN", "RIGHT JOIN", "FULL JOIN"),
    *("FULL OUTER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"),
)
_PLAIN_JOINS: Final = {"LEFT SEMI JOIN": "SEMI JOIN", "LEFT ANTI JOIN": "ANTI JOIN"}


@final
@dataclass(frozen=True, slots=True)
class Registered:
    """A stream that queries may read."""

    columns: tuple[DrawnColumn, ...]
    points: bool = False
    endless: bool = False


@final
@dataclass(frozen=True, slots=True)
class Clause:
    """A FROM clause, what can be referred to behind it, and what its rows are like.

    `entries` are those whose columns can be seen, `shared` the columns of USING, `joins` the
    entries behind a comma, `conditions` what connects these with the others.
    """

    text: Text
    scope: DrawnScope
    entries: tuple[FromEntry, ...]
    shared: tuple[Visible, ...] = ()
    joins: tuple[str, ...] = ()
    conditions: tuple[Part, ...] = ()
    points: bool = False
    endless: bool = False
    granules: frozenset[int] = frozenset()


MakeQuery: TypeAlias = Callable[[int], Query]


@final
@dataclass(slots=True)
class Sources:
    """Draws FROM clauses."""

    scalars: Scalars
    streams: Mapping[str, Registered]
    named: dict[str, Query] = field(default_factory=dict)
    around: set[str] = field(default_factory=set)
    plain: set[str] = field(default_factory=set)
    number: int = 0

    def fresh(self, prefix: str) -> str:
        """A name that is not taken."""
        self.number += 1
        return f"{prefix}{self.number}"

    def clause(self, depth: int, make: MakeQuery, around: DrawnScope | None) -> Clause:
        """One to three entries, joined."""
        taken = {column.owner for column in around.columns} if around is not None else set[str]()
        before, self.around = self.around, taken
        many = self.scalars.pick([1, 1, 1, 2, 2, 3] if depth > 0 else [1, 1, 2])
        clause = self.alone(self.entry(depth, make, taken))
        for _ in range(many - 1):
            entry = self.entry(depth, make, taken | {each.alias for each in clause.entries})
            join = self._beside if self.scalars.chance(2) else self._join
            clause = join(clause, entry)
        self.around = before
        return replace(clause, conditions=tuple(self._equations(clause)))

    def entry(self, depth: int, make: MakeQuery, taken: set[str]) -> FromEntry:
        """A stream or a query, with a window or without."""
        pick, chance = self.scalars.pick, self.scalars.chance
        ways = ["stream"] * 6 + ["named"] * (3 if self.named else 0)
        ways += ["query", "query"] if depth > 0 else []
        way = pick(ways)
        alias = self.fresh("t")
        if way == "stream":
            name = pick(list(self.streams))
            stream = self.streams[name]
            entry = FromEntry(name, None, stream.columns, alias)
        elif way == "named":
            name = pick(list(self.named))
            query = self.named[name]
            entry = FromEntry(query, name, query.columns, alias)
        else:
            query = make(depth - 1)
            entry = FromEntry(query, None, query.columns, alias)
        entry = self._timed(entry)
        if way != "query" and name not in taken and entry.axis is None and chance(4):
            entry = replace(entry, alias=name, written=False)
            self.plain.add(name)
        return replace(entry, alias_last=chance(2))

    def _timed(self, entry: FromEntry) -> FromEntry:
        """The same entry with a window, as a stream of changes, or at fewer instants."""
        pick, chance = self.scalars.pick, self.scalars.chance
        facts = self._facts(entry)
        if facts.points and chance(8):
            return self._with_axis(entry)
        if chance(10):
            entry = replace(entry, change=pick(["Istream", "Dstream", "Rstream"]))
        window = self._window(entry)
        entry = replace(entry, window=window)
        if chance(14):
            least = lcm(1, *facts.granules)
            granule = pick([2, 3]) if least == 1 else least
            coarsest = granule * 2 if chance(3) else None
            entry = replace(entry, granule=granule, coarsest=coarsest)
        return entry

    def _window(self, entry: FromEntry) -> WindowSpec | None:
        pick, chance = self.scalars.pick, self.scalars.chance
        facts = self._facts(entry)
        ways = ["range"] * 6 + ["none"] * (6 if not facts.points else 2) + ["slide"] * 2
        if not facts.endless:
            ways += ["rows", "rows", "partition", "partition", "unbounded", "unbounded rows"]
        way = pick(ways)
        names = [column.name for column in entry.columns]
        size, slide, bracket = pick([2, 3, 4, 6]), pick([2, 3, 5]), chance(8)
        order, by = (pick(names),), (pick(names),)
        match way:
            case "range":
                useless = by if chance(12) else ()
                least = 2 if chance(12) else None
                return WindowSpec("RANGE", size, 1, useless, (), bracket, least)
            case "slide":
                return WindowSpec("RANGE", size, slide, bracket=bracket)
            case "rows":
                slide = 2 if chance(4) else 1
                return WindowSpec("ROWS", size - 1, slide, order_by=order, bracket=bracket)
            case "partition":
                slide = 2 if chance(4) else 1
                return WindowSpec("ROWS", size - 1, slide, by, order, bracket)
            case "unbounded":
                return WindowSpec("RANGE", None)
            case "unbounded rows":
                return WindowSpec("ROWS", None, order_by=order)
        return None

    def _with_axis(self, entry: FromEntry) -> FromEntry:
        pick = self.scalars.pick
        function: Literal["TUMBLE", "HOP", "SESSION"] = pick(["TUMBLE", "HOP", "SESSION"])
        size, slide = pick([2, 3, 4]), pick([2, 3])
        by: tuple[str, ...] = ()
        if function == "SESSION" and self.scalars.chance(2):
            by = (pick([column.name for column in entry.columns]),)
        bounds = (DrawnColumn("window_start", "int"), DrawnColumn("window_end", "int"))
        if any(column in entry.columns for column in bounds):
            return entry
        axis = AxisSpec(function, size, slide, by)
        return replace(entry, axis=axis, columns=(*entry.columns, *bounds))

    def _facts(self, entry: FromEntry) -> Query:
        """What the rows of an entry are like."""
        base = entry.base
        if isinstance(base, str):
            stream = self.streams[base]
            facts = Query(text(""), stream.columns, stream.points, stream.endless)
        else:
            facts = replace(base, granules=granules_in(base))
        if entry.change in ("Istream", "Dstream"):
            # Rstream is not among them: the last piece of a lifetime may be open.
            facts = replace(facts, points=True, endless=False)
        if entry.window is not None:
            unbounded = entry.window.size is None or entry.window.unit == "ROWS"
            facts = replace(facts, points=False, endless=facts.endless or unbounded)
        if entry.axis is not None:
            facts = replace(facts, points=False)
        if entry.granule > 1:
            facts = replace(facts, points=False, granules=facts.granules | {entry.granule})
        return facts

    def alone(self, entry: FromEntry) -> Clause:
        """One entry and nothing else."""
        facts = self._facts(entry)
        return Clause(
            text=text("{}", entry),
            scope=self._scope([entry], ()),
            entries=(entry,),
            points=facts.points,
            endless=facts.endless,
            granules=facts.granules,
        )

    def _with(
        self, clause: Clause, written: Text, entry: FromEntry, shared: list[Visible]
    ) -> Clause:
        facts = self._facts(entry)
        items = [*clause.entries, entry]
        names = {column.name for column in shared}
        both = (*shared, *(column for column in clause.shared if column.name not in names))
        return replace(
            clause,
            text=written,
            scope=self._scope(items, both),
            entries=tuple(items),
            shared=both,
            points=False,
            endless=clause.endless or facts.endless,
            granules=clause.granules | facts.granules,
        )

    def _beside(self, clause: Clause, entry: FromEntry) -> Clause:
        """Behind a comma: as in Spark that binds no less than JOIN; WHERE connects most often."""
        written = text("{}{}{}", clause.text, Either(", ", " CROSS JOIN "), entry)
        joins = (*clause.joins, entry.alias)
        return replace(self._with(clause, written, entry, []), joins=joins)

    def _equations(self, clause: Clause) -> Iterator[Part]:
        """What stands in WHERE for entries behind a comma; rarely nothing."""
        columns = clause.scope.columns
        for alias in clause.joins:
            if not self.scalars.chance(5):
                yield self.equation(
                    DrawnScope(tuple(each for each in columns if each.owner != alias)),
                    DrawnScope(tuple(each for each in columns if each.owner == alias)),
                )

    def equation(self, one: DrawnScope, other: DrawnScope) -> Part:
        """A column of each side, equal."""
        kinds = {column.kind for column in one.columns} & {column.kind for column in other.columns}
        if not kinds:
            return "TRUE"
        kind = self.scalars.pick(sorted(kinds - {"bool"} or kinds))
        sides = [self.scalars.column(self.scalars.pick(side.of([kind]))) for side in (one, other)]
        if self.scalars.chance(2):
            sides.reverse()
        return text("{} = {}", *sides)

    def _join(self, clause: Clause, entry: FromEntry) -> Clause:
        """JOIN with ON or USING."""
        pick = self.scalars.pick
        kind = pick(_JOINS)
        word = Either(kind, _PLAIN_JOINS.get(kind, kind))
        if kind == "CROSS JOIN":
            return self._with(clause, text("{} {} {}", clause.text, word, entry), entry, [])
        common = self._common(clause, entry)
        if common and self.scalars.chance(3):
            return self._using(clause, entry, kind, word, common[: pick([1, 1, 2])])
        both = self._scope([*clause.entries, entry], clause.shared)
        before = DrawnScope(tuple(c for c in both.columns if c.owner != entry.alias))
        side = DrawnScope(tuple(c for c in both.columns if c.owner == entry.alias))
        condition = self.equation(before, side)
        match pick(["equation", "equation", "more", "other"]):
            case "more":
                condition = text("{} AND {}", condition, self.scalars.condition(both, 1))
            case "other":
                condition = self.scalars.condition(both, 1)
        written = text("{} {} {} ON {}", clause.text, word, entry, condition)
        if "SEMI" in kind or "ANTI" in kind:
            return self._narrowed(clause, written, entry)
        return self._with(clause, written, entry, [])

    def _narrowed(self, clause: Clause, written: Text, entry: FromEntry) -> Clause:
        """The left side stays as it is."""
        facts = self._facts(entry)
        return replace(
            clause,
            text=written,
            points=False,
            endless=clause.endless or facts.endless,
            granules=clause.granules | facts.granules,
        )

    def _common(self, clause: Clause, entry: FromEntry) -> list[Visible]:
        """Columns whose names mean one thing on either side."""
        names = {(column.name, column.kind) for column in entry.columns}
        columns = clause.scope.columns
        return [each for each in columns if each.bare and (each.name, each.kind) in names]

    def _using(
        self, clause: Clause, entry: FromEntry, kind: str, word: Part, columns: list[Visible]
    ) -> Clause:
        names = ", ".join(column.name for column in columns)
        written = text(f"{{}} {{}} {{}} USING ({names})", clause.text, word, entry)
        if "SEMI" in kind or "ANTI" in kind:
            return self._narrowed(clause, written, entry)
        shared: list[Visible] = []
        for mine in columns:
            meant = mine.meant
            if kind.startswith("RIGHT"):
                meant = f"{entry.alias}.{mine.name}"
            elif kind.startswith("FULL"):
                meant = f"COALESCE({mine.meant}, {entry.alias}.{mine.name})"
            shared.append(Visible(mine.name, mine.kind, "", meant))
        return self._with(clause, written, entry, shared)

    def _scope(self, items: list[FromEntry], shared: tuple[Visible, ...]) -> DrawnScope:
        """Columns of USING come first; the sides of them are still there under their owners."""
        found = list(shared)
        hidden = {column.name.lower() for column in shared}
        names = Counter(column.name.lower() for item in items for column in item.columns)
        owns = Counter(item.base if isinstance(item.base, str) else item.name for item in items)
        for item in items:
            own = item.base if isinstance(item.base, str) else item.name
            # A name of a query around goes before the name of a stream that has an alias.
            usable = own not in self.around | self.plain and owns[own] == 1 and item.written
            for column in item.columns:
                name = column.name.lower()
                found.append(
                    Visible(
                        name=column.name,
                        kind=column.kind,
                        owner=item.alias,
                        meant=f"{item.alias}.{column.name}",
                        own=own if usable and own else "",
                        bare=names[name] == 1 and name not in hidden,
                    )
                )
        return DrawnScope(tuple(found))


def star(clause: Clause) -> list[Visible]:
    """What `*` stands for: columns of USING first, once."""
    shared = {column.name.lower() for column in clause.shared}
    rest = [
        column
        for column in clause.scope.columns
        if column.owner and column.name.lower() not in shared
    ]
    return [*clause.shared, *rest]


def select_list(columns: list[tuple[Part, str]]) -> Text:
    """`a AS b, c AS d`."""
    return joined(", ", [text(f"{{}} AS {name}", part) for part, name in columns])
