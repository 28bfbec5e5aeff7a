"""Signatures and fingerprints of plans, as text: what must stay so that checkpoints are resumed.

A line that changes here orphans the state of every running query with that operator. Change one on
purpose only; new lines, for new operators and parameters, cost nobody anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from tests.kernels.identities import DECLARED, OPERATOR_CLASSES
from tests.kernels.modules import ADDING, PLAIN

from anabranch.aggregates.call import AggregateCall
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
from anabranch.algebra.merge import Merge, MergePolicy
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
)
from anabranch.algebra.modules.call import Call
from anabranch.algebra.modules.user_operator import UserOperator
from anabranch.algebra.node import Node
from anabranch.algebra.ranking import RankCall, Ranking
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.expressions.expression import Expression
from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.plan.compile import PhysicalPlan, compile_plan
from anabranch.kernels.plan.identity import StateForm, plan_fingerprint, stage_fingerprints
from anabranch.model.identity import fingerprint, form_signature, signature
from anabranch.model.time import Duration, Time

PATH: Final = Path(__file__).parent / "signatures.txt"

SCHEMA: Final = pa.schema(
    [
        ("item", pa.int64()),
        ("price", pa.float64()),
        ("note", pa.string()),
        ("paid", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
BIDS: Final = Source(name="Bid", schema=SCHEMA, insert_only=True, only_points=True, timestamps=True)
ASKS: Final = Source(name="Ask", schema=SCHEMA, timestamps=True)
COARSE: Final = Source(
    name="Coarse", schema=SCHEMA, timestamps=True, chronon=1_000_000, unique=(("item",),)
)
ITEMS: Final = Source(
    name="Item",
    schema=pa.schema([("id", pa.int64()), ("name", pa.string())]),
    insert_only=True,
    relation=True,
    always=True,
)
COPIES: Final = Source(name="Replica", schema=SCHEMA, copies=True, keyed=True, order="start")
MINUTE: Final = Duration(60_000_000)


def of(text: str, over: Node) -> Expression:
    return Expression.parse(text, over.schema)


def keys(over: Node, *names: str) -> tuple[tuple[str, Expression], ...]:
    return tuple((name, of(name, over)) for name in names)


def aggregation(over: Node, *by: str, **calls: tuple[Any, str | None, dict[str, Any]]) -> Node:
    made = tuple(
        (
            name,
            AggregateCall(
                function=function, argument=None if text is None else of(text, over), **more
            ),
        )
        for name, (function, text, more) in calls.items()
    )
    return Aggregation(input=over, group_by=keys(over, *by), aggregates=made)


def renamed(over: Node) -> Node:
    return Map(
        input=over, columns=tuple((f"{name}2", of(name, over)) for name in over.schema.names)
    )


def join(kind: JoinKind, text: str | None, right: Node | None = None, **more: Any) -> Node:
    other = renamed(ASKS) if right is None else right
    both = pa.schema([*ASKS.schema, *other.schema])
    predicate = None if text is None else Expression.parse(text, both)
    return Join(kind=kind, left=ASKS, right=other, predicate=predicate, **more)


def windows(window: AxisWindow, module: UserOperator = PLAIN, **more: Any) -> Node:
    call = Call(module, (of("item", BIDS),), ("said",))
    return ApplyOperator.over(BIDS, window=window, calls=(call,), **more)


def window(over: Node, **more: Any) -> Node:
    return TimeWindow(input=over, size=MINUTE, **more)


PRICES: Final = aggregation(
    window(BIDS),
    "item",
    n=("count", None, {}),
    total=("sum", "price", {}),
    mean=("avg", "price", {}),
    most=("max", "price", {}),
)
PLANS: Final[Mapping[str, Node]] = {
    "rows as they are": BIDS,
    "filter and projection": Map(
        input=Filter(input=BIDS, predicate=of("price > 80 AND note LIKE 'a%'", BIDS)),
        columns=(("item", of("item", BIDS)), ("double", of("price * 2", BIDS))),
    ),
    "sums of floats over a time window": PRICES,
    "extremes of what is corrected": aggregation(ASKS, "note", least=("min", "price", {})),
    "all other aggregates": aggregation(
        ASKS,
        *("item", "note"),
        different=("count", "price", {"distinct": True}),
        spread=("stddev_samp", "price", {}),
        middle=("median", "price", {}),
        ninth=("percentile", "price", {"fraction": 0.9}),
        notes=("string_agg", "note", {"separator": ", "}),
        paid=("sum", "paid", {}),
    ),
    "a slide and the bounds of windows": window(
        BIDS, slide=MINUTE, columns=("window_start", "window_end")
    ),
    "distinct rows in a window that needs presence alone": Distinct(input=window(ASKS)),
    "weights of a window": WeightedWindow(
        input=ASKS, size=MINUTE, slide=Duration(10), granule=Duration(5), weight="w", powers=True
    ),
    "granularity": Granularity(input=ASKS, granule=MINUTE),
    "shift": Shift(input=ASKS, by=-5),
    "clip": Clip(input=ASKS, start=Time(3)),
    "lifetimes": AlterLifetime(input=ASKS, extend=MINUTE),
    "coalesce": Coalesce(input=ASKS),
    "split": Split(input=ASKS, length=MINUTE),
    "split of points": Split(input=BIDS, length=MINUTE),
    "insertions": ToStream(input=ASKS, kind="insertions"),
    "deletions": ToStream(input=ASKS, kind="deletions", anchor="first_invalid"),
    "signed points and back": FromSigned(input=ToSigned(input=ASKS)),
    "whole events, settled": Cleanse(input=ASKS, cut=False),
    "union": Union(inputs=(BIDS, ASKS)),
    "difference": SetOperation(kind="difference", left=BIDS, right=ASKS),
    "a join by a key": join("inner", "item = item2 AND price > price2"),
    "an outer join": join("left", "item = item2"),
    "a join of what is near": join("inner", "item BETWEEN item2 - 1 AND item2 + 1"),
    "a join with a small side": join("inner", "item = item2", broadcast="right"),
    "a product": join("inner", None),
    "a lookup in a table": join("left", "item = id", ITEMS),
    "the last rows of each item": CountWindow(
        input=BIDS, rows=3, partition_by=keys(BIDS, "item"), order_by=(of("price", BIDS),)
    ),
    "every second row": CountWindow(input=BIDS, rows=4, slide=2),
    "sessions": SessionWindow(
        input=BIDS, gap=MINUTE, partition_by=keys(BIDS, "item"), columns=("first", "last")
    ),
    "the best of each item": TopK(
        input=ASKS,
        k=2,
        order_by=((of("price", ASKS), True, False),),
        partition_by=keys(ASKS, "item"),
    ),
    "places of each item": Ranking(
        input=ASKS,
        columns=(
            ("place", RankCall(function="rank")),
            ("before", RankCall(function="lag", argument=of("price", ASKS), offset=2)),
        ),
        order_by=((of("price", ASKS), True, False),),
        partition_by=keys(ASKS, "item"),
    ),
    "items of arrays": Explode(
        input=ASKS, argument=of("array(price, price)", ASKS), name="one", position="at"
    ),
    "the best of what is only inserted": TopK(
        input=BIDS, k=2, order_by=((of("price", BIDS), False, True),)
    ),
    "merged inputs": Merge(
        inputs=(ASKS, Source(name="Other", schema=SCHEMA, timestamps=True)),
        names=("one", "other"),
        policy=MergePolicy(inserts="quorum", quorum=2, lag=5, divergence="quarantine"),
    ),
    "merged copies": Merge(inputs=(COPIES,), case="r3"),
    "user operators over hopping windows": windows(
        Hopping(MINUTE, Duration(1)), group_by=keys(BIDS, "item"), clip="full", empty=True
    ),
    "a state per window": windows(
        Snapshot(), replace(ADDING, parameters=(("q", 0.5), ("on", None))), open_windows=True
    ),
    "windows by starts": windows(CountByStart(2), columns=("w_start", "w_end")),
    "windows by ends": windows(CountByEnd(3), errors="skip"),
    "sessions of the axis": windows(Session(MINUTE)),
    "a coarse clock": Distinct(input=COARSE),
    "several operators in one stage": Distinct(
        input=TopK(
            input=PRICES,
            k=1,
            order_by=((of("total", PRICES), True, False),),
            partition_by=keys(PRICES, "item"),
        )
    ),
}


def compiled(name: str) -> PhysicalPlan:
    """The plan; one of them emits what is final alone."""
    emit: Any = "final" if name == "sums of floats over a time window" else "speculative"
    return compile_plan(PLANS[name], emit=emit, tables=frozenset({"Item"}))


def shown(name: str) -> Iterator[str]:
    """All that a checkpoint says of a plan, and of what that is made."""
    plan = compiled(name)
    yield f"==== {name}"
    yield f"plan {plan_fingerprint(plan)}"
    marks = stage_fingerprints(plan)
    for stage in plan.stages:
        yield f"stage {marks[stage.name]}"
        for edge in stage.edges:
            yield from (f"  step {signature(step)}" for step in edge.chain)
        for kernel in stage.kernels:
            yield f"  kernel {signature(kernel)}"
            if isinstance(kernel, Stateful):
                form = StateForm.of(kernel)
                about = f"version {form.version}, layout {form.layout}"
                yield f"  form {about}: {form_signature(kernel)}"
    for node in dict.fromkeys(PLANS[name].walk()):
        yield f"node {fingerprint(node)} {signature(node)}"


def declarations() -> Iterator[str]:
    """What every class declares, with the defaults that are left out of signatures."""
    yield "==== declared: parameters with the defaults that signatures leave out"
    for kind in sorted(DECLARED, key=lambda kind: str(kind.identity.name)):  # type: ignore[attr-defined]
        declared = kind.identity  # type: ignore[attr-defined]
        usual = {each.name: each.default for each in fields(kind)}
        parts = []
        for entry in declared.parameters:
            key, _, path = entry.partition("=")
            default = usual.get(path or key, MISSING)
            parts.append(key if default is MISSING else f"{key} = {signature(default)}")
        version = f" version {declared.version}" if declared.form else ""
        yield f"{declared.name}{version}: {', '.join(parts)}"


def test_signatures_and_fingerprints_stay_what_they_are(update_golden: bool) -> None:
    lines = [*declarations(), *(line for name in PLANS for line in shown(name))]
    text = "\n".join(lines) + "\n"
    if update_golden:
        PATH.write_text(text)
    assert text == PATH.read_text()


def test_the_plans_have_every_operator() -> None:
    plans = [compiled(name) for name in PLANS]
    found: set[type] = {type(node) for plan in PLANS.values() for node in plan.walk()}
    for plan in plans:
        for stage in plan.stages:
            found |= {type(kernel) for kernel in stage.kernels}
            found |= {type(step) for edge in stage.edges for step in edge.chain}
    assert {kind.__name__ for kind in OPERATOR_CLASSES} <= {kind.__name__ for kind in found}
