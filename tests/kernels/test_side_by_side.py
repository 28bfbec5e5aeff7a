"""Both answers in one pass differ as they do in two passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.kernels.plan.compile import compile_plan
from anabranch.kernels.plan.replay import replayed_changes
from anabranch.kernels.plan.side_by_side import distance_between, may_stand_side_by_side
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Insert, batch_of
from anabranch.model.netting import net
from anabranch.model.revision import snapshot_changes
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing.physical import PhysicalStream
from anabranch.testing.strategies import points, streams
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA, SOURCE

EVER = (BEGINNING, FOREVER)


def inserts(stream: PhysicalStream) -> EventBatch:
    return net(EventBatch.concat([EventBatch.empty(SCHEMA), *stream.batches()])).with_stable(
        BEGINNING
    )


def rows_of(batch: EventBatch) -> list[tuple[object, ...]]:
    columns = [batch.start.tolist(), batch.end.tolist(), batch.new_end.tolist()]
    payload = [map(repr, column.to_pylist()) for column in batch.payload.columns]
    return sorted(zip(*columns, *payload, strict=True))


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_one_pass_gives_what_two_give(name: str, data: st.DataObject) -> None:
    node: Node = data.draw(OPERATORS[name])
    distance = distance_between([node])
    if distance is None:
        return
    plan = compile_plan(node)
    drawn = streams(SCHEMA, longest=6 if name in SHORT else FOREVER)
    drawn = points(SCHEMA) if any(each.only_points for each in plan.sources.values()) else drawn
    past = {each: inserts(data.draw(drawn)) for each in plan.sources}
    source = data.draw(st.sampled_from(sorted(past)))
    new, old = inserts(data.draw(drawn)), past[source]
    gone = old.where(np.array(data.draw(st.lists(st.booleans(), min_size=len(old))))[: len(old)])
    taken = gone.with_ends(gone.new_end, gone.start)
    changes = {source: snapshot_changes(EventBatch.concat([new, taken]))}
    one = replayed_changes(plan, past, changes, EVER, distance)
    two = replayed_changes(plan, past, changes, EVER)
    assert [rows_of(each) for each in one] == [rows_of(each) for each in two]


def test_rows_at_the_ends_of_time_do_not_stand_side_by_side() -> None:
    near = batch_of([Insert(("a", 1, 0.5), 3, 9)], SCHEMA)
    assert may_stand_side_by_side([near, EventBatch.empty(SCHEMA)])
    for start, end in ((3, FOREVER), (BEGINNING + 1, 9), (2**59, 2**59 + 1)):
        far = batch_of([Insert(("a", 1, 0.5), start, end)], SCHEMA)
        assert not may_stand_side_by_side([near, far])


def test_windows_that_leave_no_room_are_computed_in_two_passes() -> None:
    def window(size: int, slide: int) -> TimeWindow:
        return TimeWindow(input=SOURCE, size=Duration(size), slide=Duration(slide))

    assert distance_between([window(2**59, 1)]) is None
    assert distance_between([window(7, 2**59 + 1)]) is None
    found = distance_between([window(9, 4), window(9, 6)])
    assert found is not None
    assert found % 12 == 0
    assert found > 2**60 + 2**59
