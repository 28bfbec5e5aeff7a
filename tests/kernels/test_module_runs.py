"""Modules over traces of any form: many runs, many shards, other versions, other emissions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import Hopping, Session, tumbling
from anabranch.algebra.modules.user_operator import Result, Window
from anabranch.errors import OperatorError
from anabranch.expressions.expression import Expression
from anabranch.kernels.modules.operator_windows import read_state
from anabranch.kernels.modules.state import encode_state, version_of
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.testing import assert_agrees, batchings, streams
from anabranch.testing.oracle import history_of
from anabranch.testing.physical import (
    KitStable,
    PhysicalState,
    PhysicalStream,
    elements_of,
    violations,
)
from tests.kernels.module_told import assert_told, on_shards
from tests.kernels.modules import ADDING, PLAIN, TIMED, TIMED_ADDING, Adding, module
from tests.kernels.plans import SCHEMA, SOURCE
from tests.kernels.test_apply_operator import call, has_few_windows, nodes
from tests.kernels.test_module_failures import stream

KEY = (("k", Expression.parse("k", SCHEMA)),)
PER_RUN = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.usefixtures("eagerness")
@PER_RUN
@given(nodes(SOURCE), streams(SCHEMA).flatmap(batchings))
def test_runs_are_merged_at_any_moment(node: ApplyOperator, came: list[EventBatch]) -> None:
    assume(has_few_windows(node, came))
    assert_told(node, came)


@given(nodes(SOURCE), streams(SCHEMA).flatmap(batchings), st.integers(2, 4))
def test_results_do_not_depend_on_the_number_of_shards(
    node: ApplyOperator, came: list[EventBatch], shards: int
) -> None:
    assume(node.group_by and has_few_windows(node, came))
    state = PhysicalState.empty()
    seen: list[EventBatch] = []
    finite = 0
    for batch, out in zip(came, on_shards(node, came, shards), strict=True):
        seen.append(batch)
        finite = max([each.stable for each in seen if each.stable < FOREVER], default=finite)
        assert next(violations(elements_of(out), state), None) is None
        state.take(KitStable(out.stable))
        got = LogicalStream.of(event for event, count in state.events.items() for _ in range(count))
        wanted = LogicalStream.of(node.apply(history_of(seen), finite))
        assert not got.difference(wanted, out.stable)


@given(nodes(SOURCE), streams(SCHEMA))
def test_one_element_per_batch_or_all_at_once(node: ApplyOperator, came: PhysicalStream) -> None:
    assume(has_few_windows(node, came.batches()))
    assert_told(node, came.in_batches_of(1))
    assert_told(node, came.batches())


@pytest.mark.parametrize("emit", ["final", "watermark"])
@given(nodes(SOURCE), streams(SCHEMA).flatmap(batchings))
def test_other_emissions_are_exact_where_they_are_settled(
    emit: Emission, node: ApplyOperator, came: list[EventBatch]
) -> None:
    assume(has_few_windows(node, came))
    left = assert_agrees(node, came, emit=emit)
    if emit == "final":
        assert all((batch.new_end > batch.end).all() for batch in left)


class Second(Adding):
    """The version that keeps how often it was told of anything, too."""

    can_migrate = True

    def migrate(self, state: Any, version: int) -> Any:
        assert version == 1
        return state

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        return [((f"second {sorted(state)}",), None, None)]


def versions(code: Adding, version: int) -> ApplyOperator:
    adding = module("adding", code, incremental=True, version=version)
    window = tumbling(Duration(10))
    return ApplyOperator(input=SOURCE, window=window, calls=(call(adding),), group_by=KEY)


def follow(before: ApplyOperator, after: ApplyOperator) -> EventBatch:
    """What the second says that goes on with what the first left."""
    first, second = LocalRunner(before), LocalRunner(after)
    first.step({"S": stream((1, 1, 1, 2)).batches()[0]})
    second._states = first._states
    return second.step({"S": stream((2, 3, 3, 4), 20).batches()[0]})


def test_states_of_an_earlier_version_are_read_by_migrate() -> None:
    left = follow(versions(Adding(), 1), versions(Second(), 2))
    assert left.payload.to_pylist() == [{"k": "a", "said0": "second [1, 2]"}]


def test_states_of_an_earlier_version_are_refused_without_migrate() -> None:
    for errors in ("fail", "skip"):
        later = replace(versions(Adding(), 2), errors=errors)
        with pytest.raises(OperatorError, match="stored a state of version 1 and is now version 2"):
            follow(replace(versions(Adding(), 1), errors=errors), later)
    with pytest.raises(OperatorError, match="stored a state of version 2 and is now version 1"):
        follow(versions(Second(), 2), versions(Second(), 1))


def test_the_version_of_a_state_is_known_before_it_is_read() -> None:
    data = encode_state({"a": [1, None]}, 17)
    assert version_of(data) == 17
    assert read_state(module("m", Adding(), version=17), data) == {"a": [1, None]}


def test_what_never_ends_is_looked_at_as_far_as_what_states_have_swallowed() -> None:
    node = ApplyOperator(input=SOURCE, window=tumbling(Duration(5)), calls=(call(ADDING),))
    came = stream((1, 0, 0, FOREVER), (2, 5, 5, 6), 0, FOREVER)
    assert_told(node, came.in_batches_of(1))


def test_a_session_can_grow_from_an_end_where_the_promise_stands() -> None:
    node = ApplyOperator(input=SOURCE, window=Session(Duration(1)), calls=(call(ADDING),))
    came = stream((1, 0, 0, 5), (2, 1, 1, 3), 5, (1, 0, 5, 8), FOREVER)
    assert_told(node, came.in_batches_of(1))


@pytest.mark.parametrize("of", [PLAIN, TIMED, ADDING, TIMED_ADDING])
def test_a_window_with_an_event_that_has_ended_is_not_empty(of: Any) -> None:
    node = ApplyOperator(input=SOURCE, window=tumbling(Duration(10)), calls=(call(of),), empty=True)
    for rows in (((1, 1, 1, 2), 5, 10, 40, FOREVER), ((1, 1, 1, 2), 5, (1, 25, 25, 26), FOREVER)):
        assert_told(node, stream(*rows).in_batches_of(1))


@pytest.mark.parametrize("of", [PLAIN, TIMED, ADDING, TIMED_ADDING])
def test_empty_windows_near_the_end_of_time(of: Any) -> None:
    end = int(FOREVER)
    node = ApplyOperator(input=SOURCE, window=tumbling(Duration(2)), calls=(call(of),), empty=True)
    came = stream((1, end - 6, end - 6, end), (2, end - 6, end - 6, end - 1), FOREVER)
    assert_told(node, came.batches())
    hopping = replace(node, window=Hopping(Duration(3), Duration(1)))
    assert_told(hopping, stream((1, end - 3, end - 3, end - 2), end - 2, FOREVER).in_batches_of(2))
    assert_told(hopping, stream((1, end - 3, end - 3, end - 2), end - 1, FOREVER).in_batches_of(1))
    gaps = replace(node, window=Hopping(Duration(1), Duration(50)))
    assert_told(gaps, stream((1, end - 60, end - 60, end - 2), end - 1, FOREVER).in_batches_of(1))


@pytest.mark.usefixtures("eagerness")
def test_windows_near_the_ends_of_time_are_counted_one_by_one() -> None:
    node = ApplyOperator(input=SOURCE, window=tumbling(Duration(4)), calls=(call(PLAIN),))
    for start in (int(FOREVER) - 9, int(BEGINNING) + 1):
        came = stream((1, start, start, start + 7), (2, start + 2, start + 2, start + 3), FOREVER)
        assert_told(node, came.in_batches_of(1))
