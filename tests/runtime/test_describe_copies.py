"""Declaring a stream that has copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.copies import SCHEMA, append_lines, append_log, point

import anabranch as ab
from anabranch.errors import AnabranchError, PlanError, StreamError
from anabranch.model.elements import Stable
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.describe import describe_files


def declared(**options: Any) -> Declared:
    return Declared(name="s", copies=True, **options)


def test_columns_come_from_a_copy_that_knows_them(tmp_path: Path) -> None:
    append_lines(tmp_path / "a.jsonl", [point(1)])
    schema = pa.schema([("a", pa.int32())])
    rows = pa.table({"kind": ["insert"], "start": [1], "a": [1]})
    pq.write_table(rows.cast(pa.schema([*list(rows.schema)[:2], *schema])), tmp_path / "b.parquet")
    source, leaf = describe_files(str(tmp_path), declared())
    assert source.copies
    assert leaf.copies
    assert leaf.schema == schema
    assert leaf.label == "Copies s"


def test_nothing_need_be_there_if_columns_are_declared(tmp_path: Path) -> None:
    source, leaf = describe_files(str(tmp_path / "later" / "*"), declared(schema=SCHEMA))
    assert (source.schema, leaf.schema) == (SCHEMA, SCHEMA)
    with pytest.raises(StreamError, match="no copy of the stream yet"):
        describe_files(str(tmp_path / "later" / "*"), declared())


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (pa.schema([("a", pa.string())]), "its column 'a' is int64, not string"),
        (pa.schema([("b", pa.int64())]), "it has no column 'b'"),
        (pa.schema([]), "it has a column 'a' that the stream does not have"),
    ],
)
def test_copies_with_other_columns_are_named(tmp_path: Path, schema: Any, what: str) -> None:
    append_log(tmp_path / "x", [point(1)])
    with pytest.raises(StreamError) as raised:
        describe_files(str(tmp_path), declared(schema=schema))
    assert raised.value.what == f"copy 'x' is not like the others: {what}"
    assert str(tmp_path / "x") in raised.value.where


@pytest.mark.parametrize(
    "options",
    [
        {"start": "a"},
        {"delay": 5},
        {"heartbeat": "1 second"},
        {"kind": "kind"},
        {"ends": True},
        {"max_files_per_batch": 1},
    ],
)
def test_only_elements_with_their_own_time_have_copies(tmp_path: Path, options: Any) -> None:
    append_log(tmp_path / "x", [point(1)])
    with pytest.raises(PlanError, match="has no meaning for copies of a stream") as raised:
        ab.Engine().stream(tmp_path, copies=True, **options)
    assert raised.value.where
    assert raised.value.hint


def test_users_declare_copies_in_python_and_in_sql(tmp_path: Path) -> None:
    append_log(tmp_path / "x", [point(1), Stable(3)])
    engine = ab.Engine()
    stream = engine.stream(tmp_path, name="s", copies=True)
    # Nobody but a merge knows what to do with them.
    with pytest.raises(PlanError, match="'s' is several copies of one stream"):
        stream.run_local()
    engine.sql(f"CREATE STREAM Later (a BIGINT) SOURCE '{tmp_path}/no/*' WITH (copies = TRUE)")
    query = engine.sql("SELECT a FROM Later")
    with pytest.raises(AnabranchError, match="'Later' is several copies of one stream"):
        query.run_local()
