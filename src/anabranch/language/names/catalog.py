"""The names that queries may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, final

from anabranch.algebra.modules.user_operator import Template
from anabranch.algebra.node import Node
from anabranch.language.text.statements import CreateFunction


@final
@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """The archive of a stream: its folder, None in the checkpoint, and what people are told."""

    folder: str | None
    label: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """What a name stands for.

    Attributes:
        name: As it was written when it was created.
        kind: A stream from outside, a relation, a stream derived by a query, or a view.
        node: Its plan.
        hidden: Columns that are there and cannot be seen, such as that of ORDERED BY.
        query: The text it was derived by.
        uses: The entries it is derived from.
        time: The column of ORDERED BY, hidden or not.
        archive: Where its rows are kept; None: nowhere.
    """

    name: str
    kind: Literal["stream", "table", "derived", "view"]
    node: Node
    hidden: tuple[str, ...] = ()
    query: str | None = None
    uses: frozenset[str] = frozenset()
    time: str | None = None
    archive: ArchiveEntry | None = None


@final
@dataclass(frozen=True, slots=True)
class Catalog:
    """Entries, functions and modules by name in small letters."""

    entries: Mapping[str, CatalogEntry] = field(default_factory=lambda: MappingProxyType({}))
    functions: Mapping[str, CreateFunction] = field(default_factory=lambda: MappingProxyType({}))
    modules: Mapping[str, Template] = field(default_factory=lambda: MappingProxyType({}))

    def nearest(self, name: str) -> str:
        """A hint: what may have been meant, and what there is."""
        names = [entry.name for entry in self.entries.values()]
        if not names:
            return "there are no streams yet; begin with CREATE STREAM"
        lower = {each.lower(): each for each in names}
        near = get_close_matches(name.lower(), list(lower), 1)
        guess = f"did you mean '{lower[near[0]]}'? " if near else ""
        return f"{guess}there are: {', '.join(names)}"

    def nearest_operator(self, name: str, more: Collection[str] = ()) -> str:
        """A hint: which module, or what else there is, may have been meant."""
        if not self.modules and not more:
            return "there are no modules yet; add one with engine.register(module)"
        near = get_close_matches(name.lower(), [*self.modules, *more], 1)
        guess = f"did you mean '{near[0]}'? " if near else ""
        return f"{guess}modules are: {', '.join(sorted(self.modules)) or 'none'}"
