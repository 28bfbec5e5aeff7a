"""For every rule plans it applies to, over any plans below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.clip import Clip
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.shift import Shift
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.model.time import Duration, Time
from tests.optimizer.modules import BY_EVENTS, WINDOWS, told
from tests.optimizer.plans import (
    BLIND,
    KEY_PREDICATES,
    KEYED,
    ONCE,
    POINTS,
    S,
    T,
    aggregate,
    back,
    compare,
    join,
    of,
    plans,
    rows,
    second,
    select,
    top,
    where,
    window,
)

Pick: TypeAlias = Callable[..., Any]
"""Draws one of its arguments."""

SAFE: Final = ("v > 1", "k = 'a' OR v <= 2", "x IS NULL AND v IN (1, 2)", "v = 1 AND 10 / v > 1")
ALL: Final = "k <=> k2 AND v2 <=> v AND x <=> x2"
TWO: Final = Duration(2)
KINDS: Final = ("anti", "semi", "anti")


def _few(over: Node, by: str = "k") -> SessionWindow:
    points = ToStream(input=over, kind="insertions")
    return SessionWindow(input=points, gap=TWO, partition_by=((by, of(by, points)),))


def _bounds(over: Node) -> TimeWindow:
    points = ToStream(input=over, kind="insertions")
    return TimeWindow(input=points, size=TWO, slide=TWO, columns=("w1", "w2"))


def _retimed(x: Node, pick: Pick) -> Node:
    found: Node = pick(
        Granularity(input=x, granule=TWO),
        Shift(input=x, by=3),
        Clip(input=x, start=Time(2), end=Time(6)),
        AlterLifetime(input=x, duration=TWO),
        ToStream(input=x, kind="insertions"),
        ToStream(input=x, kind="deletions"),
        ToSigned(input=x),
        FromSigned(input=ToSigned(input=x)),
        Coalesce(input=x),
        Split(input=x, length=TWO),
        Cleanse(input=x),
    )
    return found


def _linear(x: Node, pick: Pick) -> Node:
    found: Node = pick(_moved(x, pick), Split(input=x, length=TWO), Cleanse(input=x))
    return found


def _moved(x: Node, pick: Pick) -> Node:
    found: Node = pick(
        Granularity(input=x, granule=TWO), Shift(input=x, by=-2), Clip(input=x, start=Time(2))
    )
    return found


def _recut(x: Node, pick: Pick) -> Node:
    found: Node = pick(Coalesce(input=x), Split(input=x, length=TWO), Cleanse(input=x))
    return found


def _blind(x: Node, y: Node, pick: Pick) -> Node:
    """Operators that do not see duplicates of x."""
    hidden = pick(
        Distinct(input=x),
        select(Distinct(input=x), "k", "v", ("x", "x * 2")),
        window(Distinct(input=x), 2),
        Union(inputs=(y, where(Distinct(input=x), "v > 0"))),
        compare("max-union", Distinct(input=x), y),
    )
    found: Node = pick(
        Distinct(input=hidden),
        aggregate(hidden, ("k",), *BLIND),
        join("semi", y, second(hidden), "k = k2"),
        join("anti", y, second(hidden), "v = v2"),
        compare("strict difference", y, hidden),
        compare("intersection", ONCE, hidden),
        compare("intersection", hidden, ONCE),
    )
    return found


def _kept(over: Node) -> Node:
    return select(over, "k", ("w", "v"), ("y", "CASE WHEN v > 1 THEN k END"))


def _pruned(x: Node, y: Node, pick: Pick) -> Node:
    kind = pick("inner", "left", "right", "full")
    joined = join(kind, x, second(y), pick("k = k2", "v < v2", None))
    found: Node = pick(
        select(joined, "k", "v2"),
        select(where(joined, "v > 1 OR x2 > 1"), "k"),
        select(join("semi", x, second(y), "k = k2"), "v"),
        join("anti", x, second(y), "k = k2 AND v2 > 1"),
        aggregate(x, ("k",), "n"),
        aggregate(x, (), "n"),
        told(x, pick(*WINDOWS)),
        select(_bounds(x), "k", "w2"),
        select(_few(x), "v"),
    )
    return found


def _three(x: Node, y: Node) -> Node:
    both = compare("intersection", y, x)
    return Union(inputs=(compare("difference", x, y), both, compare("difference", y, x)))


def _grouped(x: Node, pick: Pick) -> Node:
    one = select(aggregate(back(T), ("v",), "n", "hi"), ("v2", "v"), ("n2", "n"), ("h2", "hi"))
    other = select(window(KEYED, 3), ("v2", "v"), ("n2", "v % 2"), ("h2", "x"))
    right = pick(one, other)
    joined = pick(join("inner", x, right, "v = v2"), join("inner", right, x, "v = v2"))
    summed = aggregate(joined, pick(("v",), ("v2",), ("v", "h2"), ("v2", "h2", "v")), "n", "hi")
    found: Node = pick(summed, replace(summed, aggregates=()))
    return found


PATTERNS: Final[Mapping[str, Callable[[Node, Node, Pick], Node]]] = {
    "flatten_unions": lambda x, y, pick: pick(
        Union(inputs=(Union(inputs=(x, y)), x)), Union(inputs=(x,))
    ),
    "drop_now_window": lambda x, y, pick: window(x, 1),
    "drop_needless_retiming": lambda x, y, pick: pick(
        Granularity(input=x, granule=Duration(1)),
        Shift(input=x, by=0),
        AlterLifetime(input=x, extend=Duration(0)),
    ),
    "drop_needless_cuts": lambda x, y, pick: pick(
        Split(input=POINTS, length=TWO),
        Split(input=Split(input=x, length=Duration(pick(1, 2, 4))), length=TWO),
        Coalesce(input=Split(input=x, length=TWO)),
        Distinct(input=Coalesce(input=x)),
        compare("difference", Split(input=x, length=TWO), Coalesce(input=y)),
        aggregate(Split(input=x, length=TWO), ("k",), "n"),
        top(Coalesce(input=x), 2),
    ),
    "drop_identity_map": lambda x, y, pick: select(x, "k", "v", "x"),
    "simplify_predicate": lambda x, y, pick: pick(
        where(x, "1 = 1"),
        where(x, "v > 1 AND 2 > 1"),
        where(x, "v > 1 AND 1 > 2"),
        where(x, "(v = 1 OR 1 = 2) AND v = 1 AND NOT (NOT (x > 1 + 1))"),
        join("inner", x, second(y), "TRUE"),
        join("left", x, second(y), "v = v2 AND 1 = 1"),
    ),
    "merge_filters": lambda x, y, pick: where(where(x, "10 / v > 1"), pick(*SAFE[:3])),
    "merge_maps": lambda x, y, pick: select(
        select(x, "k", ("w", "v % 2"), ("y", "upper(k)")),
        "k",
        ("z", pick("w", "y", "k", "w = 1 AND k = y")),
        ("again", pick("k", "2")),
    ),
    "narrow_outer_join": lambda x, y, pick: pick(
        where(join("left", x, second(y), "v = v2"), pick("v2 > 1", "k2 = 'a' AND x > 1")),
        where(join("right", x, second(y), "v = v2"), "v + 0.5 > 1 AND k IS NOT NULL"),
        where(join("full", x, second(y), "v = v2"), pick("v > 1", "v2 > 1", "v > 1 AND v2 > 1")),
    ),
    "derive_join_filter": lambda x, y, pick: join(
        pick("inner", "left", "semi", "anti"),
        # Conditions that the other side does not have already.
        where(x, pick("v < 90", "v NOT IN (7, 8) AND k < 'y'", "v > -90 AND 10 / v > 1")),
        second(where(y, "x > 0")),
        pick("v = v2", "v = v2 AND k2 = k"),
    ),
    "push_filter_below_map": lambda x, y, pick: where(
        select(x, "k", ("w", "v % 2"), ("y", "10 / v")), pick("w = 1", "y > 1 AND k = 'a'", "FALSE")
    ),
    "push_filter_below_union": lambda x, y, pick: where(Union(inputs=(x, y, x)), pick(*SAFE)),
    "push_filter_below_window": lambda x, y, pick: pick(
        where(window(x, pick(1, 2, 3), pick(1, 2, 3)), pick(*SAFE)),
        where(_bounds(x), pick("v > 1", "w1 > 1 AND k = 'a'")),
    ),
    "push_filter_below_count_window": lambda x, y, pick: pick(
        where(rows(x, 2, "k", slide=pick(1, 2)), pick(*KEY_PREDICATES, "v > 1 AND k = 'a'")),
        where(_few(x), pick(*KEY_PREDICATES, "10 / v > 1 AND k = 'a'")),
    ),
    "push_filter_below_top_k": lambda x, y, pick: where(
        top(x, 2, "k", "v"), pick(*KEY_PREDICATES, "10 / v > 1 AND k = 'a'", "x > 1 AND v > 1")
    ),
    "push_filter_below_retiming": lambda x, y, pick: where(_retimed(x, pick), pick(*SAFE)),
    "push_filter_below_distinct": lambda x, y, pick: where(Distinct(input=x), pick(*SAFE)),
    "push_filter_below_aggregate": lambda x, y, pick: where(
        aggregate(x, ("k", "v"), "n"), pick(*KEY_PREDICATES, "10 / v > 1", "n > 1 AND k = 'a'")
    ),
    "push_filter_below_apply_module": lambda x, y, pick: where(
        pick(told(x, pick(*BY_EVENTS), "k", "v"), told(POINTS, pick(*WINDOWS), "v", "k")),
        pick(*KEY_PREDICATES, "n > 1 AND k = 'a'", "10 / v > 1 AND v > 0"),
    ),
    "push_filter_below_set_operation": lambda x, y, pick: where(
        compare(pick("difference", "strict difference", "intersection", "max-union"), x, y),
        pick(*SAFE),
    ),
    "push_filter_below_join": lambda x, y, pick: pick(
        where(join("inner", x, second(y), pick("v = v2", None)), "k = 'a' AND k2 = 'b' AND v < v2"),
        where(join("left", x, second(y), "v = v2"), "v > 1 AND v2 IS NULL"),
        where(join("right", x, second(y), "v = v2"), "v2 > 1 AND v IS NULL"),
        where(join(pick("semi", "anti"), x, second(y), "v = v2"), pick(*SAFE)),
    ),
    "push_filter_into_join": lambda x, y, pick: where(
        join("inner", x, second(y), pick("v = v2", None)),
        pick("x < x2", "k = k2 AND 10 / v2 > 1", "10 / v > 1 AND (k = 'a' OR k2 = 'a')"),
    ),
    "push_join_predicate": lambda x, y, pick: join(
        pick("inner", "left", "semi", "anti"),
        x,
        second(y),
        pick("v = v2 AND v2 > 1 AND k = 'a'", "k2 = 'a'", "10 / v2 > 1 AND x2 > 0 AND v > 1"),
    ),
    "push_map_below_union": lambda x, y, pick: select(Union(inputs=(x, y)), "k", ("w", "10 / v")),
    "push_map_below_window": lambda x, y, pick: pick(
        select(window(x, pick(2, 3)), "k", ("w", "10 / v")),
        select(window(x, 2, pick(2, 3)), ("w", "v % 2")),
    ),
    "push_map_below_retiming": lambda x, y, pick: pick(
        select(_moved(x, pick), "k", ("w", "v % 2")),
        select(_recut(x, pick), ("w", "v"), "k", "x", ("y", "v % 2")),
    ),
    "push_map_below_count_window": lambda x, y, pick: pick(
        _kept(rows(x, 2, *pick((), ("k",)), order=pick("v", "k"), slide=pick(1, 2))),
        select(rows(aggregate(x, (), "n", "lo"), 2, order="lo"), ("z", "n % 2"), ("y", "lo")),
    ),
    "push_map_below_top_k": lambda x, y, pick: _kept(top(x, 2, *pick((), ("k",)), order="v")),
    "push_map_below_distinct": lambda x, y, pick: select(
        Distinct(input=x), ("a", "v"), ("b", "k"), "x"
    ),
    "push_map_below_set_operation": lambda x, y, pick: select(
        compare(pick("difference", "intersection", "max-union"), x, y), "x", "v", ("w", "k")
    ),
    "merge_windows_over_union": lambda x, y, pick: Union(
        inputs=tuple(window(each, 2, pick(2, 2)) for each in (S, T, where(S, "v > 1")))
    ),
    "merge_windows_below_distinct": lambda x, y, pick: Distinct(
        input=window(window(x, pick(1, 2, 3)), pick(1, 2, 3))
    ),
    "drop_constant_partition": lambda x, y, pick: pick(
        rows(select(x, "k", "v", "x", ("c", "1")), 2, "k", order="v"),
        top(x, 2, "k"),
        _few(x),
    ),
    "drop_needless_distinct": lambda x, y, pick: Distinct(
        input=pick(
            Distinct(input=x),
            select(aggregate(x, ("k",), "n"), "n", ("z", "k")),
            ONCE,
            where(select(window(KEYED, 3), "v"), "v > 0"),
            top(x, 1, "k"),
            rows(x, 1, "k"),
            join("inner", ONCE, second(aggregate(y, ("v",), "hi")), "v = v2"),
        )
    ),
    "drop_hidden_distinct": _blind,
    "compare_with_extreme": lambda x, y, pick: join(
        pick("semi", "anti"),
        x,
        second(Union(inputs=(y, S))),
        pick("v < v2", "v2 <= v", "x > x2", "v + 1 >= v2"),
    ),
    "fold_intersection": lambda x, y, pick: pick(
        compare("difference", x, compare("difference", x, y)),
        compare("strict difference", ONCE, compare("strict difference", ONCE, y)),
    ),
    "fold_max_union": lambda x, y, pick: pick(
        Union(inputs=(x, compare("difference", y, x))),
        Union(inputs=(compare("difference", y, x), x)),
        compare("max-union", Distinct(input=x), ONCE),
        _three(x, y),
    ),
    "make_difference_strict": lambda x, y, pick: compare(
        "difference", pick(Distinct(input=x), ONCE), y
    ),
    "merge_differences": lambda x, y, pick: pick(
        compare("difference", compare("difference", x, y), S),
        compare("strict difference", compare("strict difference", x, y), T),
    ),
    "make_anti_join_a_difference": lambda x, y, pick: join("anti", x, second(y), ALL),
    "merge_semi_and_anti": lambda x, y, pick: Union(
        inputs=tuple(join(kind, x, second(y), "v < v2") for kind in pick(("semi", "anti"), KINDS))
    ),
    "factor_join_out_of_union": lambda x, y, pick: pick(
        Union(
            inputs=tuple(
                join(kind, each, second(S), "v = v2")
                for kind in [pick("inner", "semi", "anti", "left")]
                for each in (x, y, x)
            )
        ),
        Union(
            inputs=tuple(
                join(kind, S, second(each), "v = v2")
                for kind in [pick("inner", "right")]
                for each in (x, y)
            )
        ),
    ),
    "drop_unused_aggregates": lambda x, y, pick: pick(
        select(aggregate(x, ("k",), "n", "hi"), "k"),
        select(where(aggregate(x, ("k",), "n", "hi", "lo"), "n > 1"), "lo"),
        select(aggregate(x, (), "hi", "n"), ("one", "1")),
        select(where(told(x, pick(*WINDOWS), "k"), "n > 1"), "told"),
        select(told(x, pick(*WINDOWS)), ("one", "1")),
    ),
    "prune_columns": _pruned,
    "push_grouping_below_join": lambda x, y, pick: _grouped(x, pick),
    "push_distinct_below_join": lambda x, y, pick: Distinct(
        input=join(pick("inner", "semi", "anti"), x, second(y), "v = v2")
    ),
    "pull_distinct_above_join": lambda x, y, pick: pick(
        join("inner", Distinct(input=x), second(ONCE), "v = v2"),
        join(pick("semi", "anti"), Distinct(input=x), second(y), "v < v2"),
    ),
    "drop_distinct_below_join": lambda x, y, pick: Distinct(
        input=select(join("inner", Distinct(input=x), second(y), "v = v2"), "k", "k2")
    ),
}


@st.composite
def patterns(draw: st.DrawFn, rule: str) -> Node:
    """A plan to which a rule applies."""

    def pick(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))

    x, y = (back(draw(plans(steps=2))) for _ in range(2))
    node = PATTERNS[rule](x, y, pick)
    if rule == "drop_constant_partition":
        return replace(node, partition_by=(("c", of("1", node.inputs[0])), *node.partition_by))  # type: ignore[attr-defined,type-var]
    return node
