"""Insertions, deletions and snapshots of a relation, as points (istream, dstream, rstream)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, final, get_args

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.forms.split import split_properties
from anabranch.algebra.node import Unary
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Payload, Steps
from anabranch.model.time import Duration, Time, subtract_saturating

StreamKind = Literal["insertions", "deletions", "snapshots"]
Anchor = Literal["last_valid", "first_invalid"]

_NAMES: Final = {"insertions": "Istream", "deletions": "Dstream", "snapshots": "Rstream"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToStream(Unary):
    """Istream, Dstream and Rstream (Kraemer 2007, 17.2), with m(t) = in(p, t).

    `insertions`: out(p, t) = max(0, m(t) - m(t - 1)). `deletions`: max(0, m(t - 1) - m(t)), at t
    itself (`first_invalid`, as in CQL) or at t - 1 (`last_valid`, as in PIPES). What never ends
    is never deleted. `snapshots`: the same snapshots, written as points.
    """

    identity: ClassVar[Identity] = Identity("ToStream", ("input", "kind", "anchor"), by_hash=True)

    traits: ClassVar[Traits] = Traits(keeps_payloads=True, retimes=True)

    kind: StreamKind
    anchor: Anchor = "last_valid"

    def __post_init__(self) -> None:
        if self.kind not in get_args(StreamKind):
            raise PlanError(
                f"a stream cannot be made of {self.kind}",
                hint=f"it can be made of: {', '.join(get_args(StreamKind))}",
            )
        if self.anchor not in get_args(Anchor):
            raise PlanError(
                f"a deletion cannot be placed at '{self.anchor}'",
                hint=f"it can be placed at: {', '.join(get_args(Anchor))}",
            )

    @property
    def looks_ahead(self) -> bool:
        """Whether the output at an instant depends on the next instant of the input."""
        return self.kind == "deletions" and self.anchor == "last_valid"

    @property
    def remembers(self) -> bool:
        """Yes, but for the snapshots of points: each of these is its own only snapshot."""
        return not (self.kind == "snapshots" and self.input.properties.only_points)

    @property
    def properties(self) -> Properties:
        """Points; what begins where another one ends withdraws the end, or the beginning."""
        of_input = self.input.properties
        if self.kind == "snapshots":
            return split_properties(of_input)
        return replace(
            Properties(),
            only_points=True,
            no_duplicates=of_input.no_duplicates,
            single=of_input.single,
        )

    @property
    def label(self) -> str:
        """`Dstream first_invalid`."""
        anchored = self.kind == "deletions" and not self.looks_ahead
        return _NAMES[self.kind] + (f" {self.anchor}" if anchored else "")

    def promise(self, *stables: Time) -> Time:
        """As far as the input is, less the instant that is looked ahead."""
        stable = Time(min(stables))
        return subtract_saturating(stable, Duration(1)) if self.looks_ahead else stable

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Compare every snapshot with the one before it."""
        (rows,) = inputs
        if self.kind == "snapshots":
            return rows

        def points() -> Iterator[tuple[Payload, int, int]]:
            for payload, steps in rows.steps.items():
                for instant, jump in jumps(steps):
                    at = instant - 1 if self.looks_ahead else instant
                    many = jump if self.kind == "insertions" else -jump
                    yield from [(payload, at, at + 1)] * max(many, 0)

        return LogicalStream.of(points())


def jumps(steps: Steps) -> Iterator[tuple[int, int]]:
    """By how much a multiplicity rises (or falls, below 0) at each instant where it changes."""
    before = 0
    for instant, count in steps:
        yield instant, count - before
        before = count
