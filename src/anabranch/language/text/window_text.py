"""Window clauses of a query as they were written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from sqlglot import exp

from anabranch.language.text.script import Span


@final
@dataclass(frozen=True, slots=True)
class Amount:
    """`10 MINUTES`, or a count without a unit."""

    text: str
    unit: str | None
    span: Span

    @property
    def written(self) -> str:
        """As a text: `10 MINUTES`."""
        return self.text if self.unit is None else f"{self.text} {self.unit}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowText:
    """`WINDOW(PARTITION BY sellerID ROWS 10 SLIDE 2)`.

    Attributes:
        kind: By time or by count.
        size: How much it holds; None is UNBOUNDED.
        least: With `MIN a, MAX b` the size is b, and may shrink down to this.
        slide: How far it moves at once.
        partition_by: Every group has a window of its own.
        order_by: What orders rows of one instant.
        span: Where all of it stands.
    """

    kind: Literal["RANGE", "ROWS"]
    size: Amount | None
    least: Amount | None = None
    slide: Amount | None = None
    partition_by: tuple[exp.Expr, ...] = ()
    order_by: tuple[exp.Expr, ...] = ()
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """`FOR KNOWN AS OF 3`, or `FOR KNOWN AS OF TIMESTAMP '2024-01-01 12:00:00'`.

    Attributes:
        revision: The number of the revision; None: there is an instant.
        instant: The text of the timestamp.
        span: Where all of it stands.
    """

    revision: int | None = None
    instant: str | None = None
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GranularityText:
    """`GRANULARITY(1 MINUTE)`, or `GRANULARITY(COARSEST 2 HOURS, FINEST 10 SECONDS)`."""

    granule: Amount
    coarsest: Amount | None = None
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MergeText:
    """`MERGE(a, b, inserts => 'leading')`."""

    tables: tuple[exp.Expr, ...]
    options: tuple[tuple[str, str, Span], ...]
    span: Span


@final
@dataclass(frozen=True, slots=True)
class ArgumentText:
    """An argument of a function in FROM: a text, a word, a number, or a number with a unit."""

    text: str
    unit: str | None
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFunctionText:
    """`SHIFT(Bid, 5 MINUTES)`, `CLIP(Bid, start => 10)`, `MAX_UNION(a, b)`.

    Attributes:
        name: In capitals.
        tables: The streams, first of all arguments.
        given: Arguments in the order in which they are written.
        named: Arguments by name, in small letters.
        span: Where all of it stands.
    """

    name: str
    tables: tuple[exp.Expr, ...]
    given: tuple[ArgumentText, ...] = ()
    named: tuple[tuple[str, ArgumentText], ...] = ()
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AxisText:
    """`TUMBLE(bid, DESCRIPTOR(dateTime), INTERVAL 10 SECONDS)` and its like.

    Attributes:
        function: TUMBLE, HOP or SESSION.
        descriptor: The column of time, if it is named.
        amounts: Durations in the order in which they are written, by name where they have one.
        partition_by: Of SESSION.
        span: Where all of it stands.
    """

    function: str
    descriptor: exp.Expr | None
    amounts: tuple[tuple[str | None, Amount], ...]
    partition_by: tuple[exp.Expr, ...] = ()
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AxisWindowText:
    """`HOPPING(10 MINUTES, 1 MINUTE, clip => 'full')`: windows of the time axis.

    Attributes:
        function: HOPPING, TUMBLING, SNAPSHOT, COUNTING or SESSION.
        amounts: Sizes in the order in which they are written.
        offset: Where the first window begins, behind zero.
        by_end: Of COUNTING: ends are counted, not starts.
        options: Names in small letters, values, and where they stand.
        span: Where all of it stands.
    """

    function: str
    amounts: tuple[Amount, ...] = ()
    offset: Amount | None = None
    by_end: bool = False
    options: tuple[tuple[str, str, Span], ...] = ()
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorText:
    """`followed_by(Bid PARTITION BY itemID, kind, HOPPING(10, 1), first => 'a')` in FROM.

    Attributes:
        name: Of the module.
        table: What it is applied to.
        partition_by: Every group has windows of its own.
        arguments: Columns, and parameters behind them.
        named: Parameters by name.
        windows: There must be one.
        span: Where all of it stands.
    """

    name: str
    table: exp.Expr
    partition_by: tuple[exp.Expr, ...] = ()
    arguments: tuple[exp.Expr, ...] = ()
    named: tuple[tuple[str, exp.Expr], ...] = ()
    windows: tuple[AxisWindowText, ...] = ()
    span: Span
