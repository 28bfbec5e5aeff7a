"""What all logical operators share: schema, properties, label, and what they refuse."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
import pytest

from anabranch.aggregates.call import AggregateCall
from anabranch.aggregates.table import FUNCTIONS
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.explain import explain_tree
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.model.time import FOREVER, Duration

BIDS = pa.schema([("itemID", pa.int64()), ("price", pa.float64())])
BID = Source(name="Bid", schema=BIDS, insert_only=True, only_points=True, timestamps=True)
ANY = Source(name="Any", schema=BIDS)
ANY_BID = Source(name="AnyBid", schema=BIDS, timestamps=True)


def of(text: str, over: Node = BID) -> Expression:
    return Expression.parse(text, over.schema)


def dear(over: Node) -> Filter:
    return Filter(input=over, predicate=of("price > 80", over))


def items(over: Node) -> Map:
    return Map(input=over, columns=(("itemID", of("itemID", over)),))


def held(over: Node, size: int = 600_000_000, slide: int = 1) -> TimeWindow:
    return TimeWindow(input=over, size=Duration(size), slide=Duration(slide))


def highest(over: Node) -> Aggregation:
    call = AggregateCall(function="max", argument=of("price", over))
    return Aggregation(
        input=over, group_by=(("itemID", of("itemID", over)),), aggregates=(("highest", call),)
    )


def test_a_plan_is_shown_as_a_tree() -> None:
    plan = highest(held(Union(inputs=(dear(BID), Coalesce(input=BID))), slide=60_000_000))
    assert explain_tree(plan) == (
        "Aggregate max(price) AS highest by itemID\n"
        "  TimeWindow 10m slide 1m\n"
        "    Union\n"
        "      Filter price > 80\n"
        "        Source Bid\n"
        "      Coalesce\n"
        "        Source Bid"
    )


def test_labels_show_the_arguments() -> None:
    doubled = Map(
        input=BID,
        columns=(("itemID", of("ITEMID")), ("twice", of("price*2")), ("price", of("itemID"))),
    )
    assert doubled.label == "Map itemID, price * 2 AS twice, itemID AS price"
    counted = Aggregation(
        input=BID,
        aggregates=(
            ("count(*)", AggregateCall(function="count")),
            ("n", AggregateCall(function="count", argument=of("price"), distinct=True)),
        ),
    )
    assert counted.label == "Aggregate count(*), count(DISTINCT price) AS n"
    grouped = Aggregation(input=BID, group_by=(("half", of("itemID div 2")),))
    assert grouped.label == "Aggregate by itemID DIV 2 AS half"


@pytest.mark.parametrize(
    ("node", "label"),
    [
        (held(BID, 90_000_000), "TimeWindow 90s"),
        (held(BID, 1_500_000), "TimeWindow 1500ms"),
        (held(BID, 7 * 86_400_000_000), "TimeWindow 7d"),
        (held(BID, 7), "TimeWindow 7us"),
        (held(ANY, 600_000_000), "TimeWindow 600000000"),
        (held(ANY, 5, 2), "TimeWindow 5 slide 2"),
        (held(BID, UNBOUNDED), "TimeWindow forever"),
        (held(dear(BID), 3_600_000_000, 60_000_000), "TimeWindow 1h slide 1m"),
    ],
)
def test_durations_have_units_where_time_is_a_clock(node: Node, label: str) -> None:
    assert node.label == label


def test_schemas_follow_from_the_arguments() -> None:
    assert dear(BID).schema == held(BID).schema == Coalesce(input=BID).schema == BIDS
    assert items(BID).schema == pa.schema([("itemID", pa.int64())])
    assert highest(BID).schema == pa.schema([("itemID", pa.int64()), ("highest", pa.float64())])
    assert Union(inputs=(BID, ANY_BID)).schema == BIDS


BOTH = Properties(insert_only=True, only_points=True)
INSERTS = Properties(insert_only=True)
NONE = Properties()


@pytest.mark.parametrize(
    ("node", "known"),
    [
        (BID, BOTH),
        (ANY, NONE),
        (dear(BID), BOTH),
        (items(BID), BOTH),
        (dear(ANY), NONE),
        (Union(inputs=(BID, BID)), BOTH),
        (Union(inputs=(BID, ANY_BID)), NONE),
        (Union(inputs=(BID, held(BID))), INSERTS),
        (held(BID, 2), INSERTS),
        (held(BID, 1), BOTH),
        (held(BID, 1, 2), INSERTS),
        (held(ANY, 1), NONE),
        (highest(BID), Properties(no_duplicates=True)),
        (Coalesce(input=BID), NONE),
    ],
)
def test_properties_follow_from_those_of_the_inputs(node: Node, known: Properties) -> None:
    assert node.properties == known


def test_nodes_are_values() -> None:
    plan = highest(held(dear(BID)))
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert hash(again) == hash(plan)
    assert [type(node).__name__ for node in plan.walk()] == [
        "Source",
        "Filter",
        "TimeWindow",
        "Aggregation",
    ]
    with pytest.raises(AttributeError):
        cast("Any", plan).input = BID


OTHER = Source(name="Other", schema=pa.schema([("itemID", pa.int32()), ("price", pa.float64())]))
NAMES = Source(name="Names", schema=pa.schema([("name", pa.string()), ("ok", pa.bool_())]))


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: Source(name="", schema=BIDS), "a source needs a name"),
        (
            lambda: Source(name="S", schema=pa.schema([("a", pa.int64()), ("a", pa.int64())])),
            "there are 2 columns 'a'",
        ),
        (
            lambda: Source(name="S", schema=pa.schema([("__id", pa.int64())])),
            "a column cannot be called '__id'",
        ),
        (
            lambda: Filter(input=BID, predicate=of("price + 1")),
            "a filter needs a condition, not a value of type double",
        ),
        (
            lambda: Filter(input=OTHER, predicate=of("price > 1")),
            "'price > 1' was bound to columns other than those of its input",
        ),
        (lambda: Map(input=BID, columns=()), "a map needs at least one column"),
        (
            lambda: Map(input=BID, columns=(("x", of("price")), ("x", of("itemID")))),
            "there are 2 columns 'x'",
        ),
        (
            lambda: Map(input=OTHER, columns=(("x", of("price")),)),
            "'price' was bound to columns other",
        ),
        (lambda: Union(inputs=()), "a union needs at least one input"),
        (
            lambda: Union(inputs=(ANY, ANY, OTHER)),
            "input 3 of a union has columns that differ from those of the first\n"
            "  first: itemID int64, price double\n"
            "  input 3: itemID int32, price double\n"
            "  hint: select the same columns, in the same order, under the same names",
        ),
        (lambda: held(BID, 0), "a window cannot have size 0"),
        (lambda: held(BID, -5), "a window cannot have size -5"),
        (lambda: held(BID, FOREVER + 1), "a window cannot have size"),
        (lambda: held(BID, 5, 0), "a window cannot slide by 0"),
        (lambda: held(BID, 5, FOREVER), "a window cannot slide by"),
        (lambda: Aggregation(input=BID), "an aggregation needs an aggregate or a group"),
        (
            lambda: Aggregation(
                input=BID,
                group_by=(("n", of("itemID")),),
                aggregates=(("n", AggregateCall(function="count")),),
            ),
            "there are 2 columns 'n'",
        ),
        (
            lambda: Aggregation(input=OTHER, group_by=(("n", of("itemID")),)),
            "'itemID' was bound to columns other",
        ),
        (
            lambda: Aggregation(
                input=OTHER,
                aggregates=(("n", AggregateCall(function="sum", argument=of("itemID"))),),
            ),
            "'itemID' was bound to columns other",
        ),
        (
            lambda: AggregateCall(function="fashion", argument=of("price")),
            "there is no aggregate 'fashion'\n  hint: aggregates are: " + ", ".join(FUNCTIONS),
        ),
        (lambda: AggregateCall(function="sum"), r"sum(*) needs an argument"),
        (lambda: AggregateCall(function="count", distinct=True), "needs an argument"),
        (
            lambda: AggregateCall(function="max", argument=of("price"), distinct=True),
            "DISTINCT cannot be used with max",
        ),
        (
            lambda: AggregateCall(function="percentile", argument=of("price")),
            "percentile needs a fraction",
        ),
        (
            lambda: AggregateCall(function="median", argument=of("price"), fraction=0.5),
            "median takes no fraction",
        ),
        (
            lambda: AggregateCall(
                function="percentile_disc", argument=of("price"), fraction=float("nan")
            ),
            "the fraction of a percentile cannot be nan",
        ),
        (
            lambda: AggregateCall(function="percentile", argument=of("price"), fraction=1.5),
            "the fraction of a percentile cannot be 1.5\n  percentile(price, 1.5)\n  hint: a "
            "fraction lies",
        ),
        (
            lambda: AggregateCall(function="string_agg", argument=of("name", NAMES)),
            "string_agg needs a separator",
        ),
        (
            lambda: AggregateCall(function="string_agg", argument=of("price"), separator=","),
            "string_agg does not work on values of type double",
        ),
        (
            lambda: AggregateCall(function="median", argument=of("name", NAMES)),
            "median does not work on values of type string",
        ),
        (
            lambda: AggregateCall(function="sum", argument=of("name", NAMES)),
            "sum does not work on values of type string",
        ),
        (
            lambda: AggregateCall(function="avg", argument=of("ok", NAMES)),
            "avg does not work on values of type bool",
        ),
        (
            lambda: AggregateCall(function="max", argument=of("array(name)", NAMES)),
            "max does not work on values of type list<item: string>",
        ),
    ],
)
def test_bad_arguments_are_refused(build: Callable[[], object], what: str) -> None:
    with pytest.raises(PlanError) as caught:
        build()
    assert what in str(caught.value)
    assert caught.value.hint


def test_union_ignores_what_is_noted_beside_names_and_types() -> None:
    strict = pa.schema([pa.field("itemID", pa.int64(), nullable=False), BIDS.field("price")])
    noted = BIDS.with_metadata({"from": "a file"})
    sources = (ANY, Source(name="A", schema=strict), Source(name="B", schema=noted))
    assert Union(inputs=sources).schema == BIDS
