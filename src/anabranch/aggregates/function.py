"""What there is to say of an aggregate function, in one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa

from anabranch.aggregates.kinds import never
from anabranch.aggregates.lanes import LaneView, Need, OrderedValues, ValueLane
from anabranch.aggregates.multiset import Weighted
from anabranch.aggregates.sql import SqlCall, SqlForm, SqlReading, read_one_argument
from anabranch.aggregates.weighing import Weighing
from anabranch.expressions.expression import Expression


@final
@dataclass(frozen=True, slots=True)
class Parameters:
    """What a call says beside its argument.

    Attributes:
        distinct: Equal values count once.
        fraction: Of a percentile, from 0 (the smallest value) to 1 (the largest).
        separator: Of `string_agg`, between two values.
    """

    distinct: bool = False
    fraction: float | None = None
    separator: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """An aggregate function; each is declared in a file of its own in `aggregates/functions`.

    Either `finish` or `finish_values` is given. `finish` answers out of lanes that move with every
    change. `finish_values` answers out of all values in order, which are brought together only
    where a result leaves: for results that no lane can follow.

    Attributes:
        name: What it is called in plans.
        example: How it is written, for hints.
        aliases: Other names in SQL.
        forms: What the parser of SQL makes of it.
        read: What a call in SQL says.
        shown: How its argument is written in labels, where that is not the argument itself.
        takes: Whether it works on values of a type.
        gives: The type of the result for a type of the argument.
        hint: What to do about an argument of a type that it does not take.
        parameters: Those of `Parameters` that a call must have, besides `distinct`.
        star: `*` may stand for the argument.
        distinct: DISTINCT may stand in front of the argument.
        counts_once: Equal values count once, whether DISTINCT is written or not.
        ignores_duplicates: Copies of a value change nothing.
        empty: The result where there is no value; with `empty` it is never NULL.
        may_overflow: Whether there may be no result for values of a type, which is an error.
        meaning: The result over values that are not NULL, at least one: the specification.
        lanes: What has to be kept of the values, beside their number.
        finish: The results out of these lanes.
        finish_values: The results out of all values.
        weighed: The result out of sums over rows that weigh, as SQL; None: it needs each copy.
    """

    name: str
    example: str
    forms: tuple[SqlForm, ...]
    takes: Callable[[pa.DataType], bool]
    gives: Callable[[pa.DataType], pa.DataType]
    meaning: Callable[[Weighted, Parameters], Any]
    aliases: tuple[str, ...] = ()
    read: Callable[[SqlCall], SqlReading] = read_one_argument
    shown: Callable[[Expression], str] | None = None
    hint: str = "cast the argument, or choose another column"
    parameters: tuple[str, ...] = ()
    star: bool = False
    distinct: bool = False
    counts_once: bool = False
    ignores_duplicates: bool = False
    empty: int | tuple[()] | None = None
    may_overflow: Callable[[pa.DataType], bool] = never
    lanes: tuple[Need, ...] | Callable[[Parameters], tuple[Need, ...]] = ()
    finish: Callable[[LaneView, Parameters], pa.Array] | None = None
    finish_values: Callable[[OrderedValues, Parameters], pa.Array] | None = None
    weighed: Callable[[Weighing], str] | None = None

    def __post_init__(self) -> None:
        assert (self.finish is None) != (self.finish_values is None), self.name

    def needs(self, parameters: Parameters) -> tuple[Need, ...]:
        """The lanes that are kept for it."""
        if self.finish_values is not None:
            return (ValueLane.VALUES,)
        return self.lanes if isinstance(self.lanes, tuple) else self.lanes(parameters)
