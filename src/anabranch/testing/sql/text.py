"""Query text with two readings: in our dialect, and as plain SQL about one instant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

Kind = Literal["int", "float", "text", "bool"]
"""What a column holds, as far as a query must know it to be valid."""


@final
@dataclass(frozen=True, slots=True)
class DrawnColumn:
    """A column of a query or a stream."""

    name: str
    kind: Kind


@final
@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Parts side by side."""

    parts: tuple[Part, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """A part that plain SQL spells another way."""

    ours: Part
    plain: Part


@final
@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query: its text, and what its result is like.

    Attributes:
        text: What it says.
        columns: What it selects.
        points: Whether its rows are known to hold for one instant only.
        endless: Whether rows may hold for ever.
        granules: The granularities below.
        bare: Whether it can stand beside UNION without parentheses.
    """

    text: Text
    columns: tuple[DrawnColumn, ...]
    points: bool = False
    endless: bool = False
    granules: frozenset[int] = frozenset()
    bare: bool = True


@final
@dataclass(frozen=True, slots=True)
class WindowSpec:
    """`WINDOW(PARTITION BY k ROWS 3 SLIDE 2 ORDER BY a)`; a size of None is UNBOUNDED.

    With `MIN least, MAX size` it holds as much as it may.
    """

    unit: Literal["RANGE", "ROWS"]
    size: int | None
    slide: int = 1
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    bracket: bool = False
    least: int | None = None

    def __str__(self) -> str:
        parts = [f"PARTITION BY {', '.join(self.partition_by)}"] if self.partition_by else []
        size = str(self.size or "UNBOUNDED")
        parts.append(
            f"{self.unit} {size if self.least is None else f'MIN {self.least}, MAX {size}'}"
        )
        parts += [f"SLIDE {self.slide}"] if self.slide > 1 else []
        parts += [f"ORDER BY {', '.join(self.order_by)}"] if self.order_by else []
        inside = " ".join(parts)
        return f"[{inside}]" if self.bracket else f"WINDOW({inside})"


@final
@dataclass(frozen=True, slots=True)
class AxisSpec:
    """`TUMBLE(s, DESCRIPTOR(at), 5)`, `HOP(..., slide, size)`, `SESSION(...)`."""

    function: Literal["TUMBLE", "HOP", "SESSION"]
    size: int
    slide: int = 1
    partition_by: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, eq=False)
class FromEntry:
    """One entry of FROM: where rows come from, and which of them count at an instant.

    Attributes:
        base: The name of a stream, or a query.
        name: What is written for a query that has a name; None: the query itself.
        columns: What can be seen of it.
        alias: What the rest of the query calls it.
        written: Whether the alias is written; else it is the name itself.
        change: Istream, Dstream or Rstream.
        axis: A window that is columns, too.
        window: A window behind it.
        granule: GRANULARITY, 1 for none.
        coarsest: How coarse it may become.
        alias_last: Whether the alias stands behind the window.
    """

    base: str | Query
    name: str | None
    columns: tuple[DrawnColumn, ...]
    alias: str
    written: bool = True
    change: Literal["Istream", "Dstream", "Rstream"] | None = None
    axis: AxisSpec | None = None
    window: WindowSpec | None = None
    granule: int = 1
    coarsest: int | None = None
    alias_last: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether it needs more than the rows of the instant itself."""
        return bool(self.change or self.axis or self.window) or self.granule > 1


Part: TypeAlias = str | Text | Either | Query | FromEntry
NameOf: TypeAlias = Callable[[FromEntry], str]


def granules_in(part: Part) -> frozenset[int]:
    """The granularities of everything that is written in a text, nested queries included."""
    match part:
        case Text():
            return frozenset[int]().union(*map(granules_in, part.parts))
        case Either():
            return granules_in(part.ours)
        case Query():
            return granules_in(part.text)
        case FromEntry():
            return granules_in(part.base) | ({part.granule} - {1})
    return frozenset()


def text(shape: str, *parts: Part) -> Text:
    """Parts put into the places `{}` of a text.

    >>> ours(text("{} = {}", "a", Either("b", "c")))
    'a = b'
    """
    between = shape.split("{}")
    assert len(between) == len(parts) + 1, shape
    found: list[Part] = [between[0]]
    for part, after in zip(parts, between[1:]):
        found += [part, after]
    return Text(tuple(part for part in found if part != ""))


def joined(separator: str, parts: list[Part]) -> Text:
    """Parts with the same text between them."""
    return text(separator.join(["{}"] * len(parts)), *parts)


def ours(part: Part) -> str:
    """A text in our dialect."""
    match part:
        case str():
            return part
        case Text():
            return "".join(ours(each) for each in part.parts)
        case Either():
            return ours(part.ours)
        case Query():
            return ours(part.text)
        case FromEntry():
            return _entry(part)


def plain(part: Part, name_of: NameOf) -> str:
    """A text as plain SQL, where a table stands for every entry of FROM that needs time."""
    match part:
        case str():
            return part
        case Text():
            return "".join(plain(each, name_of) for each in part.parts)
        case Either():
            return plain(part.plain, name_of)
        case Query():
            return plain(part.text, name_of)
        case FromEntry(base=Query() as query) if not part.is_timed:
            return f"({plain(query, name_of)}) AS {part.alias}"
        case FromEntry():
            return f"{name_of(part)} AS {part.alias}"


def entries(part: Part) -> list[FromEntry]:
    """The entries of FROM that plain SQL needs a table for."""
    match part:
        case str():
            return []
        case Text():
            return [entry for each in part.parts for entry in entries(each)]
        case Either():
            return entries(part.plain)
        case Query():
            return entries(part.text)
        case FromEntry(base=Query() as query) if not part.is_timed:
            return entries(query)
        case FromEntry():
            return [part]


def _entry(entry: FromEntry) -> str:
    if isinstance(entry.base, str):
        shown = entry.base
    elif entry.name is not None:
        shown = entry.name
    else:
        shown = f"({ours(entry.base)})"
    if entry.change is not None:
        shown = f"{entry.change}({shown})"
    if entry.axis is not None:
        shown = _axis(entry.axis, shown)
    alias = f" {entry.alias}" if entry.written else ""
    window = f" {entry.window}" if entry.window is not None else ""
    granule = str(entry.granule)
    if entry.coarsest is not None:
        granule = f"COARSEST {entry.coarsest}, FINEST {granule}"
    granularity = f" GRANULARITY({granule})" if entry.granule > 1 else ""
    return shown + (window + alias if entry.alias_last else alias + window) + granularity


def _axis(axis: AxisSpec, shown: str) -> str:
    by = f" PARTITION BY {', '.join(axis.partition_by)}" if axis.partition_by else ""
    sizes = f"{axis.slide}, {axis.size}" if axis.function == "HOP" else str(axis.size)
    return f"{axis.function}({shown}{by}, DESCRIPTOR(at), {sizes})"
