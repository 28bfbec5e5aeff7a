"""Hold rows for as long as others follow soon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.filter import check_schema
from anabranch.algebra.granularity import show_span
from anabranch.algebra.map import show_column
from anabranch.algebra.node import Unary, clock_of
from anabranch.algebra.source import check_names
from anabranch.algebra.traits import Traits
from anabranch.algebra.window_columns import (
    Columns,
    bounds,
    check_columns,
    check_points,
    with_columns,
)
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.time import FOREVER, Duration


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow(Unary):
    """Hold every point for the whole of its session.

    A point at t covers [t, t + gap). Points of one group whose covers overlap make a session
    [s, e): from the first of them to the end of the last cover. So two points that follow each
    other are in one session if they are less than `gap` apart. Then

        out(p, u) = how many points of p are in the session [s, e) with s <= u < e

    and 0 between sessions. With `columns` a row is p + (s, e). NULL is a group of its own;
    without `partition_by` there is one group.

    A point changes its session from the start on. So what is known of a session that is not over
    may change as a whole: the output is settled up to the start of the earliest session that
    begins before the input's stable point and ends after it, and else as far as the input is.
    """

    identity: ClassVar[Identity] = Identity(
        "SessionWindow", ("input", "gap", "partition_by", "columns"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(keeps_payloads=True)

    holds_back: ClassVar[bool] = True

    gap: Duration
    partition_by: tuple[tuple[str, Expression], ...] = ()
    columns: Columns | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.gap < FOREVER:
            raise PlanError(
                f"a session cannot end after a gap of {show_span(self.gap, self.input)}",
                hint="use a positive duration: the time without rows after which it is over",
            )
        for _, key in self.partition_by:
            check_schema(key, self.input)
        check_names([name for name, _ in self.partition_by], where=self.label)
        check_points(self.input, where=self.label)
        if self.columns is not None:
            check_columns(self.input, self.columns, where=self.label)

    @property
    def schema(self) -> pa.Schema:
        """That of the input; the bounds of the session may follow."""
        return with_columns(self.input, self.columns)

    @property
    def properties(self) -> Properties:
        """Nothing: a row holds for longer when others follow."""
        return Properties()

    @property
    def label(self) -> str:
        """`SessionWindow 30m by user with window_start, window_end`."""
        parts = ["SessionWindow", show_span(self.gap, self.input)]
        if self.partition_by:
            keys = ", ".join(show_column(name, key) for name, key in self.partition_by)
            parts.append(f"by {keys}")
        if self.columns:
            parts.append(f"with {', '.join(self.columns)}")
        return " ".join(parts)

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Per group, every point during its session."""
        (rows,) = inputs
        return LogicalStream.of(self.events(rows))

    def events(self, rows: LogicalStream) -> list[tuple[Payload, int, int]]:
        """Per point its payload and its session."""
        keys = images([key for _, key in self.partition_by], list(rows.steps), self.input.schema)
        clock = clock_of(self.input)

        def held() -> Iterator[tuple[Payload, int, int]]:
            for part in rows.group(keys.__getitem__).values():
                for start, end, payloads in self._sessions(part):
                    window = bounds(start, end, clock) if self.columns else ()
                    for payload in payloads:
                        yield (*payload, *window), start, end

        return list(held())

    def _sessions(self, part: LogicalStream) -> Iterator[tuple[int, int, list[Payload]]]:
        """The sessions of a group `(start, end, payloads of all points)`."""
        points = sorted(
            ((t, payload) for payload, start, end in part.events() for t in range(start, end)),
            key=lambda point: point[0],
        )
        first = last = 0
        payloads: list[Payload] = []
        for t, payload in points:
            if payloads and t - last >= self.gap:
                yield first, last + self.gap, payloads
                payloads = []
            first = first if payloads else t
            last = t
            payloads.append(payload)
        if payloads:
            yield first, min(last + self.gap, FOREVER), payloads
