"""Events that came late, and that are withdrawn later, whatever start a kernel knows them by."""

from __future__ import annotations

import pytest

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.expressions.expression import Expression
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Adjust, Insert, batch_of
from anabranch.model.time import Duration, Time
from tests.kernels.operators import RENAMED
from tests.kernels.plans import SCHEMA, SOURCE
from tests.revisions.histories import assert_revised

LEAST = AggregateCall(function="min", argument=Expression.parse("v", SCHEMA))
NODES: dict[str, Node] = {
    "min": Aggregation(input=SOURCE, group_by=(), aggregates=(("least", LEAST),)),
    "top k": TopK(input=SOURCE, k=1, order_by=((Expression.parse("v", SCHEMA), False, False),)),
    "left join": Join(kind="left", left=SOURCE, right=RENAMED, predicate=None),
    "right join": Join(kind="right", left=SOURCE, right=RENAMED, predicate=None),
}
ROW = {"k": "a", "v": 1, "x": None}
OTHER = {"k": "a", "v": 7, "x": None}


def rows(*elements: Insert | Adjust, stable: int) -> EventBatch:
    return batch_of(elements, SCHEMA).with_stable(Time(stable))


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("between", [13, 15])
def test_a_late_event_can_be_withdrawn(name: str, together: bool, between: int) -> None:
    came, gone = Insert(ROW, 12, 20), Adjust(ROW, 12, 20, 12)
    first = {"S": rows(Insert(OTHER, 1, 30), stable=13), "T": rows(Insert(OTHER, 1, 30), stable=13)}
    if together:
        late = [{"S": rows(came, gone, stable=between)}]
    else:
        late = [{"S": rows(came, stable=between)}, {"S": rows(gone, stable=between)}]
    last = {"S": rows(stable=40), "T": rows(Insert(ROW, 16, 18), stable=40)}
    assert_revised(NODES[name], [first, *late, last])


@pytest.mark.parametrize("by", [-1, 0, 3])
def test_a_late_event_that_a_row_in_time_ends_is_final_as_it_ended(by: int) -> None:
    """Of [12, 20) what is behind 13 enters the query; the adjust that ends it there is in time."""
    late = rows(Insert(ROW, 12, 20), Insert(ROW, 12, 13), Adjust(ROW, 12, 20, 13), stable=25)
    node = Shift(input=SOURCE, by=Duration(by))
    assert_revised(node, [{"S": rows(stable=13)}, {"S": late}], emit="final")


def test_equal_late_points_that_follow_each_other_stay_points() -> None:
    source = Source(name="S", schema=SCHEMA, only_points=True)
    node = TimeWindow(
        input=source, size=Duration(2), slide=Duration(2), columns=("window_start", "window_end")
    )
    late = batch_of([Insert(("a", 1, 1.0), -2, -1), Insert(("a", 1, 1.0), -1, 0)], SCHEMA)
    assert_revised(node, [{"S": EventBatch.empty(SCHEMA, Time(5))}, {"S": late}])
