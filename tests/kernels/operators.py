"""Every operator with drawn parameters over drawn sources: what long fuzzing goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.explode import Explode
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.ranking import RankCall, Ranking
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration, Time
from tests.kernels.plans import SCHEMA, SOURCE, aggregates

OTHER: Final = Source(name="T", schema=SCHEMA)
POINTS: Final = Source(name="S", schema=SCHEMA, only_points=True)
RENAMED: Final = Map(
    input=OTHER,
    columns=tuple((f"{name}2", Expression.parse(name, SCHEMA)) for name in SCHEMA.names),
)
BOTH: Final = pa.schema([*SCHEMA, *RENAMED.schema])
BOUNDS: Final = ("window_start", "window_end")
PREDICATES: Final = (
    None,
    "k = k2",
    "k = k2 AND v = v2",
    "v = v2 AND x < x2",
    "v BETWEEN v2 - 1 AND v2 + 1",
    "k < k2 OR v IS NULL",
)

sizes = st.integers(1, 6).map(Duration)
keys = st.sampled_from([(), (("k", Expression.parse("k", SCHEMA)),)])
orders = st.sampled_from(["v", "x", "k"]).map(lambda text: Expression.parse(text, SCHEMA))


def expression(text: str, schema: pa.Schema = SCHEMA) -> Expression:
    return Expression.parse(text, schema)


def join(kind: JoinKind) -> st.SearchStrategy[Node]:
    parsed = st.sampled_from(PREDICATES).map(
        lambda text: None if text is None else expression(text, BOTH)
    )
    return st.builds(
        Join, kind=st.just(kind), left=st.just(SOURCE), right=st.just(RENAMED), predicate=parsed
    )


def over(node: type[Node], **parameters: st.SearchStrategy[object]) -> st.SearchStrategy[Node]:
    return st.builds(node, input=st.just(SOURCE), **parameters)


def rows_window(source: Source) -> st.SearchStrategy[Node]:
    return st.builds(
        CountWindow,
        input=st.just(source),
        rows=st.one_of(st.integers(1, 4), st.just(int(UNBOUNDED))),
        slide=st.integers(1, 4),
        partition_by=keys,
        order_by=orders.map(lambda one: (one,)),
    )


def windows_with_bounds() -> st.SearchStrategy[Node]:
    sliding = st.integers(2, 6).map(Duration)
    return st.builds(
        TimeWindow, input=st.just(POINTS), size=sizes, slide=sliding, columns=st.just(BOUNDS)
    )


def sessions() -> st.SearchStrategy[Node]:
    return st.builds(
        SessionWindow,
        input=st.just(POINTS),
        gap=sizes,
        partition_by=keys,
        columns=st.sampled_from([None, BOUNDS]),
    )


def lifetimes(draw_size: st.SearchStrategy[Duration]) -> st.SearchStrategy[Node]:
    names = st.sampled_from(["duration", "extend", "at_most"])
    return st.tuples(names, draw_size).map(
        lambda given: AlterLifetime(input=SOURCE, **{given[0]: given[1]})
    )


OPERATORS: Final[Mapping[str, st.SearchStrategy[Node]]] = {
    "filter": over(Filter, predicate=st.sampled_from(["v > 1", "x < 1"]).map(expression)),
    "map": st.just(Map(input=SOURCE, columns=(("w", expression("v % 2")), ("k", expression("k"))))),
    "union": st.just(Union(inputs=(SOURCE, OTHER))),
    "time window": over(TimeWindow, size=sizes, slide=sizes),
    "time window with bounds": windows_with_bounds(),
    "session window": sessions(),
    "count window": rows_window(POINTS),
    "aggregate": aggregates(),
    "coalesce": over(Coalesce),
    "distinct": over(Distinct),
    **{
        kind: st.just(SetOperation(kind=kind, left=SOURCE, right=OTHER))
        for kind in get_args(SetKind)
    },
    **{f"{kind} join": join(kind) for kind in get_args(JoinKind)},
    "top k": over(
        TopK,
        k=st.integers(1, 3),
        order_by=st.tuples(st.tuples(orders, st.booleans(), st.booleans())),
        partition_by=keys,
    ),
    "ranking": over(
        Ranking,
        columns=st.sampled_from(
            [
                (("n", RankCall(function="row_number")),),
                (
                    ("r", RankCall(function="dense_rank")),
                    ("b", RankCall(function="lag", argument=Expression.parse("v", SCHEMA))),
                ),
            ]
        ),
        order_by=st.tuples(st.tuples(orders, st.booleans(), st.booleans())),
        partition_by=keys,
    ),
    "explode": over(
        Explode,
        argument=st.sampled_from(["array(v, -1)", "array(v)", "slice(array(v, v), 1, 0)"]).map(
            lambda text: Expression.parse(text, SCHEMA)
        ),
        name=st.just("item"),
        position=st.sampled_from([None, "at"]),
        outer=st.booleans(),
    ),
    "granularity": over(Granularity, granule=sizes),
    "split": over(Split, length=sizes),
    "istream": over(ToStream, kind=st.just("insertions")),
    "dstream": over(
        ToStream,
        kind=st.just("deletions"),
        anchor=st.sampled_from(["last_valid", "first_invalid"]),
    ),
    "rstream": over(ToStream, kind=st.just("snapshots")),
    "signed": st.sampled_from([ToSigned(input=SOURCE), FromSigned(input=ToSigned(input=SOURCE))]),
    "cleanse": over(Cleanse, cut=st.booleans()),
    "shift": over(Shift, by=st.integers(-8, 8)),
    "clip": over(Clip, start=st.integers(-2, 9).map(Time)),
    "lifetime": lifetimes(sizes),
}
"""By name; sources are called S and T."""

SHORT: Final = frozenset({"time window", "split", "rstream"})
"""Operators that make many rows of a long lifetime."""
