"""Number the rows of every snapshot in some order, and look at the rows before and after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, final, get_args

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.count_window import has_order, order_key
from anabranch.algebra.filter import check_schema
from anabranch.algebra.map import show_column
from anabranch.algebra.node import Unary
from anabranch.algebra.source import check_names
from anabranch.algebra.top_k import Ordering, in_order, show_ordering
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload

RankFunction = Literal["row_number", "rank", "dense_rank", "lag", "lead"]
FUNCTIONS: Final[tuple[RankFunction, ...]] = get_args(RankFunction)
NEIGHBOURS: Final = ("lag", "lead")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RankCall:
    """One column about the position of a row among the others: `lag(price, 1)`.

    Attributes:
        function: What is computed.
        argument: Of `lag` and `lead`, what is taken from the other row.
        offset: Of `lag` and `lead`, how many rows before or after.
        default: Of `lag` and `lead`, the value where there is no such row; NULL if None. It is
            computed from the row itself.
    """

    identity: ClassVar[Identity] = Identity(
        "RankCall", ("function", "argument", "offset", "default")
    )

    function: RankFunction
    argument: Expression | None = None
    offset: int = 1
    default: Expression | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise PlanError(
                f"there is no ranking function '{self.function}'",
                hint=f"ranking functions are: {', '.join(FUNCTIONS)}",
            )
        if (self.argument is not None) != (self.function in NEIGHBOURS):
            needs = "takes no" if self.argument is not None else "needs an"
            raise PlanError(f"{self.function} {needs} argument", hint="write LAG(x), RANK()")
        if self.offset < 0:
            raise PlanError(
                f"{self.function} cannot look {self.offset} rows away",
                where=self.label,
                hint="use 0 or a positive number; LEAD looks the other way",
            )
        if self.default is not None and self.default.type != self.type:
            raise PlanError(
                f"the default of {self.function} has the type {self.default.type}, "
                f"its argument {self.type}",
                where=self.label,
                hint="cast one of them",
            )

    @property
    def type(self) -> pa.DataType:
        """The type of the column: INT for numbers, as in Spark."""
        return pa.int32() if self.argument is None else self.argument.type

    @property
    def steps(self) -> int:
        """How far the other row is behind this one."""
        return -self.offset if self.function == "lag" else self.offset

    @property
    def label(self) -> str:
        """`lag(price, 1)`."""
        if self.argument is None:
            return f"{self.function}()"
        more = "" if self.default is None else f", {self.default.sql}"
        return f"{self.function}({self.argument.sql}, {self.offset}{more})"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Unary):
    """At every instant each row of a group with its number in an order, or with its neighbours.

    Rows stand as those of `TopK` do: by `order_by`, and rows that are equal in it by their columns
    from left to right. `row_number` counts them so. `rank` and `dense_rank` are the same for rows
    that are equal in `order_by`. A payload that holds twice is two rows next to each other.
    """

    identity: ClassVar[Identity] = Identity(
        "Ranking", ("input", "columns", "order_by", "partition_by"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(snapshot_reducible=True, writes_anew=True)

    columns: tuple[tuple[str, RankCall], ...]
    order_by: tuple[Ordering, ...]
    partition_by: tuple[tuple[str, Expression], ...] = ()

    def __post_init__(self) -> None:
        if not self.order_by:
            raise PlanError(
                "the numbers of rows need an order",
                where="Ranking",
                hint="name at least one expression to order by",
            )
        ordered = [expression for expression, _, _ in self.order_by]
        calls = [call for _, call in self.columns]
        used = [*ordered, *(key for _, key in self.partition_by)]
        used += [each for call in calls for each in (call.argument, call.default) if each]
        for expression in used:
            check_schema(expression, self.input)
        names = [*self.input.schema.names, *(name for name, _ in self.columns)]
        check_names(names, where=self.label)
        for expression in ordered:
            if not has_order(expression.type):
                raise PlanError(
                    f"values of type {expression.type} have no order",
                    where=f"{self.label}: {expression.sql}",
                    hint="order by a number, a string or a time",
                )

    @property
    def schema(self) -> pa.Schema:
        """The columns of the input, then the new ones."""
        more = [pa.field(name, call.type) for name, call in self.columns]
        return pa.schema([*self.input.schema, *more])

    @property
    def properties(self) -> Properties:
        """A row that comes changes the numbers of others."""
        of_input = self.input.properties
        return Properties(no_duplicates=of_input.no_duplicates, single=of_input.single)

    @property
    def label(self) -> str:
        """`Ranking rank() AS r by price DESC per itemID`."""
        made = ", ".join(f"{call.label} AS {name}" for name, call in self.columns)
        orders = ", ".join(show_ordering(ordering) for ordering in self.order_by)
        keys = ", ".join(show_column(name, key) for name, key in self.partition_by)
        return f"Ranking {made} by {orders}" + (f" per {keys}" if keys else "")

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Per group and span of one snapshot, its rows in order, each with its columns."""
        (rows,) = inputs
        payloads, schema = list(rows.steps), self.input.schema
        keys = images([key for _, key in self.partition_by], payloads, schema)
        ranks = {p: n for n, p in enumerate(in_order(payloads, self.order_by, schema))}
        orders = images([expression for expression, _, _ in self.order_by], payloads, schema)
        calls = [call for _, call in self.columns]
        values = [_values([call.argument, call.default], payloads, schema) for call in calls]

        def ranked() -> Iterator[tuple[Payload, int, int]]:
            for part in rows.group(keys.__getitem__).values():
                for start, end, snapshot in part.segments():
                    found = sorted(snapshot.elements(), key=ranks.__getitem__)
                    peers = [tuple(map(order_key, orders[payload])) for payload in found]
                    for index, payload in enumerate(found):
                        new = [
                            _value(call, value, found, peers, index)
                            for call, value in zip(calls, values, strict=True)
                        ]
                        yield (*payload, *new), start, end

        return LogicalStream.of(ranked())


def _values(
    expressions: Sequence[Expression | None], payloads: list[Payload], schema: pa.Schema
) -> list[dict[Payload, Any]]:
    """The values of expressions by payload; NULL for those that are missing."""
    found: list[dict[Payload, Any]] = []
    for each in expressions:
        if each is None:
            found.append(dict.fromkeys(payloads))
        else:
            image = images([each], payloads, schema)
            found.append({payload: image[payload][0] for payload in payloads})
    return found


def _value(
    call: RankCall,
    values: list[dict[Payload, Any]],
    found: list[Payload],
    peers: list[tuple[Any, ...]],
    index: int,
) -> Any:
    argument, default = values
    match call.function:
        case "row_number":
            return index + 1
        case "rank":
            return peers.index(peers[index]) + 1
        case "dense_rank":
            return len(Counter(peers[: index + 1]))
    other = index + call.steps
    return argument[found[other]] if 0 <= other < len(found) else default[found[index]]
