"""Many batches: what is held in memory and on disk stays flat."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

from anabranch import Engine
from anabranch.algebra.time_window import TimeWindow
from anabranch.bench.rows import write_rows
from anabranch.kernels.contract.kernel import Progress
from anabranch.kernels.plan.compile import compile_plan
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration, Time
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.state_store import ShardStore

PAGE = 4096


def memory() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def disk(folder: Path) -> tuple[int, int]:
    """Files below a folder and their bytes."""
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def points(number: int, rows: int) -> EventBatch:
    """Rows of one second, the stable point one second behind."""
    start = number * 1_000 + np.sort(np.random.default_rng(number).integers(0, 1_000, rows))
    payload = pa.RecordBatch.from_pydict(
        {"k": [f"key {place}" for place in start % 50], "v": start % 7, "x": start / 4},
        schema=SCHEMA,
    )
    return EventBatch(payload, start, start, start + 1, Time((number - 1) * 1_000))


def test_a_shard_of_half_an_hour_stays_flat(tmp_path: Path) -> None:
    node = aggregate(TimeWindow(input=SOURCE, size=Duration(10_000)), ("k",), "n", "hi", "d", "s")
    (stage,) = compile_plan(node).stages
    store = ShardStore(folder=Folder.at(str(tmp_path)))
    held: list[tuple[int, int, int, int]] = []
    for number in range(1_800):
        before = store.load(number)
        state = store.traces(before) if before else stage.start()
        batch = points(number, 40)
        state, _ = stage.step(state, (stage.prepare(0, batch),), Progress((batch.stable,)))
        store.save(number, before, state, sources={}, counters=None)
        if number % store.keep == 0:
            store.clean(number)
        if number % 100 == 99:
            rows = sum(trace.rows() for trace in state)
            held.append((rows, memory(), *disk(tmp_path)))
    early, late = held[3:9], held[-6:]
    for place, slack in ((0, 1.5), (1, 1.15), (2, 1.5), (3, 1.5)):
        assert max(row[place] for row in late) <= slack * max(row[place] for row in early)


@pytest.mark.spark
@pytest.mark.slow
def test_half_an_hour_of_batches_on_spark_stays_flat(spark: object, tmp_path: Path) -> None:
    batches = 1_800
    write_rows(tmp_path / "rows", files=batches, rows_per_file=50, keys=20, per_second=50)
    engine = Engine(spark, shards=2)
    stream = engine.stream(tmp_path / "rows", start="ts", delay="2 seconds", max_files_per_batch=1)
    query = (
        stream.window("10 seconds", slide="1 second").group_by("k").agg(n="COUNT(*)", top="MAX(v)")
    )
    run = query.start(to=tmp_path / "out", checkpoint=tmp_path / "checkpoint", available_now=True)
    held: list[tuple[int, int]] = []
    while not run.await_end(timeout=20):
        held.append(disk(tmp_path / "checkpoint" / "state"))
    rows = [
        sum(stage["state_rows"] for stage in batch["stages"].values()) for batch in run.metrics()
    ]
    assert max(rows[-200:]) <= 1.5 * max(rows[:300])
    assert max(files for files, _ in held[-3:]) <= 1.5 * max(files for files, _ in held[:3])
    assert max(size for _, size in held[-3:]) <= 1.5 * max(size for _, size in held[:3])
