"""Built-in aggregates as modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa

from anabranch.algebra.aggregate_functions import AggregateCall
from anabranch.algebra.expression import Expression
from anabranch.algebra.module import Code, Module, Result, Window


def builtin_module(call: AggregateCall) -> tuple[Module, tuple[Expression, ...]]:
    """The module that says what an aggregate does, and what it is applied to."""
    arguments = () if call.argument is None else (call.argument,)
    module = Module(
        name=call.function,
        kind="uda",
        takes=tuple(("value", each.type) for each in arguments),
        gives=pa.schema([(call.function, call.type)]),
        parameters=tuple(
            (name, value)
            for name, value in (
                ("fraction", call.fraction),
                ("separator", call.separator),
                ("distinct", call.distinct or None),
            )
            if value is not None
        ),
        code=_Aggregate(call),
    )
    return module, arguments


@final
@dataclass(frozen=True, slots=True)
class _Aggregate(Code):
    call: AggregateCall

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        del window
        values = columns[0] if columns else [True] * len(times[0])
        return [((self.call.denote([(value, 1) for value in values]),), None, None)]

    @property
    def can_migrate(self) -> bool:
        return False
