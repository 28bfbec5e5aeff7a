"""One plan per operator over the same events, and the plain batch query that is its anchor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

import pyarrow as pa

from anabranch.aggregates.call import AggregateCall, Function
from anabranch.algebra.aggregate import Aggregation
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
from anabranch.algebra.merge import Merge
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.algebra.modules.builtin import builtin_operator
from anabranch.algebra.modules.call import Call
from anabranch.algebra.node import Node
from anabranch.algebra.ranking import RankCall, Ranking
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration, Time

LEFT: Final = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("x", pa.float64())])
RIGHT: Final = pa.schema([("j", pa.int64()), ("w", pa.int64()), ("y", pa.float64())])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The sources of a case: events e, more of the same kind (f), and others to join with (g)."""

    e: Source
    f: Source
    g: Source

    @staticmethod
    def of(*, insert_only: bool, points: bool) -> Inputs:
        """Sources that promise what their events keep."""

        def source(name: str, schema: pa.Schema) -> Source:
            return Source(name=name, schema=schema, insert_only=insert_only, only_points=points)

        return Inputs(e=source("e", LEFT), f=source("f", LEFT), g=source("g", RIGHT))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCase:
    """An operator to measure.

    Attributes:
        plan: The plan over the inputs.
        anchor: What a batch engine would be asked for the same answer, over tables e, f and g;
            None where its query would be another one, or only copy the rows.
        points: Whether its events are points.
        stateful: Whether it remembers, so that more state could make it slower.
        share: The share of the events it gets, where answers take much work.
        adjusted: The share of its events that are adjusted or withdrawn later.
    """

    plan: Callable[[Inputs], Node]
    anchor: str | None = None
    points: bool = False
    stateful: bool = True
    share: float = 1.0
    adjusted: float = 0.0


def _expression(text: str, over: Node) -> Expression:
    return Expression.parse(text, over.schema)


def _aggregate(**calls: tuple[Function, str | None]) -> Callable[[Inputs], Node]:
    def plan(given: Inputs) -> Node:
        found = []
        for name, (function, text) in calls.items():
            argument = None if text is None else _expression(text, given.e)
            found.append((name, AggregateCall(function=function, argument=argument)))
        group_by = (("k", _expression("k", given.e)),)
        return Aggregation(input=given.e, group_by=group_by, aggregates=tuple(found))

    return plan


def _all_texts(given: Inputs) -> Node:
    text = _expression("CAST(CAST(x * 1000 AS INT) AS STRING)", given.e)
    call = AggregateCall(function="string_agg", argument=text, separator=", ")
    by = (("k", _expression("k", given.e)),)
    return Aggregation(input=given.e, group_by=by, aggregates=(("texts", call),))


def _low_tenth(given: Inputs) -> Node:
    argument = _expression("x", given.e)
    call = AggregateCall(function="percentile_disc", argument=argument, fraction=0.1)
    by = (("k", _expression("k", given.e)),)
    return Aggregation(input=given.e, group_by=by, aggregates=(("low", call),))


def _set_operation(kind: SetKind) -> Callable[[Inputs], Node]:
    return lambda given: SetOperation(kind=kind, left=given.e, right=given.f)


def _join(kind: JoinKind) -> Callable[[Inputs], Node]:
    def plan(given: Inputs) -> Node:
        both = pa.schema([*given.e.schema, *given.g.schema])
        predicate = Expression.parse("k = j", both)
        return Join(kind=kind, left=given.e, right=given.g, predicate=predicate)

    return plan


def _map(given: Inputs) -> Node:
    texts = (("a", "k + 1"), ("b", "x * 2"))
    return Map(
        input=given.e, columns=tuple((name, _expression(text, given.e)) for name, text in texts)
    )


def _count_window(given: Inputs) -> Node:
    by = (("k", _expression("k", given.e)),)
    order = (_expression("v", given.e), _expression("x", given.e))
    return CountWindow(input=given.e, rows=10, partition_by=by, order_by=order)


def _top_k(given: Inputs) -> Node:
    order = (_expression("x", given.e), True, False)
    by = (("k", _expression("k", given.e)),)
    return TopK(input=given.e, k=3, order_by=(order,), partition_by=by)


def _ranking(given: Inputs) -> Node:
    order = (_expression("x", given.e), False, True)
    by = (("k", _expression("k", given.e)),)
    before = RankCall(function="lag", argument=_expression("x", given.e))
    return Ranking(input=given.e, columns=(("before", before),), order_by=(order,), partition_by=by)


def _session_window(given: Inputs) -> Node:
    by = (("k", _expression("k", given.e)),)
    return SessionWindow(input=given.e, gap=Duration(500), partition_by=by)


def _modules(given: Inputs) -> Node:
    mean = AggregateCall(function="avg", argument=_expression("x", given.e))
    module, arguments = builtin_operator(mean)
    return ApplyOperator.over(
        given.e,
        window=Hopping(Duration(1_000), Duration(500)),
        calls=(Call(module, arguments, ("mean",)),),
        group_by=(("k", _expression("k", given.e)),),
    )


_SWEEP: Final = """
WITH d AS (SELECT k, start AS t, 1 AS n, v AS s FROM e
           UNION ALL SELECT k, "end", -1, -v FROM e),
     g AS (SELECT k, t, sum(n) AS n, sum(s) AS s FROM d GROUP BY k, t)
SELECT k, t, sum(n) OVER w AS n, sum(s) OVER w AS s FROM g
WINDOW w AS (PARTITION BY k ORDER BY t)
"""
_FLOAT_SWEEP: Final = """
WITH d AS (SELECT k, start AS t, 1 AS n, x AS s FROM e
           UNION ALL SELECT k, "end", -1, -x FROM e),
     g AS (SELECT k, t, sum(n) AS n, sum(s) AS s FROM d GROUP BY k, t)
SELECT k, t, sum(n) OVER w AS n, sum(s) OVER w AS s FROM g
WINDOW w AS (PARTITION BY k ORDER BY t)
"""
_SEGMENTS: Final = """
WITH p AS (SELECT DISTINCT k, unnest([start, "end"]) AS t FROM e)
SELECT p.k, p.t, {} FROM p JOIN e ON e.k = p.k AND e.start <= p.t AND e."end" > p.t
GROUP BY p.k, p.t
"""
_TEXT: Final = "trunc(x * 1000)::INT::VARCHAR"
_COUNTS: Final = """
WITH d AS (SELECT k, v, x, start AS t, 1 AS n, 0 AS m FROM e
           UNION ALL SELECT k, v, x, "end", -1, 0 FROM e {more}),
     g AS (SELECT k, v, x, t, sum(n) AS n, sum(m) AS m FROM d GROUP BY ALL),
     h AS (SELECT k, v, x, t, sum(n) OVER w AS n, sum(m) OVER w AS m FROM g
           WINDOW w AS (PARTITION BY k, v, x ORDER BY t)),
     i AS (SELECT *, {function} AS o FROM h)
SELECT k, v, x, t, o FROM
  (SELECT *, lag(o, 1, 0) OVER (PARTITION BY k, v, x ORDER BY t) AS was FROM i) WHERE o <> was
"""
_OTHER: Final = """UNION ALL SELECT k, v, x, start, 0, 1 FROM f
           UNION ALL SELECT k, v, x, "end", 0, -1 FROM f"""
_PAIRS: Final = """
WITH l AS (SELECT *, row_number() OVER () AS id FROM e),
     m AS (SELECT id, j, w, y, greatest(l.start, g.start) AS s, least(l."end", g."end") AS t
           FROM l JOIN g ON l.k = g.j AND l.start < g."end" AND g.start < l."end"),
     c AS (SELECT id, s, t, max(t) OVER (PARTITION BY id ORDER BY s, t
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach FROM m)
"""
_MATCHED: Final = (
    _PAIRS
    + """,
     i AS (SELECT *, sum(CASE WHEN s <= reach THEN 0 ELSE 1 END) OVER
                  (PARTITION BY id ORDER BY s, t) AS part FROM c)
SELECT l.k, l.v, l.x, s, t FROM
  (SELECT id, part, min(s) AS s, max(t) AS t FROM i GROUP BY ALL) JOIN l USING (id)
"""
)
_UNMATCHED: Final = (
    _PAIRS
    + """,
     n AS (SELECT id, coalesce(reach, l.start) AS s, c.s AS t FROM c JOIN l USING (id)
           WHERE c.s > coalesce(reach, l.start)
           UNION ALL
           SELECT id, coalesce(max(t), l.start) AS s, l."end" AS t FROM l LEFT JOIN m USING (id)
           GROUP BY id, l.start, l."end" HAVING coalesce(max(t), l.start) < l."end")
SELECT l.k, l.v, l.x, j, w, y, s, t FROM m JOIN l USING (id)
UNION ALL SELECT l.k, l.v, l.x, NULL, NULL, NULL, s, t FROM n JOIN l USING (id)
"""
)
_MEETS: Final = 'g ON e.k = g.j AND e.start < g."end" AND g.start < e."end"'

_INNER: Final = f"""SELECT k, v, x, j, w, y, greatest(e.start, g.start) AS s,
                    least(e."end", g."end") AS t FROM e JOIN {_MEETS}"""

CASES: Final[Mapping[str, OperatorCase]] = {
    "filter": OperatorCase(
        plan=lambda given: Filter(input=given.e, predicate=_expression("x > 0.5", given.e)),
        anchor="SELECT * FROM e WHERE x > 0.5",
        stateful=False,
    ),
    "map": OperatorCase(
        plan=_map, anchor='SELECT k + 1 AS a, x * 2 AS b, start, "end" FROM e', stateful=False
    ),
    "window": OperatorCase(
        plan=lambda given: TimeWindow(input=given.e, size=Duration(1_000)),
        anchor='SELECT k, v, x, start, start + 1000 AS "end" FROM e',
        points=True,
        stateful=False,
    ),
    "slide_window": OperatorCase(
        plan=lambda given: TimeWindow(input=given.e, size=Duration(1_000), slide=Duration(100)),
        anchor="""SELECT k, v, x, (start // 100 + 1) * 100 - 1 AS start,
                  (start + 1100) // 100 * 100 - 1 AS "end" FROM e""",
        points=True,
        stateful=False,
    ),
    "granularity": OperatorCase(
        plan=lambda given: Granularity(input=given.e, granule=Duration(100)),
        anchor="""SELECT * FROM (SELECT k, v, x, (start + 99) // 100 * 100 AS s,
                  ("end" + 99) // 100 * 100 AS e FROM e) WHERE s < e""",
        stateful=False,
    ),
    "union": OperatorCase(
        plan=lambda given: Union(inputs=(given.e, given.f)),
        anchor="SELECT * FROM e UNION ALL SELECT * FROM f",
        stateful=False,
    ),
    "aggregate": OperatorCase(plan=_aggregate(n=("count", None), s=("sum", "v")), anchor=_SWEEP),
    "sum": OperatorCase(plan=_aggregate(s=("sum", "x")), anchor=_FLOAT_SWEEP),
    "minmax": OperatorCase(
        plan=_aggregate(low=("min", "x"), high=("max", "x")),
        anchor=_SEGMENTS.format("min(x), max(x)"),
    ),
    "median": OperatorCase(
        plan=_aggregate(m=("median", "x")), anchor=_SEGMENTS.format("median(x)"), share=0.5
    ),
    "percentile_disc": OperatorCase(
        plan=_low_tenth, anchor=_SEGMENTS.format("quantile_disc(x, 0.1)"), share=0.5
    ),
    "string_agg": OperatorCase(
        plan=_all_texts,
        anchor=_SEGMENTS.format(f"string_agg({_TEXT}, ', ' ORDER BY {_TEXT})"),
        share=0.5,
    ),
    "distinct": OperatorCase(
        plan=lambda given: Distinct(input=given.e),
        anchor=_COUNTS.format(more="", function="least(n, 1)"),
    ),
    "coalesce": OperatorCase(
        plan=lambda given: Coalesce(input=given.e), anchor=_COUNTS.format(more="", function="n")
    ),
    "difference": OperatorCase(
        plan=_set_operation("difference"),
        anchor=_COUNTS.format(more=_OTHER, function="greatest(n - m, 0)"),
    ),
    "intersection": OperatorCase(
        plan=_set_operation("intersection"),
        anchor=_COUNTS.format(more=_OTHER, function="least(n, m)"),
    ),
    "join": OperatorCase(plan=_join("inner"), anchor=_INNER),
    "join_adjusted": OperatorCase(plan=_join("inner"), anchor=_INNER, adjusted=0.1),
    "semi_join": OperatorCase(plan=_join("semi"), anchor=_MATCHED),
    "semi_join_adjusted": OperatorCase(plan=_join("semi"), anchor=_MATCHED, adjusted=0.1),
    "left_join": OperatorCase(plan=_join("left"), anchor=_UNMATCHED),
    "left_join_adjusted": OperatorCase(plan=_join("left"), anchor=_UNMATCHED, adjusted=0.1),
    "count_window": OperatorCase(
        plan=_count_window,
        anchor="""SELECT k, v, x, start, lead(start, 10) OVER
                  (PARTITION BY k ORDER BY start, v, x) AS "end" FROM e""",
        points=True,
    ),
    "ranking": OperatorCase(plan=_ranking, share=0.05),
    "explode": OperatorCase(
        plan=lambda given: Explode(
            input=given.e, argument=_expression("array(k, v)", given.e), name="item"
        ),
        anchor="""SELECT k, v, x, start, "end", unnest([k, v]) AS item FROM e""",
        stateful=False,
    ),
    "top_k": OperatorCase(plan=_top_k, anchor=_SEGMENTS.format("max(x, 3)"), share=0.5),
    "istream": OperatorCase(
        plan=lambda given: ToStream(input=given.e, kind="insertions"),
        anchor="""SELECT k, v, x, t, sum(n) AS n FROM
                  (SELECT k, v, x, start AS t, 1 AS n FROM e
                   UNION ALL SELECT k, v, x, "end", -1 FROM e) GROUP BY ALL HAVING sum(n) > 0""",
    ),
    "shift": OperatorCase(plan=lambda given: Shift(input=given.e, by=60), stateful=False),
    "clip": OperatorCase(plan=lambda given: Clip(input=given.e, start=Time(1_000)), stateful=False),
    "lifetime": OperatorCase(
        plan=lambda given: AlterLifetime(input=given.e, at_most=Duration(500)), share=0.02
    ),
    "split": OperatorCase(plan=lambda given: Split(input=given.e, length=Duration(500)), share=0.2),
    "cleanse": OperatorCase(plan=lambda given: Cleanse(input=given.e), share=0.5),
    "to_signed": OperatorCase(plan=lambda given: ToSigned(input=given.e), share=0.5),
    "from_signed": OperatorCase(
        plan=lambda given: FromSigned(input=ToSigned(input=given.e)), share=0.5
    ),
    "session_window": OperatorCase(plan=_session_window, points=True, share=0.5),
    "weighted_window": OperatorCase(
        plan=lambda given: WeightedWindow(
            input=given.e, size=Duration(1_000), slide=Duration(500), weight="n"
        ),
        stateful=False,
        share=0.2,
    ),
    "modules": OperatorCase(plan=_modules, points=True, share=0.2),
    "merge": OperatorCase(
        plan=lambda given: Merge(inputs=(given.e, given.e), names=("one", "other")), share=0.5
    ),
}
"""At least one case per operator; a test demands that."""
