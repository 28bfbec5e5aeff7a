"""Keep the last rows, of a stream or of each of its groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.filter import check_schema
from anabranch.algebra.map import show_column
from anabranch.algebra.node import Unary
from anabranch.algebra.source import check_names
from anabranch.algebra.time_window import UNBOUNDED
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError, StreamError
from anabranch.expressions.expression import Expression, images
from anabranch.expressions.plain_type import plain_type
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.payload import Payload, rows_of, show_payload
from anabranch.model.time import FOREVER

MOST_ELEMENTS: Final = 1_000_000
"""`denote` gives up above this many elements of one group."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CountWindow(Unary):
    """The last `rows` elements of each group (Kraemer 2007, 8.2.2, 8.2.3 and 17.1.2).

    Every instant at which a payload holds is one element of its group, numbered 1, 2, ... by
    time. With n(t) elements up to t and k = floor(n(t) / slide) * slide, the window at t holds
    the elements k - rows + 1 to k. A size of UNBOUNDED forgets nothing. NULL is a group of its
    own; without `partition_by` there is one group.

    Elements at one instant are numbered by the values of `order_by`, then by the columns of the
    payload from left to right, so that the order is total: NULL comes first, NaN last, and values
    without an order (lists, structs, maps) go by their hash. Without `order_by` no two elements
    of a group may be at one instant once it is settled; until then they are numbered the same way.
    """

    identity: ClassVar[Identity] = Identity(
        "CountWindow", ("input", "rows", "slide", "partition_by", "order_by"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(keeps_payloads=True)

    rows: int
    slide: int = 1
    partition_by: tuple[tuple[str, Expression], ...] = ()
    order_by: tuple[Expression, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= UNBOUNDED:
            raise PlanError(
                f"a window cannot hold {self.rows} rows",
                hint="use a positive number, or UNBOUNDED for an unbounded window",
            )
        if not 1 <= self.slide < UNBOUNDED:
            raise PlanError(
                f"a window cannot slide by {self.slide} rows",
                hint="use a positive number; 1 slides with every row",
            )
        for expression in [*(key for _, key in self.partition_by), *self.order_by]:
            check_schema(expression, self.input)
        check_names([name for name, _ in self.partition_by], where=self.label)
        for expression in self.order_by:
            if not has_order(expression.type):
                raise PlanError(
                    f"values of type {expression.type} have no order",
                    where=f"{self.label}: {expression.sql}",
                    hint="order by a number, a string or a time",
                )

    @property
    def properties(self) -> Properties:
        """Nothing: a row holds until later ones take its place."""
        return Properties()

    @property
    def label(self) -> str:
        """`CountWindow 3 slide 2 by itemID order by price`."""
        parts = ["CountWindow", "unbounded" if self.rows == UNBOUNDED else str(self.rows)]
        if self.slide > 1:
            parts.append(f"slide {self.slide}")
        if self.partition_by:
            keys = ", ".join(show_column(name, key) for name, key in self.partition_by)
            parts.append(f"by {keys}")
        if self.order_by:
            parts.append(f"order by {', '.join(each.sql for each in self.order_by)}")
        return " ".join(parts)

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Every element while it is in the window."""
        (rows,) = inputs
        return LogicalStream.of(self.events(rows))

    def events(self, rows: LogicalStream) -> list[tuple[Payload, int, int]]:
        """Per element its payload, the instant at which it enters the window, and leaves it."""
        keys = images([key for _, key in self.partition_by], list(rows.steps), self.schema)
        tie_order = self._tie_keys(list(rows.steps))
        found: list[tuple[Payload, int, int]] = []
        for part in rows.group(keys.__getitem__).values():
            elements = sorted(self._elements(part), key=lambda e: (e[0], tie_order[e[1]]))
            found += self._held(elements)
        return found

    def _held(self, elements: list[tuple[int, Payload]]) -> Iterator[tuple[Payload, int, int]]:
        low = high = 0
        entered: dict[int, int] = {}
        for seen, (instant, _) in enumerate(elements, start=1):
            if seen < len(elements) and elements[seen][0] == instant:
                continue
            last = seen // self.slide * self.slide
            first = 0 if self.rows == UNBOUNDED else max(last - self.rows, 0)
            entered |= dict.fromkeys(range(high, last), instant)
            for number in range(low, first):
                if entered[number] < instant:
                    yield elements[number][1], entered[number], instant
            low, high = first, last
        for number in range(low, high):
            yield elements[number][1], entered[number], int(FOREVER)

    def _elements(self, part: LogicalStream) -> Iterator[tuple[int, Payload]]:
        """Every instant of every lifetime of a group."""
        count = 0
        for payload, start, end in part.events():
            count += end - start
            if count > MOST_ELEMENTS:
                length = "without end" if end == FOREVER else f"of {end - start} instants"
                raise StreamError(
                    f"a lifetime {length} cannot be counted",
                    where=f"{self.label}: payload {show_payload(payload)} from instant {start} on",
                    hint="every instant of a lifetime counts as an element; put the window on a "
                    "stream of points",
                )
            for instant in range(start, end):
                yield instant, payload

    def _tie_keys(self, tuples: list[Payload]) -> dict[Payload, tuple[Any, ...]]:
        """What decides between elements at one instant."""
        given = images(self.order_by, tuples, self.schema)
        columns: list[list[tuple[Any, ...]]] = []
        for index, column in enumerate(rows_of(tuples, self.schema).columns):
            if has_order(column.type):
                columns.append([order_key(payload[index]) for payload in tuples])
            else:
                hashes = (stable_hash([column], len(tuples), salt).tolist() for salt in (0, 1))
                columns.append(list(zip(*hashes)))
        rest = zip(*columns) if columns else iter([()] * len(tuples))
        return {
            payload: (*map(order_key, given[payload]), *others)
            for payload, others in zip(tuples, rest)
        }


def has_order(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared: not those of nested types and intervals."""
    plain = plain_type(kind)
    return not (pa.types.is_nested(plain) or pa.types.is_interval(plain))


def order_key(value: Any) -> tuple[Any, ...]:
    """A frozen value of a type with an order, such that keys compare: NULL first, NaN last.

    >>> sorted([2.0, None, float("nan"), -1.0], key=order_key)
    [None, -1.0, 2.0, nan]
    """
    if value is None:
        return (0,)
    return (2,) if value != value else (1, value)
