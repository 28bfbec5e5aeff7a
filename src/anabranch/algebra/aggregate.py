"""Sum up every snapshot, as a whole or per group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import pyarrow as pa

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.filter import check_schema
from anabranch.algebra.map import show_column
from anabranch.algebra.node import Unary
from anabranch.algebra.source import check_names
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation(Unary):
    """One row per group and instant at which the group is not empty (Kraemer 2007, 8.1.8-9).

    Multiplicities are weights: a payload that holds twice counts twice. Nothing valid gives no
    row, not a count of 0. NULL is a group of its own.
    """

    identity: ClassVar[Identity] = Identity(
        "Aggregate", ("input", "group_by", "aggregates"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(snapshot_reducible=True, keeps_length=True, writes_anew=True)

    group_by: tuple[tuple[str, Expression], ...] = ()
    aggregates: tuple[tuple[str, AggregateCall], ...] = ()

    def __post_init__(self) -> None:
        if not self.group_by and not self.aggregates:
            raise PlanError(
                "an aggregation needs an aggregate or a group",
                hint="count(*) is the simplest aggregate",
            )
        for expression in self.reads:
            check_schema(expression, self.input)
        check_names(self.schema.names, where=self.label)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the group, then the aggregates."""
        keys = [(name, key.type) for name, key in self.group_by]
        return pa.schema([*keys, *((name, call.type) for name, call in self.aggregates)])

    @property
    def reads(self) -> tuple[Expression, ...]:
        """Groups and arguments."""
        arguments = (call.argument for _, call in self.aggregates)
        return (
            *(key for _, key in self.group_by),
            *(argument for argument in arguments if argument is not None),
        )

    @property
    def properties(self) -> Properties:
        """One row per group; a later row changes the sum of earlier ones."""
        return Properties(no_duplicates=True, single=not self.group_by)

    @property
    def label(self) -> str:
        """`Aggregate max(price) AS highest by itemID`."""
        calls = ", ".join(
            call.label if call.label == name else f"{call.label} AS {name}"
            for name, call in self.aggregates
        )
        keys = ", ".join(show_column(name, key) for name, key in self.group_by)
        return "Aggregate" + (f" {calls}" if calls else "") + (f" by {keys}" if keys else "")

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Per group and span of one snapshot, the aggregates of that snapshot."""
        (rows,) = inputs
        keys = images([key for _, key in self.group_by], list(rows.steps), self.input.schema)
        arguments = self._arguments(list(rows.steps))

        def sums() -> Iterator[tuple[Payload, int, int]]:
            for group, part in rows.group(keys.__getitem__).items():
                for start, end, snapshot in part.segments():
                    yield (*group, *self._sum_up(snapshot, arguments)), start, end

        return LogicalStream.of(sums())

    def _arguments(self, tuples: list[Payload]) -> dict[Payload, Payload]:
        """For each payload the value every aggregate takes from it (nothing for `*`)."""
        given = [call.argument for _, call in self.aggregates if call.argument is not None]
        values = images(given, tuples, self.input.schema)
        takes = [call.argument is not None for _, call in self.aggregates]

        def spread(payload: Payload) -> Payload:
            left = iter(values[payload])
            return tuple(next(left) if taken else None for taken in takes)

        return {payload: spread(payload) for payload in tuples}

    def _sum_up(self, snapshot: Counter[Payload], arguments: dict[Payload, Payload]) -> Payload:
        return tuple(
            call.denote([(arguments[payload][position], n) for payload, n in snapshot.items()])
            for position, (_, call) in enumerate(self.aggregates)
        )
