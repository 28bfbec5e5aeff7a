"""Keep the first rows in some order, of every snapshot or of each of its groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.count_window import has_order, order_key
from anabranch.algebra.filter import check_schema
from anabranch.algebra.map import show_column
from anabranch.algebra.node import Unary
from anabranch.algebra.source import check_names
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.payload import Payload, rows_of

Ordering = tuple[Expression, bool, bool]
"""What is ordered by, whether downwards, and whether NULLs come first."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Unary):
    """At every instant the first `k` payloads of each group (TOP-K of Kraemer 2007, 11.5.7).

    A payload that holds several times counts several times; of the last one there may be fewer
    copies in the output than in the input. NaN is larger than all numbers. NULL is a group of its
    own; without `partition_by` there is one group.

    Payloads that are equal in `order_by` stand in the order of their columns from left to right,
    upwards, NULL first; values without an order (lists, structs, maps) go by their hash. So the
    answer never depends on the order of arrival.
    """

    identity: ClassVar[Identity] = Identity(
        "TopK", ("input", "k", "order_by", "partition_by"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True,
        keeps_payloads=True,
        keeps_length=True,
        writes_anew=True,
    )

    k: int
    order_by: tuple[Ordering, ...]
    partition_by: tuple[tuple[str, Expression], ...] = ()

    def __post_init__(self) -> None:
        if self.k < 1:
            raise PlanError(
                f"the number of first rows cannot be {self.k}",
                where="TopK",
                hint="use a positive number",
            )
        if not self.order_by:
            raise PlanError(
                "the first rows of a stream need an order",
                where=self.label,
                hint="name at least one expression to order by",
            )
        ordered = [expression for expression, _, _ in self.order_by]
        for expression in [*ordered, *(key for _, key in self.partition_by)]:
            check_schema(expression, self.input)
        check_names([name for name, _ in self.partition_by], where=self.label)
        for expression in ordered:
            if not has_order(expression.type):
                raise PlanError(
                    f"values of type {expression.type} have no order",
                    where=f"{self.label}: {expression.sql}",
                    hint="order by a number, a string or a time",
                )

    @property
    def properties(self) -> Properties:
        """No new copies; a better row may take the place of one that was sent before."""
        of_input = self.input.properties
        single = of_input.single or (self.k == 1 and not self.partition_by)
        return Properties(no_duplicates=of_input.no_duplicates or self.k == 1, single=single)

    @property
    def label(self) -> str:
        """`TopK 3 by price DESC per itemID`."""
        orders = ", ".join(show_ordering(ordering) for ordering in self.order_by)
        keys = ", ".join(show_column(name, key) for name, key in self.partition_by)
        return f"TopK {self.k} by {orders}" + (f" per {keys}" if keys else "")

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Per group and span of one snapshot, the first rows of that snapshot."""
        (rows,) = inputs
        payloads = list(rows.steps)
        keys = images([key for _, key in self.partition_by], payloads, self.schema)
        ranks = {
            payload: rank
            for rank, payload in enumerate(in_order(payloads, self.order_by, self.schema))
        }

        def best() -> Iterator[tuple[Payload, int, int]]:
            for part in rows.group(keys.__getitem__).values():
                for start, end, snapshot in part.segments():
                    for payload in _first(snapshot, self.k, ranks):
                        yield payload, start, end

        return LogicalStream.of(best())


def in_order(
    payloads: list[Payload], order_by: Sequence[Ordering], schema: pa.Schema
) -> list[Payload]:
    """Sorted by one key after the other, the most important one last: sorting is stable."""
    ties = _tie_keys(payloads, schema)
    values = images([expression for expression, _, _ in order_by], payloads, schema)
    ordered = sorted(payloads, key=ties.__getitem__)
    for index, (_, descending, nulls_first) in reversed(list(enumerate(order_by))):
        nulls = [payload for payload in ordered if values[payload][index] is None]
        others = [payload for payload in ordered if values[payload][index] is not None]
        others.sort(key=lambda each: order_key(values[each][index]), reverse=descending)
        ordered = nulls + others if nulls_first else others + nulls
    return ordered


def show_ordering(ordering: Ordering) -> str:
    """`price DESC`; where NULLs stand is said where it is not as usual in Spark."""
    expression, descending, nulls_first = ordering
    text = expression.sql + (" DESC" if descending else "")
    if nulls_first == descending:
        text += " NULLS FIRST" if nulls_first else " NULLS LAST"
    return text


def _first(snapshot: Counter[Payload], k: int, ranks: dict[Payload, int]) -> list[Payload]:
    return sorted(snapshot.elements(), key=ranks.__getitem__)[:k]


def _tie_keys(payloads: list[Payload], schema: pa.Schema) -> dict[Payload, tuple[Any, ...]]:
    """What decides between payloads that are equal in what is ordered by: their columns."""
    columns: list[list[tuple[Any, ...]]] = []
    for index, column in enumerate(rows_of(payloads, schema).columns):
        if has_order(column.type):
            columns.append([order_key(payload[index]) for payload in payloads])
        else:
            hashes = (stable_hash([column], len(payloads), salt).tolist() for salt in (0, 1))
            columns.append(list(zip(*hashes)))
    return dict(zip(payloads, zip(*columns))) if columns else dict.fromkeys(payloads, ())
