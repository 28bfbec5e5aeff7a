"""Resolve the name of a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import final

from sqlglot import exp

from anabranch.language.text.script import Script, Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry of FROM.

    Attributes:
        name: Its alias, or the name of the stream; empty for a nested query without one.
        own: The name of the stream; it may be used beside an alias while it is unambiguous.
        columns: Pairs of a name as users know it and as the plan does.
        hidden: Columns that cannot be used.
        times: Columns that are the start of a row, hidden ones too; none where rows hold longer.
        inner_hidden: The hidden columns of streams that it reads, with the names of these.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    own: str = ""
    hidden: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    inner_hidden: tuple[tuple[str, str], ...] = ()

    def find(self, name: str) -> list[str]:
        """The columns of the plan that a name means here: the exact one, or all that fit."""
        exact = [plan for seen, plan in self.columns if seen == name]
        return exact or [plan for seen, plan in self.columns if seen.lower() == name.lower()]


@final
@dataclass(frozen=True, slots=True)
class Scope:
    """The entries of FROM, and those of the query around it.

    `shared` has the columns of USING, which stand for both sides when not qualified.
    """

    items: tuple[Item, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)
    outer: Scope | None = None

    def resolve(self, column: exp.Column, script: Script) -> exp.Expr:
        """The same reference in terms of the plan; `meta['outer']` marks the query around.

        Raises:
            QueryError: There is no such column, it is hidden, or there are several.
        """
        parts = [str(part.name) for part in column.parts]
        span = _span(column)
        found = self._find(parts, script, span)
        if found is None and self.outer is not None:
            found = self.outer._find(parts, script, span)
            if found is not None:
                return _reference(column, *found, outer=True)
        if found is None:
            raise self._unknown(parts, script, span)
        return _reference(column, *found, outer=False)

    def _find(
        self, parts: list[str], script: Script, span: Span | None
    ) -> tuple[str, list[str]] | None:
        """The column of the plan, and the fields of a struct behind it."""
        if len(parts) > 1:
            for item in self._called(parts[0]):
                plans = item.find(parts[1])
                if len(plans) > 1:
                    raise script.wrong(
                        f"column '{parts[1]}' is ambiguous", span, "write it as it was declared"
                    )
                if plans:
                    return plans[0], parts[2:]
        name = parts[0]
        if name.lower() in self.shared:
            return self.shared[name.lower()], parts[1:]
        owners = [(item, plan) for item in self.items for plan in item.find(name)]
        if len(owners) > 1:
            choices = ", ".join(f"{item.name}.{name}" for item, _ in owners if item.name)
            hint = f"write one of {choices}" if choices else "give the streams in FROM an alias"
            raise script.wrong(f"column '{name}' is ambiguous", span, hint)
        return (owners[0][1], parts[1:]) if owners else None

    def _called(self, name: str) -> list[Item]:
        found = [item for item in self.items if item.name.lower() == name.lower()]
        around = self.outer.items if self.outer is not None else ()
        if found or any(item.name.lower() == name.lower() for item in around):
            # `FROM s WHERE EXISTS (SELECT 1 FROM s AS t WHERE t.k = s.k)`: s is the one around.
            return found
        own = [item for item in self.items if item.own.lower() == name.lower()]
        return own if len(own) == 1 else []

    def called(self, name: str, script: Script, span: Span | None) -> Item:
        """The entry of FROM with this name, for `name.*`."""
        found = self._called(name)
        if not found:
            names = [item.name for item in self.items if item.name]
            hint = f"FROM has: {', '.join(names)}" if names else "nothing in FROM has a name"
            raise script.wrong(f"there is no '{name}' in FROM", span, hint)
        return found[0]

    def _unknown(self, parts: list[str], script: Script, span: Span | None) -> Exception:
        name = ".".join(parts)
        items = self._called(parts[0]) if len(parts) > 1 else list(self.items)
        for item in items or self.items:
            if parts[-1].lower() in (hidden.lower() for hidden in item.hidden):
                hint = (
                    f"to keep it as a column, declare the stream with ORDERED BY {parts[-1]} KEEP"
                )
                if len(parts) > 1 and len(self.items) > 1:
                    hint += (
                        "; a join within some time needs no such condition: put a window on the "
                        "earlier side, Offer WINDOW(RANGE 10 MINUTES)"
                    )
                return script.wrong(
                    f"unknown column '{name}': it orders the stream but is not one of its columns",
                    span,
                    hint,
                )
        for column, stream in (each for item in items or self.items for each in item.inner_hidden):
            if parts[-1].lower() == column.lower():
                return script.wrong(
                    f"unknown column '{name}': it orders stream {stream} but is not one of its "
                    "columns",
                    span,
                    f"to keep it as a column, declare {stream} with ORDERED BY {column} KEEP, and "
                    "select it in the query in FROM",
                )
        columns = [seen for item in items or self.items for seen, _ in item.columns]
        near = get_close_matches(parts[-1].lower(), [each.lower() for each in columns], 1)
        guess = ""
        if near:
            guess = f"did you mean '{next(e for e in columns if e.lower() == near[0])}'? "
        of = f" of {items[0].name}" if len(parts) > 1 and items else ""
        if len(parts) > 1 and not items:
            names = [item.name for item in self.items if item.name]
            guess = f"'{parts[0]}' is not in FROM, which has: {', '.join(names)}; "
        hint = f"{guess}columns{of} are: {', '.join(dict.fromkeys(columns))}"
        return script.wrong(f"unknown column '{name}'", span, hint)

    def all_columns(self) -> Iterator[tuple[Item, str, str]]:
        """What `*` stands for; columns of USING come once, first."""
        once = set(self.shared.values())
        sides = {
            plan
            for item in self.items
            for seen, plan in item.columns
            if seen.lower() in self.shared
        }
        for item in self.items[:1]:
            for name, plan in self.shared.items():
                seen = next(
                    (s for i in self.items for s, _ in i.columns if s.lower() == name), name
                )
                yield item, seen, plan
        for item in self.items:
            for seen, plan in item.columns:
                if plan not in once and plan not in sides:
                    yield item, seen, plan


def plan_column(name: str) -> exp.Column:
    """A reference to a column of a plan."""
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    column.meta["plan"] = True
    return column


def _reference(column: exp.Column, name: str, fields: list[str], *, outer: bool) -> exp.Expr:
    found: exp.Expr = plan_column(name)
    position = column.parts[-1].meta
    found.this.meta.update({key: position[key] for key in ("start", "end") if key in position})
    found.meta["outer"] = outer
    for part in fields:
        found = exp.Dot(this=found, expression=exp.to_identifier(part, quoted=True))
    return found


def _span(column: exp.Column) -> Span | None:
    metas = [part.meta for part in column.parts if "start" in part.meta]
    return (metas[0]["start"], metas[-1]["end"] + 1) if metas else None
