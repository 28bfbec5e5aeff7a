"""Modules that tests of the language call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, final

import pyarrow as pa

from anabranch.algebra.modules.user_operator import (
    Code,
    Kind,
    Result,
    Template,
    UserOperator,
    Window,
)
from anabranch.errors import QueryError
from anabranch.model.clock import ANY_CLOCK, Clock

Compute = Callable[..., Iterable[Result]]


@final
@dataclass(frozen=True, slots=True)
class Function(Code):
    """A module that is one function of columns, times, window and parameters."""

    function: Compute
    parameters: Mapping[str, Any]

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        return self.function(columns, times, window, **self.parameters)

    @property
    def can_migrate(self) -> bool:
        return False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Small(Template):
    """A module with columns of numbers or texts, and parameters with defaults."""

    called: str
    does: Compute
    columns: tuple[str, ...]
    gives: pa.Schema
    defaults: tuple[tuple[str, Any], ...] = ()
    is_operator: bool = False
    time_sensitive: bool = False
    own_times: bool = False

    @property
    def name(self) -> str:
        return self.called

    @property
    def kind(self) -> Kind:
        return "udo" if self.is_operator else "uda"

    @property
    def arity(self) -> int:
        return len(self.columns)

    @property
    def signature(self) -> str:
        takes = [*self.columns, *(f"{name} => {value!r}" for name, value in self.defaults)]
        return f"{self.called}({', '.join(takes)}) -> {', '.join(self.gives.names)}"

    def bind(
        self,
        types: Sequence[pa.DataType],
        given: Sequence[Any],
        named: Mapping[str, Any],
        clock: Clock = ANY_CLOCK,
    ) -> UserOperator:
        del clock
        hint = f"it is {self.signature}"
        if len(types) != self.arity or len(given) > len(self.defaults):
            raise QueryError(
                f"{self.name} does not take {len(types) + len(given)} arguments", hint=hint
            )
        parameters = dict(self.defaults)
        parameters |= {name: value for (name, _), value in zip(self.defaults, given)}
        for name, value in named.items():
            if name.lower() not in parameters:
                raise QueryError(f"{self.name} has no parameter '{name}'", hint=hint)
            parameters[name.lower()] = value
        return UserOperator(
            name=self.name,
            kind=self.kind,
            takes=tuple(zip(self.columns, types)),
            gives=self.gives,
            time_sensitive=self.time_sensitive,
            own_times=self.own_times,
            parameters=tuple(parameters.items()),
            code=Function(self.does, parameters),
        )


def _middle(columns: Sequence[list[Any]], *_: Any) -> Iterable[Result]:
    return [((float(median(columns[0])),), None, None)]


def _quantile(columns: Sequence[list[Any]], *_: Any, q: float) -> Iterable[Result]:
    values = sorted(columns[0])
    return [((float(values[int(float(q) * (len(values) - 1))]),), None, None)]


def _followed(
    columns: Sequence[list[Any]],
    times: tuple[list[int], list[int]],
    window: Window,
    first: str,
    then: str,
) -> Iterable[Result]:
    seen = list(zip(columns[0], times[0]))
    starts = [start for value, start in seen if value == first]
    return [
        ((start, at), start, window.end)
        for start in starts
        for value, at in seen
        if value == then and at > start
    ]


def _held(columns: Sequence[list[Any]], times: Any, window: Window) -> Iterable[Result]:
    del columns, window
    return [((sum(end - start for start, end in zip(*times)),), None, None)]


MEDIAN = Small(
    called="median",
    does=_middle,
    columns=("value",),
    gives=pa.schema([("median", pa.float64())]),
)
QUANTILE = Small(
    called="quantile",
    does=_quantile,
    columns=("value",),
    gives=pa.schema([("quantile", pa.float64())]),
    defaults=(("q", 0.5),),
)
FOLLOWED_BY = Small(
    called="followed_by",
    does=_followed,
    columns=("value",),
    gives=pa.schema([("first_at", pa.int64()), ("then_at", pa.int64())]),
    defaults=(("first", "a"), ("then", "b")),
    is_operator=True,
    time_sensitive=True,
    own_times=True,
)
HELD = Small(
    called="held",
    does=_held,
    columns=("value",),
    gives=pa.schema([("held", pa.int64())]),
    time_sensitive=True,
)
MODULES: Mapping[str, Template] = {
    each.name: each for each in (MEDIAN, QUANTILE, FOLLOWED_BY, HELD)
}
