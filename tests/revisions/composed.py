"""Drawn plans of several operators over two sources."""

from __future__ import annotations

from typing import Final, get_args

from hypothesis import strategies as st

from anabranch.algebra.clip import Clip
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration, Time
from tests.kernels.plans import SCHEMA, SOURCE, aggregates, groups, retimed, self_joins

OTHER: Final = Source(name="T", schema=SCHEMA)
RETIMED: Final = ("granularity", "istream", "dstream", "lifetime", "top", "rows")
STEPS: Final = (*RETIMED, "filter", "map", "distinct", "window", "session", "shift", "clip")
PAIRS: Final = ("union", "join", "set operation")


@st.composite
def stepped(draw: st.DrawFn, over: Node) -> Node:
    """One operator more, with the same columns."""
    step = draw(st.sampled_from(STEPS))
    match step:
        case "filter":
            return Filter(input=over, predicate=Expression.parse("v > 1", over.schema))
        case "map":
            texts = [("k", "k"), ("v", "v % 2"), ("x", "x")]
            columns = tuple((name, Expression.parse(text, over.schema)) for name, text in texts)
            return Map(input=over, columns=columns)
        case "distinct":
            return Distinct(input=over)
        case "window":
            size, slide = draw(st.integers(1, 6)), draw(st.sampled_from([1, 1, 2, 5]))
            return TimeWindow(input=over, size=Duration(size), slide=Duration(slide))
        case "session":
            starts = ToStream(input=over, kind="insertions")
            by = draw(st.sampled_from([(), groups(over, "k")]))
            return SessionWindow(
                input=starts, gap=Duration(draw(st.integers(1, 5))), partition_by=by
            )
        case "shift":
            return Shift(input=over, by=Duration(draw(st.integers(-6, 6))))
        case "clip":
            return Clip(input=over, start=Time(draw(st.integers(-2, 9))))
    return draw(retimed(over, step))


@st.composite
def composed(draw: st.DrawFn) -> Node:
    """Two to four operators, one of which reads both sources."""
    left: Node = SOURCE
    right: Node = OTHER
    for _ in range(draw(st.integers(0, 2))):
        left = draw(stepped(left))
    if draw(st.booleans()):
        right = draw(stepped(right))
    match draw(st.sampled_from(PAIRS)):
        case "union":
            node: Node = Union(inputs=(left, right))
        case "join":
            node = draw(self_joins(left, right))
        case _:
            kind = draw(st.sampled_from(get_args(SetKind)))
            node = SetOperation(kind=kind, left=left, right=right)
    if draw(st.booleans()):
        return draw(aggregates(node))
    return draw(stepped(node)) if draw(st.booleans()) else node
