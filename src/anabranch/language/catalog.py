"""The names that queries may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, final

from anabranch.algebra.module import Template
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import QueryError
from anabranch.language.statements import CreateFunction
from anabranch.language.window_text import Amount
from anabranch.model.time import Duration, parse_duration


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a name stands for.

    Attributes:
        name: As it was written when it was created.
        kind: A stream from outside, a relation, a stream derived by a query, or a view.
        node: Its plan.
        hidden: Columns that are there and cannot be seen, such as that of ORDERED BY.
        query: The text it was derived by.
        uses: The entries it is derived from.
        time: The column of ORDERED BY, hidden or not.
    """

    name: str
    kind: Literal["stream", "table", "derived", "view"]
    node: Node
    hidden: tuple[str, ...] = ()
    query: str | None = None
    uses: frozenset[str] = frozenset()
    time: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Catalog:
    """Entries, functions and modules by name in small letters; `chronons` by that of a source.

    A chronon is how many microseconds one step of an integer time stands for.
    """

    entries: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    functions: Mapping[str, CreateFunction] = field(default_factory=lambda: MappingProxyType({}))
    chronons: Mapping[str, Duration] = field(default_factory=lambda: MappingProxyType({}))
    modules: Mapping[str, Template] = field(default_factory=lambda: MappingProxyType({}))

    def nearest(self, name: str) -> str:
        """A hint: what may have been meant, and what there is."""
        names = [entry.name for entry in self.entries.values()]
        if not names:
            return "there are no streams yet; begin with CREATE STREAM"
        lower = {known.lower(): known for known in names}
        near = get_close_matches(name.lower(), list(lower), 1)
        guess = f"did you mean '{lower[near[0]]}'? " if near else ""
        return f"{guess}there are: {', '.join(names)}"

    def nearest_module(self, name: str, more: Collection[str] = ()) -> str:
        """A hint: which module, or what else there is, may have been meant."""
        if not self.modules and not more:
            return "there are no modules yet; add one with engine.register(module)"
        near = get_close_matches(name.lower(), [*self.modules, *more], 1)
        guess = f"did you mean '{near[0]}'? " if near else ""
        return f"{guess}modules are: {', '.join(sorted(self.modules)) or 'none'}"

    def duration(self, amount: Amount, over: Node) -> Duration:
        """How many chronons of a stream an amount is.

        Raises:
            QueryError: It is none, or no whole number of chronons.
        """
        text = f"{amount.text} {amount.unit or ''}".strip()
        found = parse_duration(text)
        if found < 1:
            raise QueryError("a duration must be positive", hint="write 1 or more")
        if amount.unit is None:
            return found
        names = [node.name for node in over.walk() if isinstance(node, Source)]
        chronon = next((self.chronons[name] for name in names if name in self.chronons), 1)
        if found % chronon:
            raise QueryError(
                f"{text} is not a whole number of chronons",
                hint=f"one chronon of this stream is {chronon} microseconds",
            )
        return Duration(found // chronon)
