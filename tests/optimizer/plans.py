"""Plans and streams to draw, small enough to compare their meanings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.split import Split
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.errors import StreamError
from anabranch.expressions.expression import Expression
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import freeze
from anabranch.model.time import FOREVER, Duration, Time
from anabranch.testing import meaning, sources_of, values
from tests.optimizer.modules import has_modules, history

SCHEMA: Final = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
S: Final = Source(name="S", schema=SCHEMA)
T: Final = Source(name="T", schema=SCHEMA)
POINTS: Final = Source(name="P", schema=SCHEMA, only_points=True)
OTHERS: Final = Source(name="Q", schema=SCHEMA, only_points=True)
ONCE: Final = Source(name="N", schema=SCHEMA, no_duplicates=True)
KEYED: Final = Source(name="K", schema=SCHEMA, only_points=True, unique=(("v",),))
SOURCES: Final = (S, T, POINTS, OTHERS, ONCE, KEYED)

SAFE: Final = (
    *("v > 1", "x IS NOT NULL", "k = 'a'", "k = 'a' OR v <= 2", "v = 1 AND x > 0.5", "k IS NULL"),
    *("v IN (1, 2)", "x * 2 > 1", "v % 2 = 0", "1 = 1 AND v > 0", "v <=> 1 AND NOT (k = 'b')"),
)
RISKY: Final = ("10 / v > 1", "v <> 0 AND 10 / v > 1", "CAST(k AS INT) = 1", "v + 1 > 2")
PREDICATES: Final = (*SAFE, *RISKY)
KEY_PREDICATES: Final = ("k = 'a'", "k IS NULL", "k = 'a' OR k > 'b'")
COMPUTED: Final = (
    (("k", "k"), ("v", "v"), ("x", "x")),
    (("v", "v"), ("k", "k"), ("x", "x")),
    (("k", "upper(k)"), ("v", "v % 2"), ("x", "x * 2")),
    (("k", "k"), ("v", "v"), ("x", "CASE WHEN v > 1 THEN x END")),
    (("k", "k"), ("v", "coalesce(v, 0)"), ("x", "x")),
    (("k", "'a'"), ("v", "v"), ("x", "x")),
)
CALLS: Final[Mapping[str, AggregateCall | tuple[str, str, bool]]] = {
    "n": AggregateCall(function="count"),
    "c": ("count", "x", False),
    "d": ("count", "v", True),
    "lo": ("min", "v", False),
    "hi": ("max", "x", False),
    "a": ("avg", "v", False),
    "sx": ("sum", "x", False),
    "sd": ("sum", "x", True),
}
BLIND: Final = ("d", "lo", "hi", "sd")


def of(text: str, over: Node) -> Expression:
    return Expression.parse(text, over.schema)


def where(over: Node, text: str) -> Filter:
    return Filter(input=over, predicate=of(text, over))


def select(over: Node, *columns: str | tuple[str, str]) -> Map:
    pairs = [(each, each) if isinstance(each, str) else each for each in columns]
    return Map(input=over, columns=tuple((name, of(text, over)) for name, text in pairs))


def second(over: Node) -> Map:
    """The same stream under other names."""
    return select(over, *((f"{name}2", name) for name in over.schema.names))


def join(kind: JoinKind, left: Node, right: Node, text: str | None) -> Join:
    both = pa.schema([*left.schema, *right.schema])
    predicate = None if text is None else Expression.parse(text, both)
    return Join(kind=kind, left=left, right=right, predicate=predicate)


def aggregate(over: Node, by: tuple[str, ...], *names: str) -> Aggregation:
    calls = []
    for name in names:
        call = CALLS[name]
        if isinstance(call, tuple):
            function, argument, distinct = call
            call = AggregateCall(
                function=function,
                argument=of(argument, over),
                distinct=distinct,
            )
        calls.append((name, call))
    groups = tuple((name, of(name, over)) for name in by)
    return Aggregation(input=over, group_by=groups, aggregates=tuple(calls))


def window(over: Node, size: int, slide: int = 1) -> TimeWindow:
    return TimeWindow(input=over, size=Duration(size), slide=Duration(slide))


def rows(over: Node, many: int, *by: str, slide: int = 1, order: str = "v") -> CountWindow:
    groups = tuple((name, of(name, over)) for name in by)
    orders = (of(order, over),) if order else ()
    return CountWindow(input=over, rows=many, slide=slide, partition_by=groups, order_by=orders)


def top(over: Node, k: int, *by: str, order: str = "x") -> TopK:
    groups = tuple((name, of(name, over)) for name in by)
    return TopK(input=over, k=k, order_by=((of(order, over), True, False),), partition_by=groups)


def compare(kind: SetKind, left: Node, right: Node) -> SetOperation:
    return SetOperation(kind=kind, left=left, right=right)


STEPS: Final = (
    *("filter", "filter", "filter", "map", "map", "union", "distinct", "set", "join", "join"),
    *("window", "window", "rows", "top", "retime", "neutral", "aggregate", "slice"),
)


@st.composite
def plans(draw: st.DrawFn, steps: int = 6) -> Node:
    """Any plan with the columns of SCHEMA."""
    node: Node = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.sampled_from(range(steps // 3, steps + 1)))):
        node = draw(stepped(node))
    return node


@st.composite
def stepped(draw: st.DrawFn, over: Node) -> Node:
    """One more operator, or a few; the columns stay."""
    size = draw(st.integers(1, 4))
    match draw(st.sampled_from(STEPS)):
        case "filter":
            return where(over, draw(st.sampled_from(PREDICATES)))
        case "map":
            return select(over, *draw(st.sampled_from(COMPUTED))) if size > 1 else back(over)
        case "union":
            return Union(inputs=(back(over), back(draw(plans(steps=1)))))
        case "distinct":
            return Distinct(input=over)
        case "set":
            kind = draw(st.sampled_from(get_args(SetKind)))
            return compare(kind, back(over), back(draw(plans(steps=1))))
        case "join":
            return draw(joins(over))
        case "window":
            return window(over, size, draw(st.sampled_from([1, 1, 1, 2, 3])))
        case "rows":
            by = draw(st.sampled_from([(), ("k",)]))
            return rows(over, size, *by, slide=draw(st.sampled_from([1, 1, 2])))
        case "top":
            return top(over, size, *draw(st.sampled_from([(), ("k",), ("k", "v")])))
        case "retime":
            return draw(retimed(over))
        case "neutral":
            neutral = [Coalesce(input=over), Split(input=over, length=Duration(size))]
            return draw(st.sampled_from(neutral))
        case "aggregate":
            some = draw(st.lists(st.sampled_from(sorted(CALLS)), max_size=2, unique=True))
            summed = aggregate(over, ("k", "v"), *{*some, "hi"})
            return select(summed, "k", "v", ("x", "hi"))
    return Clip(input=over, start=Time(size), end=Time(size + 5))


def back(over: Node) -> Node:
    """The columns in their order; a set operation needs them so."""
    return over if over.schema.names == SCHEMA.names else select(over, *SCHEMA.names)


@st.composite
def retimed(draw: st.DrawFn, over: Node) -> Node:
    size = Duration(draw(st.integers(1, 3)))
    return draw(
        st.sampled_from(
            [
                Granularity(input=over, granule=size),
                Shift(input=over, by=int(size) - 1),
                ToStream(input=over, kind="insertions"),
                AlterLifetime(input=over, at_most=size),
                AlterLifetime(input=over, extend=Duration(size - 1)),
            ]
        )
    )


@st.composite
def joins(draw: st.DrawFn, left: Node) -> Node:
    """A join, brought back to the columns there were, with a filter in between or without."""
    right = second(back(draw(plans(steps=1))))
    kind = draw(st.sampled_from([*get_args(JoinKind), "inner", "inner", "left"]))
    texts = ["k = k2", "v = v2 AND x < x2", "v = v2 AND v2 > 1", "v < v2", "k = k2 AND v = 1", None]
    node: Node = join(kind, left, right, draw(st.sampled_from(texts)))
    if kind in ("semi", "anti"):
        return node
    if draw(st.booleans()):
        over = ["v2 = 1", "v = 1 AND v = v2", "k2 IS NULL", "v2 > v AND 10 / v2 > 1", "x2 > x"]
        node = where(node, draw(st.sampled_from(over)))
    return select(node, "k", ("v", draw(st.sampled_from(["v", "v2"]))), "x")


@st.composite
def lifetimes(draw: st.DrawFn, source: Source) -> LogicalStream:
    """A few events of a source, as it promises them to be."""
    payload = st.tuples(*(values(column.type) for column in source.schema)).map(freeze)
    length = st.just(1) if source.only_points else st.integers(1, 4)
    starts = st.one_of(st.integers(0, 6), st.integers(0, 6), st.integers(-4, 9))
    event = st.tuples(payload, starts, length)
    found = draw(st.lists(event, max_size=5, unique_by=_identity(source)))
    stream = LogicalStream.of((row, start, start + held) for row, start, held in found)
    if source.no_duplicates:
        return Distinct(input=source).denote(stream)
    rare = not source.only_points and not source.unique and draw(st.integers(0, 19)) == 0
    if rare and found:
        return stream.union(LogicalStream.of([(found[0][0], found[0][1], FOREVER)]))
    return stream


def _identity(source: Source) -> Any:
    if not source.unique:
        return repr
    places = [source.schema.names.index(name) for name in source.unique[0]]
    return lambda event: repr([event[0][place] for place in places])


@st.composite
def inputs(draw: st.DrawFn, plan: Node) -> dict[str, LogicalStream]:
    """A stream for every source of a plan."""
    return {source.name: draw(lifetimes(source)) for source in sources_of(plan)}


FEW: Final = settings(max_examples=max(settings().max_examples // 4, 3))
"""For what is tested once per rule."""


def means(node: Node, streams: Mapping[str, LogicalStream]) -> LogicalStream:
    """What a plan means; events that modules see are not put together on their way to them."""
    if not has_modules(node):
        return meaning(node, streams)
    return LogicalStream.of(
        history(node, {name: list(stream.events()) for name, stream in streams.items()})
    )


def assert_same(
    before: Node, after: Node, streams: Mapping[str, LogicalStream]
) -> LogicalStream | None:
    """Both plans mean the same; None where the first one fails, which the other need not."""
    try:
        expected = means(before, streams)
    except StreamError:
        return None
    found = means(after, streams)
    wrong = found.difference(expected)
    assert not wrong, wrong
    return expected
