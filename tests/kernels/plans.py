"""Plans over one small schema, drawn or built by hand."""

from __future__ import annotations

from typing import Any, Final, get_args

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration

SCHEMA: Final = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
SOURCE: Final = Source(name="S", schema=SCHEMA)
CALLS: Final[dict[str, tuple[Function, str | None, bool]]] = {
    "n": ("count", None, False),
    "c": ("count", "x", False),
    "d": ("count", "v", True),
    "dx": ("count", "x", True),
    "s": ("sum", "v", False),
    "sx": ("sum", "x", False),
    "a": ("avg", "v", False),
    "ax": ("avg", "x", False),
    "lo": ("min", "v", False),
    "lox": ("min", "x", False),
    "hi": ("max", "x", False),
    "his": ("max", "k", False),
    "vp": ("var_pop", "v", False),
    "vs": ("var_samp", "x", False),
    "sp": ("stddev_pop", "x", False),
    "ss": ("stddev_samp", "v", False),
    "sd": ("sum", "v", True),
    "sdx": ("sum", "x", True),
    "ad": ("avg", "x", True),
    "med": ("median", "x", False),
    "medv": ("median", "v", False),
    "p": ("percentile", "x", False),
    "pv": ("percentile", "v", False),
    "pd": ("percentile_disc", "x", False),
    "pdv": ("percentile_disc", "v", False),
    "pds": ("percentile_disc", "k", False),
    "pds0": ("percentile_disc", "k", False),
    "t": ("string_agg", "k", False),
    "td": ("string_agg", "k", True),
}
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "p": {"fraction": 0.25},
    "pv": {"fraction": 0.9},
    "pd": {"fraction": 0.5},
    "pdv": {"fraction": 0.0},
    "pds": {"fraction": 0.75},
    "pds0": {"fraction": 0.2},
    "t": {"separator": ", "},
    "td": {"separator": ""},
}
HOLISTIC: Final = ["med", "medv", "p", "pv", "pd", "pdv", "pds", "t", "td"]


def calls(over: Node, *names: str) -> tuple[tuple[str, AggregateCall], ...]:
    """Named aggregates over a node with the columns of SCHEMA."""
    found = []
    for name in names:
        function, argument, distinct = CALLS[name]
        parsed = None if argument is None else Expression.parse(argument, over.schema)
        call = AggregateCall(
            function=function, argument=parsed, distinct=distinct, **PARAMETERS.get(name, {})
        )
        found.append((name, call))
    return tuple(found)


def groups(over: Node, *names: str) -> tuple[tuple[str, Expression], ...]:
    """Grouping columns."""
    return tuple((name, Expression.parse(name, over.schema)) for name in names)


def aggregate(over: Node, by: tuple[str, ...], *names: str) -> Aggregation:
    """Grouped or scalar aggregation."""
    return Aggregation(input=over, group_by=groups(over, *by), aggregates=calls(over, *names))


@st.composite
def aggregates(draw: st.DrawFn, over: Node = SOURCE) -> Aggregation:
    """Any aggregates, any grouping; what takes a path of its own is drawn often."""
    some = st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=4, unique=True)
    extremes = st.lists(st.sampled_from(["lo", "lox", "hi", "his"]), min_size=1, unique=True)
    holistic = st.lists(st.sampled_from(HOLISTIC), min_size=1, max_size=3, unique=True)
    by = draw(st.sampled_from([(), ("k",), ("v",), ("k", "v"), ("x",)]))
    return aggregate(over, by, *draw(some | extremes | holistic))


STEPS: Final = (
    *("filter", "map", "union", "coalesce", "distinct", "set operation", "join"),
    *("granularity", "istream", "dstream", "lifetime", "top", "rows"),
)


@st.composite
def retimed(draw: st.DrawFn, over: Node, step: str) -> Node:
    """An operator that changes lifetimes, or what is left of snapshots."""
    size = draw(st.integers(1, 4))
    by = draw(st.sampled_from([(), groups(over, "k")]))
    first = Expression.parse(draw(st.sampled_from(["v", "x"])), over.schema)
    match step:
        case "granularity":
            return Granularity(input=over, granule=Duration(size))
        case "istream":
            return ToStream(input=over, kind="insertions")
        case "dstream":
            return ToStream(input=over, kind="deletions", anchor="first_invalid")
        case "lifetime":
            return AlterLifetime(input=over, at_most=Duration(size))
        case "top":
            return TopK(input=over, k=size, order_by=((first, True, False),), partition_by=by)
    points = ToStream(input=over, kind="insertions")
    slide = draw(st.integers(1, 3))
    return CountWindow(input=points, rows=size, slide=slide, partition_by=by, order_by=(first,))


@st.composite
def self_joins(draw: st.DrawFn, left: Node, source: Node) -> Node:
    """A join with the source itself, brought back to the columns of SCHEMA."""
    renamed = tuple(
        (f"{name}2", Expression.parse(name, source.schema)) for name in source.schema.names
    )
    right = Map(input=source, columns=renamed)
    both = pa.schema([*left.schema, *right.schema])
    text = draw(st.sampled_from([None, "k = k2", "v = v2 AND x < x2", "v < v2", "k = k2 OR v = 1"]))
    kind = draw(st.sampled_from(get_args(JoinKind)))
    predicate = None if text is None else Expression.parse(text, both)
    node = Join(kind=kind, left=left, right=right, predicate=predicate)
    if kind in ("semi", "anti"):
        return node
    texts = [("k", "k"), ("v", "v2"), ("x", "x")]
    columns = tuple((name, Expression.parse(text, node.schema)) for name, text in texts)
    return Map(input=node, columns=columns)


@st.composite
def plans(draw: st.DrawFn, source: Node = SOURCE) -> Node:
    """Chains and unions of all operators, with up to three stateful ones."""
    node = source
    for _ in range(draw(st.integers(0, 2))):
        step = draw(st.sampled_from(STEPS))
        if step == "filter":
            text = draw(st.sampled_from(["v > 1", "x IS NOT NULL", "k = 'a' OR v <= 2"]))
            node = Filter(input=node, predicate=Expression.parse(text, node.schema))
        elif step == "map":
            texts = [("k", "upper(k)"), ("v", "v % 2"), ("x", "x")]
            columns = tuple((name, Expression.parse(text, node.schema)) for name, text in texts)
            node = Map(input=node, columns=columns)
        elif step == "union":
            node = Union(inputs=(node, source))
        elif step == "coalesce":
            node = Coalesce(input=node)
        elif step == "distinct":
            node = Distinct(input=node)
        elif step == "set operation":
            kind = draw(st.sampled_from(get_args(SetKind)))
            few = Expression.parse("v > 0", source.schema)
            node = SetOperation(kind=kind, left=node, right=Filter(input=source, predicate=few))
        elif step == "join":
            node = draw(self_joins(node, source))
        else:
            node = draw(retimed(node, step))
    if draw(st.booleans()):
        size, slide = draw(st.integers(1, 6)), draw(st.sampled_from([1, 1, 2, 3, 5]))
        node = TimeWindow(input=node, size=Duration(size), slide=Duration(slide))
    if draw(st.booleans()):
        node = draw(aggregates(node))
    return node
