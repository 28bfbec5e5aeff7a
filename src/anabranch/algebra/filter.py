"""Keep the rows a predicate holds for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.node import Node, Unary
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Unary):
    """Keep a payload where the predicate is true: out(p, t) = in(p, t) if pred(p), else 0.

    Neither false nor NULL is true (Kraemer 2007, 8.1.1).
    """

    identity: ClassVar[Identity] = Identity("Filter", ("input", "predicate"), by_hash=True)

    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True,
        keeps_payloads=True,
        passes_presence=True,
        keeps_keys="in all of time",
        keeps_length=True,
        events="kept",
    )

    predicate: Expression

    def __post_init__(self) -> None:
        check_schema(self.predicate, self.input)
        if not pa.types.is_boolean(self.predicate.type):
            raise PlanError(
                f"a filter needs a condition, not a value of type {self.predicate.type}",
                where=f"Filter {self.predicate.sql}",
                hint="compare the value with another one: price > 80",
            )

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Those of the input."""
        return self.input.properties

    @property
    def label(self) -> str:
        """`Filter price > 80`."""
        return f"Filter {self.predicate.sql}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """The payloads the predicate is true for, at every instant."""
        (rows,) = inputs
        verdicts = images([self.predicate], list(rows.steps), self.schema)
        return rows.where(lambda payload: verdicts[payload] == (True,))


def check_schema(expression: Expression, over: Node) -> None:
    """Refuse an expression that was bound to another schema than it is used over."""
    if expression.schema != over.schema:
        raise PlanError(
            f"'{expression.sql}' was bound to columns other than those of its input",
            where=f"over {over.label}: {', '.join(over.schema.names)}",
            hint="parse the expression with the schema of the operator's input",
        )
