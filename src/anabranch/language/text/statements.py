"""The statements of a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, final

import pyarrow as pa
from sqlglot import exp

from anabranch.language.text.script import Script, Span

EntryKind = Literal["STREAM", "TABLE", "VIEW", "FUNCTION"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCall:
    """`'bids/*.parquet'`, or `kafka('broker', 'topic')`: a path, or a function that connects."""

    function: str | None
    arguments: tuple[Any, ...]
    span: Span

    @property
    def is_spark(self) -> bool:
        """Whether Spark reads it by its own options: `spark('kafka')`."""
        return self.function is not None and self.function.lower() == "spark"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSource:
    """`CREATE STREAM | TABLE name (columns) SOURCE ... ORDERED BY ... LATE ... ARCHIVE ...`.

    Attributes:
        name: What queries call it.
        columns: The declared columns, with that of time; None: found out.
        source: Where it comes from.
        relation: Whether it is a table that is all there when a query starts.
        start: The column of ORDERED BY.
        end: That of UNTIL: lifetimes end there.
        keep: Whether the column of time stays visible as payload.
        delay: How late rows may be.
        heartbeat: How long a silent source is waited for.
        late: What happens to rows that are later.
        archive: The folder of ARCHIVE, where rows are kept to be read again.
        keep_age: How old rows become there; KEEP 30 DAYS.
        keep_rows: How many rows stay there; KEEP 1000 ROWS.
        chronon: How long one step of integer time is.
        options: What `WITH (name = value)` says.
        unique: Sets of columns in which no two rows ever agree: UNIQUE, PRIMARY KEY.
        rate: How many rows are expected: RATE 600 PER MINUTE, as text.
        distinct: How many values columns are expected to have: DISTINCT (item 1000).
        ordered: Whether rows come in the order of their starts: ORDERED without BY. `ties`: rows of
            one start come in one order in all copies, too: ORDERED TIES.
        keyed: Whether no two events have the same payload and start: KEYED.
        edges: The key of EDGES BY: a row holds until the next one of its key; None: no edges.
        replace: Whether an entry of that name gives way.
    """

    script: Script
    span: Span
    name: str
    source: SourceCall
    columns: pa.Schema | None = None
    relation: bool = False
    start: str | None = None
    end: str | None = None
    keep: bool = False
    delay: str | None = None
    heartbeat: str | None = None
    late: str | None = None
    archive: str | None = None
    keep_age: str | None = None
    keep_rows: int | None = None
    chronon: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    unique: tuple[tuple[str, ...], ...] = ()
    edges: tuple[str, ...] | None = None
    rate: str | None = None
    distinct: Mapping[str, float] | None = None
    ordered: bool | Literal["ties"] = False
    keyed: bool = False
    replace: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDerived:
    """`CREATE STREAM name AS query`; a view is the same."""

    script: Script
    span: Span
    name: str
    query: exp.Query
    kind: EntryKind = "STREAM"
    replace: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunction:
    """`CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE RETURN x * 2`: a name for an expression."""

    script: Script
    span: Span
    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str | None
    body: exp.Expr
    replace: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """`DROP STREAM [IF EXISTS] name`."""

    script: Script
    span: Span
    kind: EntryKind
    name: str
    if_exists: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuery:
    """`ALTER QUERY name AS query`: a running query becomes another one."""

    script: Script
    span: Span
    name: str
    query: exp.Query


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AddQuery:
    """`ADD QUERY name [TO 'target'] AS query`: a query joins those that run."""

    script: Script
    span: Span
    name: str
    to: str | None
    query: exp.Query


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DropQuery:
    """`DROP QUERY name`: one of several queries that run together leaves."""

    script: Script
    span: Span
    name: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """`SHOW STREAMS`, `SHOW TABLES`, `SHOW FUNCTIONS` or `SHOW QUERIES`."""

    script: Script
    span: Span
    what: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """`DESCRIBE [STREAM] name`."""

    script: Script
    span: Span
    name: str
    kind: EntryKind | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """`EXPLAIN query`."""

    script: Script
    span: Span
    query: exp.Query


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Include:
    """`INCLUDE 'other.sql'`: its statements stand here."""

    script: Script
    span: Span
    path: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A continuous query."""

    script: Script
    span: Span
    query: exp.Query


Statement: TypeAlias = (
    CreateSource
    | CreateDerived
    | CreateFunction
    | Drop
    | AlterQuery
    | AddQuery
    | DropQuery
    | Show
    | Describe
    | Explain
    | Include
    | Select
)
