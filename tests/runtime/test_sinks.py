from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.runtime.heads import output_head

from anabranch.errors import EngineError, OperatorError, PlanError, StreamError
from anabranch.kernels.contract.packed_events import pack_events
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.files.stream_file import read_batches
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.sinks.line_sinks import StreamFileSink
from anabranch.runtime.sinks.sinks import (
    Begin,
    CallbackSink,
    LogSink,
    MemorySink,
    ShardResult,
    rows_of_shards,
)
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part
from anabranch.runtime.store.folder import Folder

SCHEMA = pa.schema([("k", pa.int64())])


def begin(*, fresh: bool = True, query: str = "q", schema: pa.Schema = SCHEMA) -> Begin:
    return Begin(schema, query, INTEGERS, fresh=fresh)


def batch(*rows: tuple[int, int, int, int]) -> EventBatch:
    """Moves (k, start, end, new_end)."""
    keys, start, end, new_end = (np.array(c, np.int64) for c in zip(*rows))
    return EventBatch(
        pa.RecordBatch.from_arrays([pa.array(keys)], schema=SCHEMA), start, end, new_end
    )


def shipped(*batches: EventBatch) -> list[ShardResult]:
    return [
        ShardResult(shard, output_head(), pack_events(each)) for shard, each in enumerate(batches)
    ]


FIRST = batch((1, 3, 3, 9), (2, 1, 1, FOREVER))
SECOND = batch((2, 1, FOREVER, 5))


def test_a_stream_file_grows_by_whole_batches(tmp_path: Path) -> None:
    sink = StreamFileSink(str(tmp_path / "out.jsonl"), Folder.at(str(tmp_path / "sizes")))
    sink.open(begin())
    sink.commit(0, Time(1), shipped(FIRST, SECOND))
    sink.commit(1, Time(1), [])
    sink.commit(2, Time(FOREVER), shipped(SECOND))
    assert (tmp_path / "out.jsonl").read_text().splitlines() == [
        '{"insert": {"k": 2}, "start": 1}',
        '{"adjust": {"k": 2}, "start": 1, "new_end": 5}',
        '{"insert": {"k": 1}, "start": 3, "end": 9}',
        '{"stable": 1}',
        '{"adjust": {"k": 2}, "start": 1, "new_end": 5}',
        '{"stable": "forever"}',
    ]
    assert sum(map(len, read_batches(tmp_path / "out.jsonl"))) == 4


def test_a_repeated_batch_replaces_what_its_first_try_left(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    sink = StreamFileSink(str(file), Folder.at(str(tmp_path / "sizes")))
    sink.open(begin())
    sink.commit(0, Time(1), shipped(FIRST))
    sink.commit(1, Time(2), shipped(SECOND))
    whole = file.read_bytes()
    file.write_bytes(whole + b"torn")
    again = StreamFileSink(str(file), Folder.at(str(tmp_path / "sizes")))
    again.open(begin(fresh=False))
    again.commit(1, Time(2), shipped(SECOND))
    assert file.read_bytes() == whole


def test_a_file_that_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("precious")
    with pytest.raises(PlanError, match="already exists"):
        StreamFileSink(str(file), Folder.at(str(tmp_path / "sizes"))).open(begin())
    assert file.read_text() == "precious"


def test_a_file_that_lost_something_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    sink = StreamFileSink(str(file), Folder.at(str(tmp_path / "sizes")))
    sink.open(begin())
    sink.commit(0, Time(1), shipped(FIRST))
    file.write_text("")
    with pytest.raises(EngineError, match="was changed since the query wrote it"):
        sink.commit(1, Time(1), [])


def log_results(path: Path, number: int, batches: Sequence[EventBatch]) -> list[ShardResult]:
    return [
        ShardResult(
            shard,
            output_head(files=[write_part(str(path), number, shard, each, clock=INTEGERS)]),
            None,
        )
        for shard, each in enumerate(batches)
    ]


def test_a_log_shows_what_is_committed_and_nothing_else(tmp_path: Path) -> None:
    sink = LogSink(str(tmp_path / "log"))
    sink.open(begin())
    sink.commit(0, Time(1), log_results(tmp_path / "log", 0, [FIRST, SECOND]))
    log_results(tmp_path / "log", 1, [SECOND])
    (found,) = LogFolder(str(tmp_path / "log")).read()
    assert found.payload.column("k").to_pylist() == [1, 2, 2]
    assert found.new_end.tolist() == [9, FOREVER, 5]
    assert found.stable == 1
    sink.commit(1, Time(4), log_results(tmp_path / "log", 1, [SECOND]))
    sink.commit(1, Time(4), log_results(tmp_path / "log", 1, [SECOND]))
    assert [len(each) for each in sink.batches()] == [3, 1]
    assert sink.log.stable() == 4


def test_a_log_belongs_to_one_query(tmp_path: Path) -> None:
    LogSink(str(tmp_path / "log")).open(begin())
    LogSink(str(tmp_path / "log")).open(begin(fresh=False))
    with pytest.raises(PlanError, match="another query"):
        LogSink(str(tmp_path / "log")).open(begin(query="other"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(PlanError, match="not empty"):
        LogSink(str(tmp_path / "full")).open(begin())


def test_a_log_that_was_made_for_nobody_is_made_anew(tmp_path: Path) -> None:
    """The process died when the query was about to join, and it is asked for again."""
    died = replace(begin(query="q-1"), home="/checkpoint", others=("q",))
    again = replace(begin(query="q-2"), home="/checkpoint", others=("q",))
    path = str(tmp_path / "log")
    LogSink(path).open(died)
    for other in (replace(again, home="/other"), replace(again, others=("q", "q-1"))):
        with pytest.raises(PlanError, match="another query"):
            LogSink(path).open(other)
    LogSink(path).open(again)
    about = LogFolder(path).record()
    assert about is not None
    assert about.query == "q-2"
    # One with rows stays what it is.
    LogSink(path).commit(0, Time(1), [])
    with pytest.raises(PlanError, match="another query"):
        LogSink(path).open(died)


def test_a_missing_file_of_a_log_is_named(tmp_path: Path) -> None:
    sink = LogSink(str(tmp_path / "log"))
    sink.open(begin())
    sink.commit(0, Time(1), log_results(tmp_path / "log", 0, [FIRST]))
    (tmp_path / "log" / "part-000000-000.parquet").unlink()
    with pytest.raises(StreamError, match="missing or damaged"):
        sink.batches()
    with pytest.raises(StreamError, match="not a log folder"):
        LogFolder(str(tmp_path)).about()


def test_memory_keeps_one_copy_of_each_batch(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.open(begin())
    for _ in range(2):
        sink.commit(0, Time(3), shipped(FIRST))
    assert [(len(each), each.stable) for each in sink.batches()] == [(2, 3)]
    with pytest.raises(PlanError, match="cannot resume"):
        MemorySink().open(begin(fresh=False))


def test_a_function_gets_elements_and_the_number_of_the_batch() -> None:
    seen: list[tuple[int, list[dict[str, object]]]] = []
    sink = CallbackSink(lambda table, number: seen.append((number, table.to_pylist())))
    sink.open(begin())
    sink.commit(4, Time(2), shipped(SECOND))
    sink.commit(5, BEGINNING, [])
    assert seen == [
        (
            4,
            [
                {"kind": "adjust", "start": 1, "end": None, "new_end": 5, "k": 2},
                {"kind": "stable", "start": 2, "end": None, "new_end": None, "k": None},
            ],
        ),
        (5, []),
    ]
    with pytest.raises(PlanError, match="cannot be read back"):
        sink.batches()


def test_a_function_that_fails_is_its_authors_business() -> None:
    def divide(table: pa.Table, number: int) -> None:
        raise ZeroDivisionError(number)

    sink = CallbackSink(divide)
    sink.open(begin())
    with pytest.raises(OperatorError, match="divide failed: ZeroDivisionError: 7"):
        sink.commit(7, Time(0), [])


def test_columns_named_like_times_are_refused_where_they_would_collide() -> None:
    schema = pa.schema([("start", pa.int64())])
    with pytest.raises(PlanError, match="called 'start'"):
        CallbackSink(print).open(begin(schema=schema))


def test_results_go_to_one_place() -> None:
    with pytest.raises(PlanError, match="exactly one output"):
        choose_sink("x", print)


def test_a_shard_with_other_columns_than_the_output_is_refused() -> None:
    good, other = shipped(FIRST, SECOND)
    assert other.rows is not None
    wrong = replace(other, rows=other.rows.append_column("key1", pa.array([1])))
    where = "output 0, from shard 1: key1 int64 instead of nothing"
    with pytest.raises(EngineError, match="do not have the columns that it declares") as refused:
        rows_of_shards([good, wrong], SCHEMA)
    assert refused.value.where == where


def test_a_log_that_is_ahead_of_its_checkpoint_is_cut_back(tmp_path: Path) -> None:
    log = LogFolder(str(tmp_path / "log"))
    sink = LogSink(str(tmp_path / "log"))
    sink.open(begin())
    for batch in range(4):
        sink.commit(batch, Time(batch), [])
    made = [log.record()]
    sink.open(begin(fresh=False))
    sink.commit(3, Time(3), [])
    made.append(log.record())
    # The checkpoint of an earlier day: readers learn that what they have read is no more.
    sink.open(begin(fresh=False))
    for batch in (1, 2):
        sink.commit(batch, Time(batch + 5), [])
    made.append(log.record())
    assert [(entry.batch, entry.stable) for entry in log.entries()] == [(0, 0), (1, 6), (2, 7)]
    assert made[0] == made[1] != made[2]
