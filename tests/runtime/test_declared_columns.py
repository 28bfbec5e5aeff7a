"""Declared columns: one that no row has is refused; rows of JSON may leave one out."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.runtime.sources.files import declared_columns

SCHEMA = pa.schema([("item", pa.int64()), ("prize", pa.float64()), ("at", pa.int64())])


def _json(folder: Path) -> Path:
    (folder / "rows.jsonl").write_text('{"item": 1, "price": 2.5, "at": 5}\n')
    return folder / "rows.jsonl"


def _gzip(folder: Path) -> Path:
    with gzip.open(folder / "rows.jsonl.gz", "wb") as file:
        file.write(b'{"item": 1, "price": 2.5, "at": 5}\n')
    return folder / "rows.jsonl.gz"


def _csv(folder: Path) -> Path:
    (folder / "rows.csv").write_text("item,price,at\n1,2.5,5\n")
    return folder / "rows.csv"


def _parquet(folder: Path) -> Path:
    rows = pa.table({"item": [1], "price": [2.5], "at": [5]})
    pq.write_table(rows, folder / "rows.parquet")
    return folder / "rows.parquet"


def _folder(folder: Path) -> Path:
    (folder / "in").mkdir()
    (folder / "in" / "0.jsonl").write_text("")
    _json(folder / "in")
    return folder / "in"


@pytest.mark.parametrize("make", [_json, _gzip, _csv, _parquet, _folder])
def test_a_misspelt_column_is_refused_in_every_form(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    engine = ab.Engine()
    tries: list[Callable[[], Any]] = [
        lambda: engine.stream(path, start="at", schema=SCHEMA),
        lambda: engine.stream(path, start=ab.ARRIVAL, schema=SCHEMA),
        lambda: engine.relation(path, schema=SCHEMA),
        lambda: engine.sql(
            f"CREATE STREAM b (item BIGINT, prize DOUBLE, at BIGINT) SOURCE '{path}' ORDERED BY at"
        ),
        lambda: engine.sql(f"CREATE TABLE t (item BIGINT, prize DOUBLE) SOURCE '{path}'"),
    ]
    for declare in tries:
        with pytest.raises(ab.StreamError, match="no column 'prize'") as raised:
            declare()
        assert "did you mean 'price'?" in raised.value.hint
        assert "columns are: item, price, at" in raised.value.hint
        assert "rows" in raised.value.where


def test_a_misspelt_column_of_elements_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bids.jsonl"
    file.write_text('{"stable": 1}\n{"insert": {"item": 1, "price": 2.5}, "start": 5}\n')
    engine = ab.Engine()
    schema = pa.schema([("item", pa.int64()), ("prize", pa.float64())])
    engine.stream(file).run_local(to=tmp_path / "log")
    for path in (file, tmp_path / "log"):
        with pytest.raises(ab.StreamError, match="no column 'prize'") as raised:
            engine.stream(path, schema=schema)
        assert "did you mean 'price'?" in raised.value.hint
        with pytest.raises(ab.StreamError, match="no column 'prize'"):
            engine.sql(f"CREATE STREAM b (item BIGINT, prize DOUBLE) SOURCE '{path}'")
    only = engine.stream(tmp_path / "log", schema=pa.schema([("price", pa.float64())]))
    assert only.run_local().snapshot(5).to_pylist() == [{"price": 2.5}]


@pytest.mark.parametrize("block", [7, 40, 1 << 20])
def test_a_column_that_only_some_rows_have_is_null_in_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(declared_columns, "_BLOCK", block)
    file = tmp_path / "rows.jsonl"
    lines = ['{"item": 1, "at": 5, "text": "\\"prize\\": 3"}'] * 3
    lines += ['{"item": 2, "at": 6, "nested": {"prize": 1}}', '{"item": 3, "at": 7, "prize": 2.5}']
    for end in ("\n", ""):
        file.write_text("\n".join(lines) + end)
        stream = ab.Engine().stream(file, start="at", schema=SCHEMA)
        assert stream.run_local().snapshot(7).to_pylist() == [{"item": 3, "prize": 2.5, "at": 7}]
        assert stream.run_local().snapshot(5).to_pylist()[0]["prize"] is None
    file.write_text("\n".join(lines[:-1]))
    with pytest.raises(ab.StreamError, match="no column 'prize'"):
        ab.Engine().stream(file, start="at", schema=SCHEMA)


def test_letters_of_another_case_and_alphabet_are_found(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"pr\\u00e9nom": "a", "bidTS": 5}\n')
    schema = pa.schema([("prénom", pa.string()), ("bidTS", pa.int64())])
    ab.Engine().stream(file, start="bidTS", schema=schema)
    with pytest.raises(ab.StreamError) as raised:
        ab.Engine().stream(file, start="bidts", schema=pa.schema([("bidts", pa.int64())]))
    assert "did you mean 'bidTS'?" in raised.value.hint


@pytest.mark.parametrize("name", ["0.jsonl", "0.csv"])
@pytest.mark.parametrize("content", ["", "\n"])
def test_an_empty_first_file_says_nothing_in_both_languages(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    engine = ab.Engine()
    made = engine.stream(tmp_path, name="p", start="at", schema=SCHEMA)
    engine.sql(
        f"CREATE STREAM s (item BIGINT, prize DOUBLE, at BIGINT) SOURCE '{tmp_path}' "
        "ORDERED BY at KEEP"
    )
    same = engine.sql("SELECT * FROM s")
    for query in (made, same):
        assert query.run_local().table().num_rows == 0
    rows = {
        "0.jsonl": ("1.jsonl", '{"item": 1, "prize": 2.5, "at": 5}\n'),
        "0.csv": ("1.csv", "item,prize,at\n1,2.5,5\n"),
    }
    file, text = rows[name]
    (tmp_path / file).write_text(text)
    for query in (made, same):
        assert query.run_local().snapshot(5).to_pylist() == [{"item": 1, "prize": 2.5, "at": 5}]


def test_an_empty_first_file_of_elements_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text("")
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM b (item INT) SOURCE '{tmp_path}'")
    query = engine.sql("SELECT * FROM b")
    assert query.run_local().table().num_rows == 0
    (tmp_path / "1.jsonl").write_text('{"insert": {"item": 1}, "start": 5}\n')
    assert query.run_local().snapshot(5).to_pylist() == [{"item": 1}]
    engine.sql(f"CREATE STREAM c (item INT) SOURCE '{tmp_path}'")
    assert engine.sql("SELECT * FROM c").run_local().snapshot(5).num_rows == 1
    (tmp_path / "1.jsonl").write_text('{"item": 1}\n')
    engine.sql(f"CREATE STREAM d (item INT) SOURCE '{tmp_path}'")
    assert engine.sql("SELECT * FROM d").run_local().table().num_rows > 0


TIMES = {
    "2026-11-15 10:00:05": 5.0,
    "2026-11-15T10:00:05.250": 5.25,
    "2026-11-15T10:00:05Z": 5.0,
    "2026-11-15 11:30:05+01:30": 5.0,
    "2026-11-15": -36_000.0,
    "": None,
}


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_timestamp_without_a_zone_is_utc(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"rows.{ending}"
    tens = datetime(2026, 11, 15, 10, tzinfo=timezone.utc)
    times = TIMES if ending == "csv" else dict(list(TIMES.items())[:4])
    if ending == "csv":
        lines = [f"{n},{text}" for n, text in enumerate(times)]
        file.write_text("at,seen\n" + "\n".join(lines) + "\n")
    else:
        lines = [f'{{"at": {n}, "seen": "{text}"}}' for n, text in enumerate(times)]
        file.write_text("\n".join(lines) + "\n")
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM b (at BIGINT, seen TIMESTAMP) SOURCE '{file}' ORDERED BY at")
    run = engine.sql("SELECT * FROM b").run_local()
    for n, seconds in enumerate(times.values()):
        (row,) = run.snapshot(n).to_pylist()
        found = None if row["seen"] is None else (row["seen"] - tens).total_seconds()
        assert found == seconds


def test_a_column_of_time_in_csv_is_utc(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("item,at\n1,2026-11-15 10:00:05\n2,2026-11-15 10:00:06.5\n")
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM b (item INT, at TIMESTAMP) SOURCE '{file}' ORDERED BY at")
    run = engine.sql("SELECT * FROM b").run_local()
    assert run.snapshot("2026-11-15T10:00:06.5").to_pylist() == [{"item": 2}]
