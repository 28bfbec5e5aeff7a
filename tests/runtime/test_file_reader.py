from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.errors import PlanError, StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.files.stream_file import write_stream
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.describe import describe_files
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.files.reader import read_split
from anabranch.runtime.store.folder import Folder


def read(
    path: Path, tmp_path: Path, columns: list[str] | None = None, **declared: Any
) -> EventBatch:
    source, leaf = describe_files(str(path), Declared(name="s", **declared))
    plan = FilePlanner([source], Folder.at(str(tmp_path / "plan")), 2)
    names = leaf.schema.names if columns is None else columns
    pieces = [
        piece.batch
        for part in plan.parts(0, plan.latest(0))
        for split in part.splits
        for piece in read_split(source, split, names)
    ]
    return EventBatch.concat(pieces)


MOMENT = pa.array([5_000_000, 1_500_000], pa.timestamp("us"))


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "jsonl", "json.gz"])
def test_rows_are_points_at_their_time(tmp_path: Path, form: str) -> None:
    file = tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"k": [1, 2], "v": ["a", None], "ts": MOMENT}), file)
    elif form == "csv":
        file.write_text("k,v,ts\n1,a,1970-01-01T00:00:05\n2,,1970-01-01T00:00:01.5\n")
    else:
        text = (
            '{"k": 1, "v": "a", "ts": "1970-01-01T00:00:05"}\n'
            '{"k": 2, "v": null, "ts": "1970-01-01T00:00:01.5"}\n'
        )
        file.write_bytes(gzip.compress(text.encode()) if form.endswith("gz") else text.encode())
    # Arrow guesses seconds from a first row without fractions, so the type is declared.
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("ts", pa.timestamp("us"))])
    batch = read(file, tmp_path, start="ts", schema=schema)
    assert batch.start.tolist() == [5_000_000, 1_500_000]
    assert batch.end.tolist() == batch.start.tolist()
    assert (batch.new_end - batch.start).tolist() == [1, 1]
    assert batch.payload.column("v").to_pylist() == ["a", None]
    assert batch.payload.column("ts").equals(MOMENT)


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": [1], "v": ["a"], "ts": [7]}), file)
    batch = read(file, tmp_path, ["v"], start="ts")
    assert batch.schema.names == ["v"]
    assert len(read(file, tmp_path, [], start="ts")) == 1


def test_intervals_have_an_end_or_are_for_ever(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": [1, 2], "a": [3, 4], "z": pa.array([9, None])}), file)
    batch = read(file, tmp_path, start="a", end="z")
    assert batch.new_end.tolist() == [9, FOREVER]


def test_elements_in_parquet_and_lines_are_the_same(tmp_path: Path) -> None:
    payload = pa.RecordBatch.from_pydict({"k": [1, 2, 1]})
    batch = EventBatch(
        payload, np.array([1, 2, 1]), np.array([1, 2, 5]), np.array([5, FOREVER, 3]), Time(4)
    )
    for name in ("s.parquet", "s.jsonl"):
        write_stream(tmp_path / name, [batch])
        found = read(tmp_path / name, tmp_path / name.replace(".", "-"))
        assert found.payload.equals(payload)
        assert (found.end.tolist(), found.new_end.tolist()) == ([1, 2, 5], [5, FOREVER, 3])
        assert found.stable == 4


def test_elements_may_be_declared_by_their_kind(tmp_path: Path) -> None:
    file = tmp_path / "changes.csv"
    file.write_text("op,at,till,new_end,k\ninsert,1,9,,7\nadjust,1,9,4,7\nstable,3,,,\n")
    batch = read(file, tmp_path, start="at", end="till", kind="op")
    assert batch.schema.names == ["k"]
    assert (batch.end.tolist(), batch.new_end.tolist()) == ([1, 9], [9, 4])
    assert batch.stable == 3


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ('{"k": 1, "ts": 3}\n{"k": 1, "ts": null}\n', "'ts' is missing", "row 2"),
        ('{"k": 1, "ts": 3}\n{"k": 1 "ts": 4}\n', "not valid JSON", "line 2"),
        ('{"k": 1, "ts": 3}\n\n{"k": "x", "ts": 4}\n', "column 'k' expects", "line 3"),
        ('{"k": 1, "ts": 3}\n[]\n', "JSON object", "line 2"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, what: str, where: str) -> None:
    file = tmp_path / "rows.json"
    file.write_text(text)
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    with pytest.raises(StreamError, match=what) as raised:
        read(file, tmp_path, start="ts", schema=schema)
    assert where in raised.value.where
    assert "rows.json" in raised.value.where


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ({"a": [5], "z": [5]}, "ends before it starts"),
        ({"a": [FOREVER], "z": [5]}, "cannot start at forever"),
    ],
)
def test_impossible_lifetimes_are_refused(
    tmp_path: Path, rows: dict[str, list[int]], what: str
) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table(rows), file)
    with pytest.raises(StreamError, match=what):
        read(file, tmp_path, start="a", end="z")


def test_a_later_file_without_a_column_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "t": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"q": [1], "t": [1]}), tmp_path / "b.parquet")
    with pytest.raises(StreamError, match="no column 'k'") as raised:
        read(tmp_path / "*.parquet", tmp_path, start="t")
    assert "b.parquet" in raised.value.where


@pytest.mark.parametrize(
    ("path", "declared", "kind", "what"),
    [
        ("nothing.parquet", {"start": "t"}, StreamError, "no such file"),
        ("*.nothing", {}, StreamError, "no file matches"),
        ("rows.txt", {"start": "t"}, StreamError, "'.txt' are not supported"),
        ("rows.csv", {}, PlanError, "need a column with their time"),
        ("rows.csv", {"start": "tt"}, PlanError, "no column 'tt'"),
        ("rows.csv", {"start": "s"}, PlanError, "holds string, not times"),
        ("rows.csv", {"start": "t", "late": "ignore"}, PlanError, "no policy 'ignore'"),
        ("empty.json", {"start": "t"}, StreamError, "the columns of the file cannot be determined"),
    ],
)
def test_wrong_declarations_are_refused(
    tmp_path: Path, path: str, declared: dict[str, Any], kind: type[Exception], what: str
) -> None:
    (tmp_path / "rows.csv").write_text("t,s\n1,x\n")
    (tmp_path / "rows.txt").touch()
    (tmp_path / "empty.json").touch()
    with pytest.raises(kind, match=what):
        read(tmp_path / path, tmp_path, **declared)


def test_a_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text('{"insert": {"k": 1}, "start": 1}\n')
    source, _ = describe_files(str(file), Declared(name="s"))
    plan = FilePlanner([source], Folder.at(str(tmp_path / "plan")), 1)
    (part,) = plan.parts(0, plan.latest(0))
    file.write_text("")
    with pytest.raises(StreamError, match="become shorter"):
        list(read_split(source, part.splits[0], ["k"]))
