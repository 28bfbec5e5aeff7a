"""A table of elements is a stream again: in its order, with its promises, forever included."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.heads import output_head

from anabranch import Engine
from anabranch.algebra.source import Source
from anabranch.errors import PlanError, StreamError
from anabranch.kernels.contract.packed_events import pack_events
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.files.stream_file import describe, read_arrivals, read_batches
from anabranch.model.legality import LegalityChecker
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.elements import ElementPosition, element_schema, element_table
from anabranch.runtime.sinks.delta_sink import DeltaSink
from anabranch.runtime.sinks.sinks import Begin, ShardResult
from anabranch.testing import PhysicalStream
from anabranch.testing.strategies import batchings, payload_schemas, streams

SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string())])
DRAWN = streams(payload_schemas(nested=False), odd_floats=False)


def promised(batches: Sequence[EventBatch]) -> list[Time]:
    """The stable point before each batch, and after the last."""
    found = [BEGINNING]
    for batch in batches:
        found.append(Time(max(found[-1], batch.stable)))
    return found


def as_table(batches: Sequence[EventBatch], *, clock: Clock = INTEGERS) -> pa.Table:
    """What tables keep: all elements with their places."""
    schema = batches[0].schema
    tables = [
        element_table([batch], schema, after=before, position=ElementPosition(number))
        for number, (batch, before) in enumerate(zip(batches, promised(batches)))
    ]
    kept = element_schema(schema, ordered=True, clock=clock)
    return pa.concat_tables(tables).cast(kept)


def write_files(table: pa.Table, folder: Path, files: int, seed: int) -> None:
    """The rows in any order, in files of any names."""
    random = np.random.default_rng(seed)
    table = table.take(pa.array(random.permutation(len(table))))
    cuts = sorted(random.integers(0, len(table) + 1, files - 1).tolist())
    folder.mkdir(parents=True)
    for number, (low, high) in enumerate(pairwise([0, *cuts, len(table)])):
        pq.write_table(table.slice(low, high - low), folder / f"{number}.parquet")


def assert_legal(path: Path) -> None:
    checker = LegalityChecker()
    for piece in read_arrivals(path, describe(path, whole=True).schema):
        assert checker.feed(piece) == []


def moved(stream: PhysicalStream, batches: Sequence[EventBatch]) -> list[EventBatch]:
    """Without moves from nothing to nothing, which tables do not hold."""
    del stream
    return [batch.where(batch.end != batch.new_end) for batch in batches]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), timestamps=st.booleans(), files=st.integers(1, 4), seed=st.integers(0, 9))
def test_a_folder_of_parquet_is_the_stream_that_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    timestamps: bool,
    files: int,
    seed: int,
) -> None:
    stream = data.draw(DRAWN)
    batches = moved(stream, data.draw(batchings(stream)))
    folder = tmp_path_factory.mktemp("elements")
    write_files(
        as_table(batches, clock=MICROSECONDS if timestamps else INTEGERS),
        folder / "in",
        files,
        seed,
    )
    back = Engine().stream(folder / "in", name="back")
    assert back.schema.names == stream.schema.names
    assert isinstance(back.node, Source)
    assert back.node.timestamps == timestamps
    run = back.run_local(folder / "log")
    found = list(Engine().stream(folder / "log").run_local()._sink.batches())
    assert LogicalStream.of_batches(found) == LogicalStream.of_batches(batches)
    assert run.stable == promised(batches)[-1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 9))
def test_a_file_of_a_table_is_read_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int
) -> None:
    stream = data.draw(DRAWN)
    batches = moved(stream, data.draw(batchings(stream)))
    folder = tmp_path_factory.mktemp("elements")
    write_files(as_table(batches), folder / "in", 1, seed)
    path = folder / "in" / "0.parquet"
    assert_legal(path)
    found = list(read_batches(path, stream.schema))
    assert LogicalStream.of_batches(found) == LogicalStream.of_batches(batches)


def test_an_end_may_move_to_forever(tmp_path: Path) -> None:
    moves: list[Element] = [
        Insert((1, "a"), Time(3), Time(9)),
        Adjust((1, "a"), Time(3), Time(9), FOREVER),
        Stable(Time(5)),
    ]
    batch = batch_of(moves, SCHEMA)
    table = element_table([batch], SCHEMA)
    assert table["new_end"].to_pylist() == [None, None, None]
    pq.write_table(table, tmp_path / "in.parquet")
    assert_legal(tmp_path / "in.parquet")
    back = Engine().stream(tmp_path / "in.parquet", name="back").run_local()
    assert back.snapshot(10**15).to_pylist() == [{"k": 1, "name": "a"}]
    without = table.drop_columns(["new_end"])
    pq.write_table(without, tmp_path / "less.parquet")
    with pytest.raises(StreamError, match="without new_end"):
        Engine().stream(tmp_path / "less.parquet", name="less").run_local()
    with pytest.raises(StreamError, match="'new_end' is missing"):
        list(read_arrivals(tmp_path / "less.parquet"))


def test_limits_of_a_table_without_order_are_refused(tmp_path: Path) -> None:
    batch = batch_of([Insert((1, "a"), Time(3), Time(9))], SCHEMA)
    write_files(as_table([batch]), tmp_path / "in", 1, 0)
    with pytest.raises(PlanError, match="cannot be cut into batches"):
        Engine().stream(tmp_path / "in", name="in", max_rows_per_batch=1)


def test_columns_with_these_names_can_be_declared_as_payload(tmp_path: Path) -> None:
    batch = batch_of([Insert((1, "a"), Time(3), Time(9))], SCHEMA)
    write_files(as_table([batch]), tmp_path / "in", 1, 0)
    schema = pa.schema([("k", pa.int64()), ("_batch", pa.int64())])
    run = Engine().stream(tmp_path / "in", name="in", schema=schema).run_local()
    assert run.snapshot(4).to_pylist() == [{"k": 1, "_batch": 0}]


def opened(path: Path, keep: Any, *, fresh: bool = True, clock: Clock = INTEGERS) -> DeltaSink:
    sink = DeltaSink(str(path), keep)
    sink.open(Begin(SCHEMA, "query", clock, fresh))
    return sink


def results(batch: EventBatch, before: Time) -> list[ShardResult]:
    rows = pack_events(batch) if len(batch) else None
    return [ShardResult(0, output_head(before=before), rows)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=5)
@given(data=st.data(), timestamps=st.booleans(), again=st.integers(0, 3), seed=st.integers(0, 9))
def test_a_delta_table_is_the_stream_that_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    timestamps: bool,
    again: int,
    seed: int,
) -> None:
    stream = data.draw(streams(SCHEMA))
    batches = moved(stream, data.draw(batchings(stream)))
    folder = tmp_path_factory.mktemp("delta")
    before = promised(batches)
    for number, batch in enumerate(batches):
        # Every start of the query finds the table as it was left.
        sink = opened(
            folder / "t", "log", fresh=not number, clock=MICROSECONDS if timestamps else INTEGERS
        )
        for _ in range(2 if number == again else 1):
            sink.commit(number, before[number + 1], results(batch, before[number]))
    table = DeltaTable(str(folder / "t")).to_pyarrow_table()
    stables = table.filter(pa.compute.field("kind") == "stable")["start"].to_pylist()
    assert sorted(stables) == sorted({*before[1:]} - {BEGINNING})
    write_files(table, folder / "in", 2, seed)
    found = Engine().stream(folder / "in", name="back").run_local()._sink.batches()
    assert LogicalStream.of_batches(found) == LogicalStream.of_batches(batches)
    # The table itself, also when its files have been rewritten.
    for _ in range(2):
        back = Engine().stream(f"delta:{folder / 't'}", name="back")
        assert isinstance(back.node, Source)
        assert back.node.timestamps == timestamps
        found = back.run_local()._sink.batches()
        assert LogicalStream.of_batches(found) == LogicalStream.of_batches(batches)
        DeltaTable(str(folder / "t")).optimize.z_order(["name"])


def test_a_delta_table_notes_that_times_are_timestamps(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t", "log", clock=MICROSECONDS)
    batch = batch_of([Insert((1, "a"), Time(3), Time(9))], SCHEMA)
    sink.commit(0, Time(1), results(batch, BEGINNING))
    start = DeltaTable(str(tmp_path / "t")).schema().fields[1]
    assert (start.name, start.metadata) == ("start", {"anabranch.times": "timestamp"})


def test_a_delta_table_of_an_older_version_gets_the_columns(tmp_path: Path) -> None:
    batch = batch_of([Insert((1, "a"), Time(3), Time(9))], SCHEMA)
    sink = opened(tmp_path / "t", "log")
    sink.commit(0, BEGINNING, results(batch, BEGINNING))
    older = element_table([batch], SCHEMA)
    write_deltalake(str(tmp_path / "t"), older, mode="overwrite", schema_mode="overwrite")
    sink = opened(tmp_path / "t", "log", fresh=False)
    sink.commit(1, BEGINNING, results(batch, BEGINNING))
    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    assert sorted(map(str, found["_batch"].to_pylist())) == ["1", "None"]


@pytest.mark.parametrize("last", [Time(8), FOREVER])
def test_a_kill_before_the_clean_up_leaves_no_ended_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: Time
) -> None:
    rows = [Insert((1, "a"), Time(1), Time(4)), Insert((2, "b"), Time(2))]
    batch = batch_of(rows, SCHEMA)
    sink = opened(tmp_path / "t", "current")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            sink.commit(0, last, results(batch, BEGINNING))
    assert len(DeltaTable(str(tmp_path / "t")).to_pyarrow_table()) == 2
    # The batch was not done, so it comes again.
    sink = opened(tmp_path / "t", "current", fresh=False)
    sink.commit(0, last, results(batch, BEGINNING))
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["k"].to_pylist() == [2]
