"""Lifetimes out of signed points: +1 begins one, -1 ends one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.forms.to_signed import SIGN
from anabranch.algebra.node import Unary
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError, StreamError
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream, Payload
from anabranch.model.payload import show_payload
from anabranch.model.time import format_time

MOST_INSTANTS: Final = 1_000_000
"""A lifetime of more instants is no point that was written carelessly: it is refused."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FromSigned(Unary):
    """The inverse of ToSigned: out(p, t) = max(0, the sum of the signs of p at instants <= t).

    A sum below 0 before the stable point is an error; after it, the missing +1 may still come.
    Every instant of a longer lifetime counts as a point of its own (Kraemer 2007, 17.3).
    """

    identity: ClassVar[Identity] = Identity("FromSigned", ("input", "column"), by_hash=True)

    traits: ClassVar[Traits] = Traits(retimes=True)

    column: str = SIGN

    def __post_init__(self) -> None:
        names = self.input.schema.names
        if self.column not in names:
            raise PlanError(
                f"there is no column '{self.column}' with signs",
                where=f"over {self.input.label}: {', '.join(names)}",
                hint="name the column that holds 1 for a beginning and -1 for an end",
            )
        kind = self.input.schema.field(self.column).type
        if not pa.types.is_signed_integer(kind):
            raise PlanError(
                f"column '{self.column}' of type {kind} cannot hold signs",
                where=f"over {self.input.label}",
                hint="cast it to a signed integer",
            )

    @property
    def schema(self) -> pa.Schema:
        """That of the input without the sign."""
        return self.input.schema.remove(self.sign_index)

    @property
    def sign_index(self) -> int:
        """The index of the sign among the columns of the input."""
        return int(self.input.schema.get_field_index(self.column))

    @property
    def properties(self) -> Properties:
        """Nothing: a later point changes what holds from there on."""
        return Properties()

    @property
    def label(self) -> str:
        """`FromSigned`."""
        return "FromSigned" if self.column == SIGN else f"FromSigned {self.column}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Add up the signs of every payload as time goes on."""
        (rows,) = inputs
        changes: dict[Payload, Counter[int]] = defaultdict(Counter)
        for row, start, end in rows.events():
            payload, sign = self._apart(row, start)
            if end - start > MOST_INSTANTS:
                raise too_long(self.label, end - start)
            for instant in range(start, end):
                changes[payload][instant] += sign
        return LogicalStream.of_steps({payload: _sums(there) for payload, there in changes.items()})

    def _apart(self, row: Payload, start: int) -> tuple[Payload, int]:
        sign = row[self.sign_index]
        if sign not in (1, -1):
            raise no_sign(self.label, row, start)
        return (*row[: self.sign_index], *row[self.sign_index + 1 :]), sign


def _sums(changes: Counter[int]) -> Iterator[tuple[int, int]]:
    total = 0
    for instant in sorted(changes):
        total += changes[instant]
        yield instant, max(total, 0)


def no_sign(label: str, row: Payload, start: int) -> StreamError:
    """The error for a row with another sign than 1 and -1."""
    return StreamError(
        "a sign is neither 1 nor -1",
        where=f"{label}: {show_payload(row)} at instant {format_time(start)}",
        hint="a signed stream has 1 where an event begins and -1 where it ends",
    )


def too_long(label: str, instants: int) -> StreamError:
    """The error for signs that hold for very long."""
    return StreamError(
        f"a sign holds at {instants} instants",
        where=label,
        hint="signs are points: every instant counts as a beginning or an end of its own",
    )
