"""The choice between the driver and tasks."""

from __future__ import annotations

from anabranch.runtime.query.driver_share import (
    COLD_JOB_MS,
    DRIVER_MS_PER_ROW,
    JOB_MS,
    ShareCosts,
    ShareLimits,
)
from anabranch.runtime.workers.batch_plan import entry_of

WIDE = ShareLimits(rows=10_000_000, bytes=1 << 40, milliseconds=10_000)


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


def test_workers_are_started_once_the_driver_has_lost_what_that_costs() -> None:
    # The driver takes 30 ms longer than tasks: it takes a while until that comes to something.
    costs = ShareCosts(driver=2 * (JOB_MS + 30.0) / 1_000_000, cores=2)
    assert not costs.prefers_driver(1_000_000, WIDE)
    batches = 0
    while not costs.is_worth_a_start(1_000_000):
        batches += 1
    assert abs(batches * 30.0 - COLD_JOB_MS) <= 30.0
    assert costs.is_worth_a_start(10)
    costs.learn("tasks", 1_000_000, JOB_MS + 150.0)
    assert costs.regret == 0.0
