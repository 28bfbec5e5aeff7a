"""Shards without rows rest: nobody sees it in the answers, and it costs next to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.operators import OPERATORS, SHORT
from tests.kernels.plans import SCHEMA as OPERATOR_SCHEMA
from tests.kernels.plans import plans
from tests.runtime.test_rescale import WINDOWED as WINDOWED_MODULES
from tests.runtime.test_sharded_stages import (
    BIDS,
    PLANS,
    SCHEMA,
    WINDOWED,
    by_count,
    column,
    insert,
    legal_batches,
    per_key,
)

from anabranch.aggregates.call import AggregateCall
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import EngineError
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.kernels.plan.stage import Stage
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.runtime.elements import exchange
from anabranch.runtime.option import MOST_SHARDS
from anabranch.runtime.store.folder import LocalFolder
from anabranch.runtime.store.stage_store import INDEX, StageStore
from anabranch.testing import elements_of, schedules, sources_of, streams

Make = Callable[..., Any]

SETTINGS: Final = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
NEVER: Final = 1 << 20
"""Shards rest from so many on: from more than there are."""

POINTS: Final = Source(name="bids", schema=SCHEMA, insert_only=True, only_points=True)
PER_MINUTE: Final = TimeWindow(
    input=POINTS, size=Duration(10), slide=Duration(10), columns=("since", "until")
)


def per_window() -> Aggregation:
    """A count and a maximum per key and window, which are final when the window is over."""
    names = PER_MINUTE.schema
    return Aggregation(
        input=PER_MINUTE,
        group_by=(("k", column("k", names)), ("since", column("since", names))),
        aggregates=(
            ("n", AggregateCall(function="count")),
            ("top", AggregateCall(function="max", argument=column("v", names))),
        ),
    )


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """What a batch does: steps of kernels, files, parcels."""
    found: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> Any:
        real = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            found[name] += 1
            return real(*args, **options)

        return patch.object(owner, name, call)

    with (
        counting(Stage, "step"),
        counting(LocalFolder, "read"),
        counting(LocalFolder, "write"),
        counting(LocalFolder, "names"),
        counting(LocalFolder, "open"),
        counting(LocalFolder, "remove"),
        counting(exchange, "from_blob"),
        counting(exchange, "head_of_text"),
    ):
        yield found


def sparse(batch: int, keys: int = 1_000_000) -> EventBatch:
    """Ten rows of keys that hardly ever come again."""
    of_batch = np.random.default_rng(batch).integers(0, keys, (10, 2)).tolist()
    return insert([(k, v % 100, batch, batch + 1) for k, v in of_batch], batch)


@pytest.mark.parametrize(
    "name", ["one keyed stage", "two keyed stages", "a stage that is one shard"]
)
def test_what_a_batch_costs_does_not_grow_with_the_number_of_shards(
    sharded: Make, name: str
) -> None:
    costs = []
    for shards in (64, MOST_SHARDS):
        runner = sharded(PLANS[name], shards=shards, resting_from=16)
        runner.job = replace(runner.job, tasks=2)
        for batch in range(4):
            runner.step({"bids": [sparse(batch)]})
        with counted() as found:
            runner.step({"bids": [sparse(4)]})
        costs.append(found)
    few, many = costs
    for what, count in many.items():
        # In 64 shards some of the keys meet; beyond that there is no difference.
        assert count <= few[what] * 1.5 + 5, (what, few, many)
    assert many["step"] < 60


def test_shards_that_have_state_rest_too(sharded: Make, tmp_path: Path) -> None:
    runner = sharded(per_key(WINDOWED), folder=tmp_path / "it", shards=64, resting_from=16)
    runner.job = replace(runner.job, tasks=2)
    every = [(key, 1, 0, 1) for key in range(500)]
    runner.step({"bids": [insert(every, 0)]})
    runner.step({"bids": [insert([], 1)]})
    with counted() as found:
        runner.step({"bids": [insert([], 2)]})
    # Shard 0 alone makes a step; each task finds out first what one without rows comes to.
    assert found["step"] == 3
    rows = {each.shard: each.state_rows for head in runner.heads for each in head.counters}
    assert sum(rows.values()) == 1_500
    assert sum(each.shards for head in runner.heads for each in head.counters) == 64
    # All windows are over: every shard has something to forget.
    with counted() as found:
        runner.step({"bids": [insert([], 50)]})
    assert found["step"] > 60
    runner.step({"bids": [insert([], 51)]})
    assert sum(each.state_rows for head in runner.heads for each in head.counters) == 0


def test_few_shards_do_not_rest(sharded: Make, tmp_path: Path) -> None:
    runner = sharded(per_key(WINDOWED), folder=tmp_path / "it", shards=15, resting_from=16)
    runner.step({"bids": [insert([(1, 1, 0, 1)], 0)]})
    runner.step({"bids": [insert([], 1)]})
    assert not list((tmp_path / "it").rglob(INDEX))
    assert len(list((tmp_path / "it").rglob("1.json"))) == 15


def test_a_query_with_the_most_shards_means_what_duckdb_says(sharded: Make) -> None:
    runner = sharded(per_window(), shards=MOST_SHARDS, emit="final", resting_from=16)
    runner.job = replace(runner.job, tasks=2)
    rows, found = [], []
    for batch in range(12):
        step = sparse(batch * 4, keys=40)
        rows.append(step)
        found.append(runner.step({"bids": [step]}))
    found.append(runner.step({"bids": [insert([], FOREVER)]}))
    assert found[-1].stable == FOREVER
    payload = [each.payload.append_column("instant", pa.array(each.start)) for each in rows]
    with duckdb.connect() as database:
        database.register("arrived", pa.Table.from_batches(payload))
        expected = database.execute(
            "SELECT k, instant // 10 * 10 AS since, count(*), max(v) FROM arrived GROUP BY ALL"
        ).fetchall()
    held: Counter[tuple[int, ...]] = Counter()
    for each in found:
        lengths = (each.new_end - each.start).tolist()
        for row, length in zip(each.payload.to_pylist(), lengths, strict=True):
            held[tuple(row.values())] += length
    # A result leaves in pieces, as far as it is final; together they are its window.
    assert held == dict.fromkeys(expected, 10)


def legal_steps(draw: Callable[..., Any], node: Node, longest: int) -> list[dict[str, EventBatch]]:
    drawn = {
        source.name: streams(
            OPERATOR_SCHEMA,
            max_size=12,
            only_points=source.only_points,
            longest=longest,
            odd_floats=False,
        )
        for source in sources_of(node)
    }
    steps: list[dict[str, EventBatch]] = draw(schedules(**drawn))
    return steps


def assert_shards_agree(
    sharded: Make,
    data: st.DataObject,
    node: Node,
    steps: list[dict[str, EventBatch]],
    emissions: Sequence[Emission] = ("speculative", "final"),
) -> None:
    """Many shards, of which most rest in most batches, mean what one process does."""
    shards = data.draw(st.sampled_from([5, 17, 40]))
    emit = data.draw(st.sampled_from(emissions))
    local = LocalRunner(node, emit=emit)
    runner = sharded(node, shards=shards, emit=emit, seed=data.draw(st.integers(0, 9)))
    expected: list[EventBatch] = []
    found: list[EventBatch] = []
    for step in steps:
        expected.append(local.step(step))
        runner.job = replace(runner.job, tasks=data.draw(st.integers(1, 4)))
        found.append(runner.step({name: [rows] for name, rows in step.items()}))
        assert found[-1].stable == expected[-1].stable
        difference = LogicalStream.of_batches(found).agrees_with(LogicalStream.of_batches(expected))
        assert difference is None


@pytest.mark.parametrize("name", OPERATORS)
@SETTINGS
@given(data=st.data())
def test_operators_mean_the_same_in_many_shards(
    sharded: Make, name: str, data: st.DataObject
) -> None:
    node = data.draw(OPERATORS[name])
    longest = 12 if name in SHORT else FOREVER
    assert_shards_agree(sharded, data, node, legal_steps(data.draw, node, longest))


@pytest.mark.parametrize("name", WINDOWED_MODULES)
@SETTINGS
@given(data=st.data())
def test_modules_tell_the_same_whether_shards_rest_or_not(
    sharded: Make, name: str, data: st.DataObject
) -> None:
    """What they show before it is final depends on what came to a shard: the same for both."""
    node, shards = WINDOWED_MODULES[name], data.draw(st.sampled_from([5, 17]))
    one, other = sharded(node, shards=shards), sharded(node, shards=shards, resting_from=NEVER)
    for step in legal_steps(data.draw, node, 12):
        tasks = data.draw(st.integers(1, 4))
        one.job, other.job = replace(one.job, tasks=tasks), replace(other.job, tasks=tasks)
        came = {source: [rows] for source, rows in step.items()}
        found, expected = one.step(came), other.step(came)
        assert found.stable == expected.stable
        assert elements_of(found) == elements_of(expected)


@SETTINGS
@given(data=st.data())
def test_so_do_drawn_plans(sharded: Make, data: st.DataObject) -> None:
    node = data.draw(plans())
    assert_shards_agree(sharded, data, node, legal_steps(data.draw, node, FOREVER))


class _KilledError(Exception):
    """The process has died."""


@contextmanager
def dying_after(writes: int) -> Iterator[None]:
    """Die at a file that is to be written: before it appears, or right behind that."""
    real, left = LocalFolder.write, [writes]

    def write(self: LocalFolder, name: str, data: Any, *, mark: str = "") -> None:
        left[0] -= 1
        if left[0] == 0:
            raise _KilledError
        real(self, name, data, mark=mark)

    with patch.object(LocalFolder, "write", write):
        yield


@pytest.mark.parametrize("name", PLANS)
@SETTINGS
@given(
    data=st.data(),
    batches=legal_batches(),
    others=legal_batches(),
    emit=st.sampled_from(["speculative", "final"]),
)
def test_attempts_that_do_not_count_leave_nothing_behind(
    sharded: Make,
    name: str,
    data: st.DataObject,
    batches: list[list[EventBatch]],
    others: list[list[EventBatch]],
    emit: Emission,
) -> None:
    """A batch is begun, maybe with other rows, and given up anywhere; then it is done.

    The number of tasks changes from one attempt to the next, and whether shards may rest at all
    from one batch to the next.
    """
    node, shards = PLANS[name], data.draw(st.sampled_from([3, 7, 20]))
    local, runner = LocalRunner(node, emit=emit), sharded(node, shards=shards, emit=emit)
    expected: list[EventBatch] = []
    found: list[EventBatch] = []
    for number, parts in enumerate(batches):
        came = dict.fromkeys(runner.job.plan.sources, parts)
        whole = {source: EventBatch.concat(parts) for source in runner.job.plan.sources}
        expected.append(local.step(whole))
        runner.resting_from = data.draw(st.sampled_from([1, 1, 1, NEVER]))
        for _ in range(data.draw(st.integers(0, 2))):
            runner.job = replace(runner.job, tasks=data.draw(st.integers(1, 4)))
            instead = others[number % len(others)] if data.draw(st.booleans()) else parts
            tried = dict.fromkeys(runner.job.plan.sources, instead)
            with suppress(_KilledError), dying_after(data.draw(st.integers(1, 30))):
                runner.attempt(tried, until=data.draw(st.sampled_from([1, 99])))
        runner.job = replace(runner.job, tasks=data.draw(st.integers(1, 4)))
        found.append(runner.step(came))
        assert found[-1].stable == expected[-1].stable
        difference = LogicalStream.of_batches(found).agrees_with(LogicalStream.of_batches(expected))
        assert difference is None
        # What the last batches left is there to go back to.
        for index, stage in enumerate(runner.job.plan.stages):
            count = range(runner.job.shards_of(stage))
            for batch in range(max(1, runner.batch - runner.job.keep + 1), runner.batch + 1):
                before = runner.job.stage_store(index).before(batch, count)
                for shard in count:
                    before.state(stage, shard)


def test_files_of_versions_and_indexes_do_not_pile_up(sharded: Make, tmp_path: Path) -> None:
    runner = sharded(by_count(per_key(WINDOWED)), folder=tmp_path / "it", shards=20)
    counts = []
    for batch in range(60):
        runner.step({"bids": [insert([(batch % 7, 1, batch, batch + 2)], batch - 2)]})
        counts.append(sum(1 for _ in (tmp_path / "it").rglob("*.*")))
    assert max(counts[30:]) <= max(counts[15:30])
    indexes = [path.name for path in (tmp_path / "it").rglob(f"{INDEX}/*")]
    assert len(indexes) <= 2 * 2 * runner.job.keep * 20


def test_a_shard_that_has_lost_its_state_is_refused_when_it_is_needed(
    sharded: Make, tmp_path: Path
) -> None:
    runner = sharded(per_key(BIDS), folder=tmp_path / "it", shards=20)
    runner.job = replace(runner.job, tasks=1)
    runner.step({"bids": [insert([(key, 1, 0, 9) for key in range(99)])]})
    for _ in range(3):
        runner.step({"bids": [insert([])]})
    (tmp_path / "it" / "state" / "0-aggregate" / "7" / "0.json").unlink()
    runner.step({"bids": [insert([])]})
    with pytest.raises(EngineError, match="state before batch 5 is missing") as lost:
        runner.step({"bids": [insert([(key, 1, 3, 9) for key in range(99)])]})
    assert lost.value.where.endswith("0-aggregate/7")


def test_a_damaged_or_lost_index_is_refused(sharded: Make, tmp_path: Path) -> None:
    runner = sharded(per_key(BIDS), folder=tmp_path / "it", shards=20)
    runner.job = replace(runner.job, tasks=1)
    runner.step({"bids": [insert([(1, 1, 0, 9)])]})
    (index,) = (tmp_path / "it").rglob(f"{INDEX}/*")
    data = bytearray(index.read_bytes())
    data[len(data) // 2] ^= 1
    index.write_bytes(data)
    with pytest.raises(EngineError, match="index of the state is damaged"):
        runner.attempt({"bids": [insert([])]})
    index.unlink()
    with pytest.raises(EngineError, match="state before batch 1 is missing"):
        runner.attempt({"bids": [insert([])]})


def test_a_version_before_indexes_is_taken_up(sharded: Make, tmp_path: Path) -> None:
    runner = sharded(per_key(WINDOWED), folder=tmp_path / "it", shards=20, resting_from=NEVER)
    local = LocalRunner(per_key(WINDOWED))
    for batch in range(6):
        rows = insert([(batch % 3, batch, batch, batch + 1)], batch)
        if batch == 3:
            assert len(list((tmp_path / "it").rglob("2.json"))) == 20
            runner.resting_from = 1
        assert elements_of(runner.step({"bids": [rows]})) == elements_of(local.step({"bids": rows}))
    stage = runner.job.plan.stages[0]
    assert len(list((tmp_path / "it").rglob("5.json"))) < 5
    store = StageStore(folder=runner.job.stage_store(0).folder)
    assert store.shards() == list(range(20))
    assert store.newest_before(6, range(20)).least_stable(range(20)) > BEGINNING
    held = [store.newest_before(6, range(20)).state(stage, shard) for shard in range(20)]
    assert sum(trace.rows() for state in held for trace in state) == local.state_rows()
