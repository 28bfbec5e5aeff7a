"""The choice between the driver and tasks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernels.plans import SOURCE

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.time_window import TimeWindow
from anabranch.kernels.plan.compile import PhysicalPlan, compile_plan
from anabranch.model.time import Duration
from anabranch.runtime.query.driver_share import (
    DRIVER_MS_PER_ROW,
    JOB_MS,
    WARM_UP,
    ShareCosts,
    ShareLimits,
)
from anabranch.runtime.query.experience import REMEMBERED_PLANS, Experience
from anabranch.runtime.query.metrics import RanIn
from anabranch.runtime.spark.warm_up import START_AFTER_MS, WorkerWarmUp
from anabranch.runtime.workers.batch_plan import entry_of

NOBODY: Any = None
"""A Spark that is never asked."""

WIDE = ShareLimits(rows=10_000_000, bytes=1 << 40, milliseconds=10_000)


def plan_of(size: int) -> PhysicalPlan:
    """A plan that is another one for every size."""
    return compile_plan(Distinct(input=TimeWindow(input=SOURCE, size=Duration(size))))


def test_small_batches_are_for_the_driver_and_large_ones_for_tasks() -> None:
    costs = ShareCosts()
    even = round(JOB_MS / DRIVER_MS_PER_ROW)
    assert costs.prefers_driver(0, WIDE)
    assert costs.prefers_driver(even - 1_000, WIDE)
    assert not costs.prefers_driver(even + 1_000, WIDE)


def test_a_query_whose_rows_are_expensive_goes_to_tasks_earlier() -> None:
    costs = ShareCosts()
    for _ in range(20):
        costs.learn("driver", 100_000, 1_000.0)
    # A row takes 0.01 ms by now.
    even = round(JOB_MS / 0.01)
    assert costs.prefers_driver(even - 1_000, WIDE)
    assert not costs.prefers_driver(even + 1_000, WIDE)


def test_what_tasks_cost_per_row_counts_against_them() -> None:
    costs = ShareCosts()
    for _ in range(50):
        costs.learn("tasks", 1_000_000, JOB_MS + 400.0)
    assert costs.prefers_driver(5_000_000, WIDE)


def test_one_slow_batch_does_not_keep_the_driver_out_for_good() -> None:
    costs = ShareCosts(cold=0)
    costs.learn("driver", 10_000, 60_000.0)
    assert not costs.prefers_driver(10_000, WIDE)
    batches = 0
    while not costs.prefers_driver(10_000, WIDE):
        costs.learn("tasks", 10_000, JOB_MS)
        batches += 1
    assert batches < 150


def test_batches_of_a_few_rows_say_nothing() -> None:
    costs = ShareCosts(cold=0)
    costs.learn("driver", 10, 5_000.0)
    assert costs == ShareCosts(cold=0)


def test_the_first_batches_say_nothing_either() -> None:
    costs = ShareCosts()
    for left in (2, 1, 0):
        costs.learn("driver", 100_000, 5_000.0)
        assert costs == ShareCosts(cold=left)
    costs.learn("driver", 100_000, 5_000.0)
    assert costs.driver > ShareCosts().driver


def test_the_time_of_the_driver_is_bounded() -> None:
    strict = ShareLimits(rows=10_000_000, bytes=1 << 40, milliseconds=10)
    assert ShareCosts().prefers_driver(100_000, strict)
    assert not ShareCosts().prefers_driver(110_000, strict)


def test_an_offset_is_read_from_the_log_of_spark_or_not_at_all() -> None:
    about = '{"batchWatermarkMs":0}'
    assert entry_of(f'v1\n{about}\n{{"entry": 7}}'.encode()) == 7
    for unknown in (None, b"", b"v2\n{}\n{}", b"v1\n{}\n7\n8", b"v1\n{}\n-", b'v1\n{}\n{"at":1}'):
        assert entry_of(unknown) is None


def test_tasks_that_were_never_measured_are_no_faster_than_their_cores() -> None:
    costs = ShareCosts(cold=0, cores=2)
    even = 2 * round(JOB_MS / DRIVER_MS_PER_ROW)
    assert costs.prefers_driver(even - 1_000, WIDE)
    assert not costs.prefers_driver(even + 1_000, WIDE)
    costs.learn("tasks", 1_000_000, JOB_MS + 50.0)
    assert (costs.cores, round(costs.tasks, 6)) == (0, 0.00005)


def test_the_first_measurement_takes_the_place_of_the_guess() -> None:
    costs = ShareCosts(cold=0, cores=2)
    costs.learn("driver", 100_000, 100.0)
    assert costs.driver == pytest.approx(0.001)
    for _ in range(20):
        costs.learn("driver", 100_000, 50.0)
    assert costs.driver == pytest.approx(0.0005, rel=0.02)


def test_workers_are_started_once_the_driver_has_lost_what_that_costs() -> None:
    # The driver takes 30 ms longer than tasks: it takes a while until that comes to something.
    row = 2 * (JOB_MS + 30.0) / 1_000_000
    costs = ShareCosts(driver=row, busy=row, cores=2)
    assert not costs.prefers_driver(1_000_000, WIDE)
    workers: WorkerWarmUp = WorkerWarmUp(NOBODY, 2)
    batches = 0
    while not workers.is_worth_a_start(costs.loss(1_000_000)):
        batches += 1
    assert abs(batches * 30.0 - START_AFTER_MS) <= 30.0
    assert workers.is_worth_a_start(costs.loss(10))
    workers.used()
    assert workers.is_ready
    assert not workers.is_worth_a_start(costs.loss(1_000_000))


def test_a_plan_is_known_again_and_others_begin_without_what_is_imported_by_now() -> None:
    learned = Experience(WorkerWarmUp(NOBODY, 2), cores=2)
    counts, others = plan_of(size=10), plan_of(size=20)
    first = learned.costs_of(counts)
    assert (first.cold, first.cores) == (WARM_UP, 2)
    # Workers import and load as well: the first batches in tasks say nothing.
    first.learn("tasks", 1_000_000, 10_000.0)
    first.learn("tasks", 1_000_000, 10_000.0)
    assert (first.tasks, first.cores) == (0.0, 2)
    first.learn("tasks", 1_000_000, 100.0)
    assert first.cores == 0
    assert learned.costs_of(plan_of(size=10)) is first
    assert learned.costs_of(others).cold < WARM_UP


@pytest.mark.parametrize(("ran", "job"), [("driver", 0.0), ("tasks", JOB_MS)])
def test_a_plan_that_takes_the_place_of_another_is_measured_anew(ran: RanIn, job: float) -> None:
    learned = Experience(WorkerWarmUp(NOBODY, 2), cores=2)
    before = ShareCosts(driver=0.005, tasks=0.003, cold=0, measured=30)
    after = learned.costs_of(plan_of(size=10), before)
    assert (after.driver, after.tasks) == (0.005, 0.003)
    after.learn("driver", 100_000, 90_000.0)  # it loads loops of its own
    assert (after.driver, after.tasks) == (0.005, 0.003)
    known = after.driver if ran == "driver" else after.tasks
    after.learn(ran, 100_000, job + 100_000 * known / 5)
    assert after.driver == pytest.approx(0.001, rel=0.05)
    assert after.tasks == pytest.approx(0.0006)
    assert before.driver == 0.005


def test_a_plan_that_was_measured_before_is_known_again_when_it_comes_back() -> None:
    learned = Experience(WorkerWarmUp(NOBODY, 2), cores=2)
    first = learned.costs_of(plan_of(size=10))
    second = learned.costs_of(plan_of(size=20), first)
    assert learned.costs_of(plan_of(size=10), second) is first


def test_what_was_lost_with_one_plan_starts_no_workers_for_another() -> None:
    learned = Experience(WorkerWarmUp(NOBODY, 2), cores=2)
    first = learned.costs_of(plan_of(size=10))
    assert not learned.workers.is_worth_a_start(START_AFTER_MS - 1)
    learned.costs_of(plan_of(size=20), first)
    assert not learned.workers.is_worth_a_start(START_AFTER_MS - 1)
    assert learned.workers.is_worth_a_start(1)


def test_plans_that_were_not_used_for_long_are_forgotten() -> None:
    learned = Experience(WorkerWarmUp(NOBODY, 2), cores=2)
    oldest, kept = learned.costs_of(plan_of(size=1)), learned.costs_of(plan_of(size=2))
    for size in range(3, REMEMBERED_PLANS + 2):
        learned.costs_of(plan_of(size=size))
        assert learned.costs_of(plan_of(size=2)) is kept
    assert learned.costs_of(plan_of(size=1)) is not oldest


def test_tasks_gain_nothing_where_threads_of_the_driver_keep_all_cores_busy() -> None:
    threads, alone = ShareCosts(cold=0, cores=2), ShareCosts(cold=0, cores=2)
    for _ in range(5):
        threads.learn("driver", 1_000_000, 200.0, 390.0)
        alone.learn("driver", 1_000_000, 200.0, 200.0)
    assert threads.prefers_driver(1_000_000, WIDE)
    assert not alone.prefers_driver(1_000_000, WIDE)
