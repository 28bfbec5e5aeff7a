"""One aggregate over the rows of a snapshot: a function and what it is applied to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyarrow as pa

from anabranch.aggregates.function import AggregateFunction, Parameters
from anabranch.aggregates.lanes import Need, ValueLane
from anabranch.aggregates.multiset import Weighted
from anabranch.aggregates.table import FUNCTIONS
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.model.identity import Identity

Function = str
"""The name of an aggregate function: a key of the table."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """One aggregate over the rows of a snapshot: `max(price)`; no argument is `count(*)`.

    NULLs do not count. Over nothing but NULLs counts are 0 and all others are NULL.

    Attributes:
        function: What is computed.
        argument: One value per row; None stands for `*`.
        distinct: Equal values count once.
        fraction: Of a percentile, from 0 (the smallest value) to 1 (the largest).
        separator: Of `string_agg`, between two values.
    """

    identity: ClassVar[Identity] = Identity(
        "AggregateCall", ("function", "argument", "distinct", "fraction", "separator")
    )

    function: Function
    argument: Expression | None = None
    distinct: bool = False
    fraction: float | None = None
    separator: str | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise PlanError(
                f"there is no aggregate '{self.function}'",
                hint=f"aggregates are: {', '.join(FUNCTIONS)}",
            )
        own = self.definition
        if self.argument is None and (not own.star or self.distinct):
            raise PlanError(f"{self.label} needs an argument", hint=f"only {_stars()} takes '*'")
        if self.distinct and not own.distinct:
            takers = ", ".join(each.name for each in FUNCTIONS.values() if each.distinct)
            raise PlanError(
                f"DISTINCT cannot be used with {self.function}",
                where=self.label,
                hint=f"DISTINCT works with {takers}",
            )
        self._check_parameters()
        if self.argument is not None and not self._takes(self.argument.type):
            raise PlanError(
                f"{self.function} does not work on values of type {self.argument.type}",
                where=self.label,
                hint=own.hint,
            )

    def _takes(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_null(kind)) or self.definition.takes(kind)

    def _check_parameters(self) -> None:
        for name, value in (("fraction", self.fraction), ("separator", self.separator)):
            if (value is not None) != (name in self.definition.parameters):
                needs = "needs a" if value is None else "takes no"
                users = [each.name for each in FUNCTIONS.values() if name in each.parameters]
                raise PlanError(
                    f"{self.function} {needs} {name}",
                    where=self.label,
                    hint=f"a {name} is an argument of {', '.join(users)}",
                )
        if self.fraction is not None and not 0 <= self.fraction <= 1:
            raise PlanError(
                f"the fraction of a percentile cannot be {self.fraction}",
                where=self.label,
                hint="a fraction lies between 0 (the smallest value) and 1 (the largest)",
            )

    @property
    def definition(self) -> AggregateFunction:
        """What the table says of the function."""
        return FUNCTIONS[self.function]

    @property
    def parameters(self) -> Parameters:
        """What the call says beside its argument."""
        return Parameters(self.distinct, self.fraction, self.separator)

    @property
    def type(self) -> pa.DataType:
        """The type of the result."""
        return self.definition.gives(pa.null() if self.argument is None else self.argument.type)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The lanes that are kept for it."""
        return self.definition.needs(self.parameters)

    @property
    def needs_values(self) -> bool:
        """Whether the result follows from all values only, brought together where it leaves."""
        return ValueLane.VALUES in self.needs

    @property
    def counts_once(self) -> bool:
        """Whether equal values count once."""
        return self.distinct or self.definition.counts_once

    @property
    def ignores_duplicates(self) -> bool:
        """Whether copies of a value change nothing."""
        return self.counts_once or self.definition.ignores_duplicates

    @property
    def may_overflow(self) -> bool:
        """Whether a result may be too large, which is an error."""
        return self.argument is not None and self.definition.may_overflow(self.argument.type)

    @property
    def label(self) -> str:
        """`count(DISTINCT bidderID)`."""
        argument = "*" if self.argument is None else self._shown(self.argument)
        if self.fraction is not None:
            argument += f", {self.fraction}"
        if self.separator is not None:
            argument += f", {_quoted(self.separator)}"
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{argument})"

    def _shown(self, argument: Expression) -> str:
        shown = self.definition.shown
        return argument.sql if shown is None else shown(argument)

    def denote(self, values: Weighted) -> Any:
        """The aggregate of values with multiplicities, NULLs among them (`*`: any values)."""
        if self.argument is not None:
            values = [(value, count) for value, count in values if value is not None]
        if self.counts_once:
            values = [(value, 1) for value in {value for value, _ in values}]
        if not values:
            return self.definition.empty
        return self.definition.meaning(values, self.parameters)


def _stars() -> str:
    return ", ".join(each.name for each in FUNCTIONS.values() if each.star)


def _quoted(text: str) -> str:
    """A text as Spark's SQL spells it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
