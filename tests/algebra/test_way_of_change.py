"""How a change of what is settled is applied, by the plan alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.kernels.modules import PLAIN, Listing, module
from tests.kernels.operators import OTHER, POINTS
from tests.kernels.plans import SCHEMA, SOURCE, aggregate
from tests.kernels.test_apply_operator import call

import anabranch as ab
from anabranch.algebra.analysis.reach import way_of_change
from anabranch.algebra.clip import Clip
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.join import Join
from anabranch.algebra.map import Map
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import tumbling
from anabranch.algebra.node import Node
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.to_stream import ToStream
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration, Time

FIVE = Duration(5)


def held(over: Node) -> TimeWindow:
    return TimeWindow(input=over, size=FIVE)


def joined(left: Node, right: Node) -> Join:
    renamed = Map(
        input=right,
        columns=tuple((f"{name}2", Expression.parse(name, SCHEMA)) for name in SCHEMA.names),
    )
    return Join(kind="inner", left=left, right=renamed)


DIRECT: dict[str, Node] = {
    "a source": SOURCE,
    "a window below an aggregate": aggregate(held(SOURCE), ("k",), "s"),
    "windows, shifts and filters that come first": Distinct(
        input=Filter(
            input=Shift(input=held(SOURCE), by=3), predicate=Expression.parse("v > 1", SCHEMA)
        )
    ),
    "a join of two windows of one source": joined(held(SOURCE), held(Shift(input=SOURCE, by=5))),
    "a window above the state of another source": held(
        Union(inputs=(SOURCE, Distinct(input=OTHER)))
    ),
    "a clip above state": Clip(input=Distinct(input=SOURCE), start=Time(4)),
    "snapshots as points": ToStream(input=Distinct(input=SOURCE), kind="snapshots"),
    "results that are held back": Cleanse(input=aggregate(held(SOURCE), (), "s")),
}
SWAP: dict[str, tuple[Node, str]] = {
    "rows that are counted": (CountWindow(input=POINTS, rows=3), "state of 'CountWindow 3'"),
    "sessions": (
        aggregate(SessionWindow(input=POINTS, gap=FIVE), (), "s"),
        "state of 'SessionWindow 5'",
    ),
    "a window above state": (
        held(Distinct(input=SOURCE)),
        "'TimeWindow 5' changes the times of results that depend on state",
    ),
    "a window above state on one of two paths": (
        Union(inputs=(SOURCE, held(Distinct(input=SOURCE)))),
        "'TimeWindow 5' changes the times",
    ),
    "windows of the time axis": (
        ApplyOperator.over(POINTS, window=tumbling(FIVE), calls=(call(PLAIN),)),
        "per TUMBLING 5'",
    ),
}


@pytest.mark.parametrize("name", DIRECT)
def test_a_change_is_direct_where_no_state_depends_on_earlier_instants(name: str) -> None:
    assert way_of_change(DIRECT[name], "S").way == "direct"


@pytest.mark.parametrize("name", SWAP)
def test_state_that_depends_on_earlier_instants_is_computed_anew(name: str) -> None:
    node, reason = SWAP[name]
    found = way_of_change(node, "S")
    assert found.way == "swap"
    assert reason in found.reason


def test_a_source_that_is_not_read_changes_nothing() -> None:
    found = way_of_change(CountWindow(input=POINTS, rows=3), "Bid")
    assert (found.way, found.reason) == ("direct", "the query does not read Bid")


def test_what_is_computed_by_chance_is_not_computed_again() -> None:
    @ab.udf(returns=float, deterministic=False)
    def dice(value: int) -> float:
        return 0.5

    parsed = Expression.parse("dice(v)", SCHEMA, functions=(dice,))
    by_chance = Map(input=OTHER, columns=(("d", parsed),))
    node = Join(kind="inner", left=SOURCE, right=by_chance)
    found = way_of_change(node, "S")
    assert found.way == "refused"
    assert "'Map DICE(v) AS d' calls dice, which is not deterministic" in found.reason


def test_a_module_that_is_not_deterministic_is_not_called_again() -> None:
    loose = module("loose", Listing(), properties=frozenset({"group_filter"}))
    over = Source(name="S", schema=pa.schema([("v", pa.int64())]), only_points=True)
    node = ApplyOperator.over(over, window=tumbling(FIVE), calls=(call(loose, over=over),))
    found = way_of_change(node, "S")
    assert found.way == "refused"
    assert "calls loose, which is not deterministic" in found.reason
