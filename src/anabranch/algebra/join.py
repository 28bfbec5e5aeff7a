"""Combine what holds at the same instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Literal, final, get_args

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Node, check_clocks
from anabranch.algebra.source import check_names
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Steps, combine_steps
from anabranch.model.payload import Payload

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
Side = Literal["left", "right"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Node):
    """Pairs of payloads that hold together and satisfy a predicate (Kraemer 2007, 8.1.4, 8.1.9).

    Only what is valid at the same instant meets: multiplicities multiply. `left`, `right` and
    `full` add what finds no partner at an instant, padded with NULLs; `semi` keeps the left
    payloads that find one, each as often as it is there, and `anti` those that do not.

    Without a predicate everything meets everything (the product). `broadcast` names the side
    that is small enough to be sent to every shard.
    """

    identity: ClassVar[Identity] = Identity(
        "Join", ("kind", "left", "right", "predicate", "broadcast"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(snapshot_reducible=True)

    kind: JoinKind
    left: Node
    right: Node
    predicate: Expression | None = None
    broadcast: Side | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(JoinKind):
            raise PlanError(
                f"there is no join of kind '{self.kind}'",
                hint=f"kinds are: {', '.join(get_args(JoinKind))}",
            )
        check_clocks(self.inputs, where=self.label)
        check_names(self.both.names, where=f"{self.label}: the columns of both sides together")
        if self.predicate is not None:
            if self.predicate.schema != self.both:
                raise PlanError(
                    f"'{self.predicate.sql}' was bound to columns other than those of its input",
                    where=f"over {self.label}: {', '.join(self.both.names)}",
                    hint="parse the predicate with the columns of both sides",
                )
            if not pa.types.is_boolean(self.predicate.type):
                raise PlanError(
                    f"a join needs a condition, not a value of type {self.predicate.type}",
                    where=self.label,
                    hint="compare a column of one side with one of the other",
                )
        if self.broadcast is not None and self.broadcast in self._kept_sides:
            raise PlanError(
                f"the {self.broadcast} side of a {self.kind} join cannot be broadcast",
                where=self.label,
                hint="a side whose unmatched rows are in the result must not be copied to every "
                "shard",
            )

    @property
    def _kept_sides(self) -> tuple[Side, ...]:
        """The sides whose payloads can leave without a partner, or only once."""
        kept: dict[JoinKind, tuple[Side, ...]] = {
            "inner": (),
            "left": ("left",),
            "right": ("right",),
            "full": ("left", "right"),
            "semi": ("left",),
            "anti": ("left",),
        }
        return kept[self.kind]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    @property
    def both(self) -> pa.Schema:
        """The columns that a predicate sees: left, then right."""
        return pa.schema([*self.left.schema, *self.right.schema])

    @property
    def schema(self) -> pa.Schema:
        """The columns of both sides; those of the left one for `semi` and `anti`."""
        return self.left.schema if self.kind in ("semi", "anti") else self.both

    @property
    def properties(self) -> Properties:
        """Pairs of inserts are inserts; a pair lives no longer than either part."""
        left, right = self.left.properties, self.right.properties
        if self.kind in ("semi", "anti"):
            return Properties(no_duplicates=left.no_duplicates, single=left.single)
        alone = left.no_duplicates and right.no_duplicates
        if self.kind != "inner":
            # What has no partner is written with the longest lifetimes, also that of points.
            return Properties(no_duplicates=alone)
        return Properties(
            insert_only=left.insert_only and right.insert_only,
            only_points=left.only_points or right.only_points,
            no_duplicates=alone,
            single=left.single and right.single,
        )

    @property
    def label(self) -> str:
        """`Left join itemID = auction`."""
        name = "Product" if self.predicate is None else "Join"
        kind = "" if self.kind == "inner" else f"{self.kind.capitalize()} "
        text = "" if self.predicate is None else f" {self.predicate.sql}"
        return f"{kind}{name.lower() if kind else name}{text}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """For every pair that satisfies the predicate the product of both multiplicities."""
        left, right = inputs
        partners = self._partners(left, right)

        def events() -> Iterator[tuple[Payload, Steps]]:
            if self.kind not in ("semi", "anti"):
                for mine, theirs in partners:
                    there = combine_steps(left.steps[mine], right.steps[theirs], int.__mul__)
                    yield (*mine, *theirs), tuple(there)
            for side, streams in (("left", (left, right)), ("right", (right, left))):
                if side in self._kept_sides:
                    yield from self._alone(side, *streams, partners)

        parts = [LogicalStream.of_steps({payload: there}) for payload, there in events()]
        return LogicalStream().union(*parts)

    def _partners(self, left: LogicalStream, right: LogicalStream) -> list[tuple[Payload, Payload]]:
        pairs = [(mine, theirs) for mine in left.steps for theirs in right.steps]
        if self.predicate is None:
            return pairs
        joined = [(*mine, *theirs) for mine, theirs in pairs]
        verdicts = images([self.predicate], joined, self.both)
        return [pair for pair, row in zip(pairs, joined, strict=True) if verdicts[row] == (True,)]

    def _alone(
        self,
        side: str,
        mine: LogicalStream,
        theirs: LogicalStream,
        partners: list[tuple[Payload, Payload]],
    ) -> Iterator[tuple[Payload, Steps]]:
        """The payloads of a side where they find no partner (where they find one, for `semi`)."""
        wanted: Callable[[int, int], int] = (
            (lambda count, others: count if others else 0)
            if self.kind == "semi"
            else (lambda count, others: 0 if others else count)
        )
        for payload, there in mine.steps.items():
            met = [pair[side == "left"] for pair in partners if pair[side != "left"] == payload]
            others: Steps = reduce(
                lambda sum_, each: tuple(combine_steps(sum_, theirs.steps[each], int.__add__)),
                met,
                (),
            )
            yield self._padded(side, payload), tuple(combine_steps(there, others, wanted))

    def _padded(self, side: str, payload: Payload) -> Payload:
        if self.kind in ("semi", "anti"):
            return payload
        missing = self.right.schema if side == "left" else self.left.schema
        nulls = (None,) * len(missing)
        return (*payload, *nulls) if side == "left" else (*nulls, *payload)
