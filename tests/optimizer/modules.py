"""Modules to draw, which tell all that they see, and what plans with them say of events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator, Call, Lifetimed
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
    tumbling,
)
from anabranch.algebra.modules.builtin import builtin_operator
from anabranch.algebra.modules.user_operator import Code, Property, Result, UserOperator, Window
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Duration

History = Sequence[Lifetimed]
Histories = Mapping[str, History]

WINDOWS: Final[tuple[AxisWindow, ...]] = (
    *(tumbling(Duration(3)), Hopping(Duration(4), Duration(2)), Hopping(Duration(2), Duration(3))),
    *(Snapshot(), CountByStart(2), CountByEnd(2), Session(Duration(2))),
)
BY_EVENTS: Final = tuple(window for window in WINDOWS if not window.on_grid)
"""Those that there are because there are events."""


@final
@dataclass(frozen=True, slots=True)
class Telling(Code):
    """Everything that it sees as one text: whatever changes below it shows."""

    @property
    def can_migrate(self) -> bool:
        return False

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        seen = [f"{row} [{start}, {end})" for *row, start, end in zip(*columns, *times)]
        return [((f"{'; '.join(sorted(seen))} in {window}",), None, None)]


def telling(over: Node, text: str, *, group_filter: bool = True) -> Call:
    properties: set[Property] = {"deterministic"}
    argument = Expression.parse(text, over.schema)
    module = UserOperator(
        name="told",
        kind="uda",
        takes=(("value", argument.type),),
        gives=pa.schema([("told", pa.string())]),
        time_sensitive=True,
        properties=frozenset(properties | ({"group_filter"} if group_filter else set())),
        code=Telling(),
    )
    return Call(module, (argument,), ("told",))


def builtin(over: Node, function: Function, text: str | None, name: str) -> Call:
    argument = None if text is None else Expression.parse(text, over.schema)
    module, arguments = builtin_operator(AggregateCall(function=function, argument=argument))
    return Call(module, arguments, (name,))


def told(
    over: Node, window: AxisWindow, *by: str, group_filter: bool = True, **options: Any
) -> ApplyOperator:
    """What a module that tells everything says of the column v, beside a count and a maximum."""
    calls = (
        telling(over, "v", group_filter=group_filter),
        builtin(over, "count", None, "n"),
        builtin(over, "max", "x", "hi"),
    )
    groups = tuple((name, Expression.parse(name, over.schema)) for name in by)
    return ApplyOperator.over(over, window=window, calls=calls, group_by=groups, **options)


def history(node: Node, streams: Histories) -> list[Lifetimed]:
    """The events that leave a plan, once everything has come.

    Some operators treat events one by one; modules take them as they are; all others give the
    longest lifetimes, in which only a coalesce is to be trusted.
    """
    if isinstance(node, Source):
        return list(streams[node.name])
    given = [history(each, streams) for each in node.inputs]
    match node:
        case ApplyOperator():
            return node.apply(given[0])
        case Union():
            return [event for each in given for event in each]
        case Filter() | Map() | Shift():
            return [
                changed for event in given[0] for changed in node.denote(_alone(event)).events()
            ]
        case TimeWindow() if node.input.properties.only_points:
            # Every row has a lifetime of its own, also where two are alike.
            return [held for event in given[0] for held in node.denote(_alone(event)).events()]
    return list(node.denote(*(LogicalStream.of(each) for each in given)).events())


def _alone(event: Lifetimed) -> LogicalStream:
    return LogicalStream.of([event])


def has_modules(node: Node) -> bool:
    return any(isinstance(each, ApplyOperator) for each in node.walk())


@st.composite
def histories(draw: st.DrawFn, source: Source) -> History:
    """Events of a source, many of which follow each other, meet and occur twice."""
    payload = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3), st.just(0.5))
    length = st.just(1) if source.only_points else st.integers(1, 4)
    event = st.tuples(payload, st.integers(0, 8), length)
    found: dict[Any, tuple[Any, int, int]] = {}
    for number, (row, start, held) in enumerate(draw(st.lists(event, max_size=8))):
        if source.unique:
            found[row[1]] = (row, start, held)
        elif source.no_duplicates:
            found[row, start // 3] = (row, start // 3 * 3, 3)
        else:
            found[number] = (row, start, held)
    return [(row, start, start + held) for row, start, held in found.values()]
