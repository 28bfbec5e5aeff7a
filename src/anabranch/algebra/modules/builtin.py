"""The aggregates of the language in the form of user operators, for windows of the time axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.aggregates.function import Parameters
from anabranch.aggregates.table import FUNCTIONS
from anabranch.aggregates.value_groups import Ints, ValueGroups
from anabranch.aggregates.window_lanes import over_windows
from anabranch.algebra.modules.user_operator import WINDOW, Code, Property, UserOperator
from anabranch.expressions.expression import Expression

VALUE: Final = "value"
"""The column of a frame with the argument."""

_PROPERTIES: Final[frozenset[Property]] = frozenset({"deterministic", "group_filter"})


def builtin_operator(call: AggregateCall) -> tuple[UserOperator, tuple[Expression, ...]]:
    """A built-in aggregate as a user operator, and what it is applied to.

    >>> price = Expression.column("price", pa.schema([("price", pa.float64())]))
    >>> operator, arguments = builtin_operator(AggregateCall(function="max", argument=price))
    >>> operator.label, operator.shape, [each.sql for each in arguments]
    ('max', 'UDA, on arrow', ['price'])
    """
    kind = pa.null() if call.argument is None else call.argument.type
    given: Mapping[str, Any] = {
        "distinct": call.distinct or None,
        "fraction": call.fraction,
        "separator": call.separator,
    }
    operator = UserOperator(
        name=call.function,
        kind="uda",
        takes=() if call.argument is None else ((VALUE, kind),),
        gives=pa.schema([(call.function, call.type)]),
        frame="arrow",
        parameters=tuple((name, value) for name, value in given.items() if value is not None),
        properties=_PROPERTIES,
        on_empty=(call.definition.empty,),
        code=Builtin(
            function=call.function,
            gives=call.type,
            text="" if call.argument is None else call.argument.sql,
            distinct=call.distinct,
            fraction=call.fraction,
            separator=call.separator,
        ),
    )
    return operator, () if call.argument is None else (call.argument,)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin(Code):
    """One aggregate over many windows.

    What it gives does not depend on the order of events: values are put in order, or added up
    exactly, with one rounding at the end.
    """

    function: Function
    gives: pa.DataType
    text: str = ""
    distinct: bool = False
    fraction: float | None = None
    separator: str | None = None

    @property
    def can_migrate(self) -> bool:
        """It has no state."""
        return False

    def compute_frame(self, events: pa.Table) -> pa.Table:
        """One row per window.

        Raises:
            StreamError: A sum is too large.
        """
        numbers = _array(events, WINDOW).to_numpy()
        windows, group = np.unique(numbers, return_inverse=True)
        found = self._found(events, group.reshape(-1), len(windows))
        return pa.table({WINDOW: windows, self.function: found})

    def _found(self, events: pa.Table, group: Ints, length: int) -> pa.Array:
        if VALUE not in events.column_names:
            return pa.array(np.bincount(group, minlength=length).astype(np.int64))
        groups = ValueGroups.of(group, _array(events, VALUE), length)
        parameters = Parameters(self.distinct, self.fraction, self.separator)
        return over_windows(FUNCTIONS[self.function], parameters, groups, self.text)


def _array(events: pa.Table, name: str) -> pa.Array:
    column = events.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])
