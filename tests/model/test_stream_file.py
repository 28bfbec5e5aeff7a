"""What is written to a stream file is what is read back, whatever the types."""

from __future__ import annotations

import gzip
import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, MICROSECONDS
from anabranch.model.elements import Adjust, Element, Insert, batch_of
from anabranch.model.files.line_parser import LineParser
from anabranch.model.files.line_writer import element_lines
from anabranch.model.files.stream_file import (
    describe,
    read_arrivals,
    read_batches,
    read_lines,
    write_stream,
)
from anabranch.model.files.stream_lines import LineReader
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.testing.arrow_values import arrow_rows, arrow_schemas

BID = pa.schema([("itemID", pa.int64()), ("price", pa.float64())])
LINES = b"""{"insert": {"itemID": 1, "price": 80.0}, "start": 5, "end": 9}
{"adjust": {"itemID": 1, "price": 80.0}, "start": 5, "end": 9, "new_end": 7}
{"stable": 12}
"""


@st.composite
def streams(draw: st.DrawFn) -> list[EventBatch]:
    schema = draw(arrow_schemas())
    starts = st.sampled_from([-5, 0, 7, FOREVER - 1])
    lengths = st.sampled_from([1, 2, 10])
    batches = []
    stable = int(BEGINNING)
    for _ in range(draw(st.integers(1, 3))):
        elements: list[Element] = []
        for payload in draw(st.lists(arrow_rows(schema), max_size=4)):
            start = draw(starts)
            ends = [min(start + draw(lengths), FOREVER) for _ in range(2)]
            if draw(st.booleans()):
                elements.append(Insert(payload, start, ends[0]))
            else:
                elements.append(
                    Adjust(payload, start, ends[0], draw(st.sampled_from([start, *ends])))
                )
        stable = max(stable, draw(st.sampled_from([BEGINNING, 0, 3, FOREVER])))
        batches.append(batch_of(elements, schema).with_stable(Time(stable)))
    return batches


def same(one: list[EventBatch], other: list[EventBatch], schema: pa.Schema) -> None:
    first = EventBatch.concat([EventBatch.empty(schema), *one])
    second = EventBatch.concat([EventBatch.empty(schema), *other])
    assert first.start.tolist() == second.start.tolist()
    assert first.end.tolist() == second.end.tolist()
    assert first.new_end.tolist() == second.new_end.tolist()
    assert first.stable == second.stable
    assert str(first.payload.to_pylist()) == str(second.payload.to_pylist())
    assert second.schema.equals(schema)


@given(streams(), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_lines_come_back(tmp_path: Path, batches: list[EventBatch], timestamps: bool) -> None:
    path = tmp_path / "s.jsonl"
    write_stream(path, batches, timestamps)
    for line in path.read_text("utf-8").split("\n")[:-1]:
        json.loads(line)
    same(batches, list(read_batches(path, batches[0].schema)), batches[0].schema)
    same(batches, list(read_batches(path, batches[0].schema, chunk_rows=2)), batches[0].schema)


@given(streams(), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parquet_comes_back(tmp_path: Path, batches: list[EventBatch], timestamps: bool) -> None:
    path = tmp_path / "s.parquet"
    assume("struct<>" not in str(batches[0].schema))
    write_stream(path, batches, timestamps)
    schema = batches[0].schema
    same(batches, list(read_batches(path, schema)), schema)
    if "[s]" not in str(schema):  # Parquet keeps milliseconds instead
        same(batches, list(read_batches(path)), schema)
    assert describe(path).timestamps is timestamps


@given(streams(), st.booleans())
def test_the_exact_parser_reads_the_same(batches: list[EventBatch], timestamps: bool) -> None:
    schema = batches[0].schema
    clock = MICROSECONDS if timestamps else INTEGERS
    data = b"".join(element_lines(batch, clock=clock) for batch in batches)
    exact = LineParser(name="s").read(data, schema, 1)
    fast = LineReader(schema=schema)._read_fast(data, 1)
    if fast is None:
        # Times that ISO timestamps cannot say are numbers among texts.
        assert timestamps
        assert (exact.batch.start == FOREVER - 1).any()
        return
    same([fast.batch], [exact.batch], schema)
    assert fast.position.tolist() == exact.position.tolist()
    assert fast.is_adjust.tolist() == exact.is_adjust.tolist()


def test_the_lines_of_the_design_are_read() -> None:
    piece = read_lines(LINES, BID)
    assert piece.batch.payload.to_pylist() == [{"itemID": 1, "price": 80.0}] * 2
    assert piece.batch.start.tolist() == [5, 5]
    assert piece.batch.end.tolist() == [5, 9]
    assert piece.batch.new_end.tolist() == [9, 7]
    assert piece.batch.stable == 12
    assert (piece.position.tolist(), piece.is_adjust.tolist()) == ([1, 2], [False, True])
    assert (piece.stables.tolist(), piece.stable_positions.tolist()) == ([12], [3])


def test_the_lines_of_the_design_are_written(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_stream(path, read_batches_of(LINES))
    assert path.read_bytes() == LINES


def read_batches_of(data: bytes) -> list[EventBatch]:
    return [read_lines(data, BID).batch]


def test_a_missing_end_is_forever_and_so_is_the_word() -> None:
    data = b"""{"insert": {"itemID": 1}, "start": 5}
{"insert": {"itemID": 1}, "start": 5, "end": "forever"}
{"insert": {"itemID": 1}, "start": 5, "end": null}
{"adjust": {"itemID": 1}, "start": 5, "new_end": 8}
{"adjust": {"itemID": 1}, "start": 5, "end": 8, "new_end": "forever"}
{"stable": "forever"}
"""
    batch = read_lines(data, BID).batch
    assert batch.end.tolist() == [5, 5, 5, FOREVER, 8]
    assert batch.new_end.tolist() == [FOREVER, FOREVER, FOREVER, 8, FOREVER]
    assert batch.stable == FOREVER


def test_a_text_that_says_forever_is_no_time() -> None:
    schema = pa.schema([("end", pa.string()), ("note", pa.string())])
    expected = {"end": "forever", "note": '"end": "forever"'}
    data = b'{"insert": %s, "start": 1, "end": 2}\n' % json.dumps(expected).encode()
    assert read_lines(data, schema).batch.payload.to_pylist() == [expected]
    note = b'{"insert": {"note": "forever"}, "start": 1, "end": "forever"}\n'
    assert read_lines(note, schema).batch.payload.to_pylist()[0]["note"] == "forever"


@pytest.mark.parametrize(
    "text", ["2026-11-15T10:00:00", "2026-11-15 10:00:00Z", "2026-11-15T11:00:00+01:00"]
)
def test_iso_times_are_microseconds(text: str, tmp_path: Path) -> None:
    moment = datetime(2026, 11, 15, 10, tzinfo=timezone.utc)
    micros = int(moment.timestamp() * 1_000_000)
    path = tmp_path / "s.jsonl"
    path.write_text(f'{{"insert": {{"itemID": 1}}, "start": "{text}"}}\n{{"stable": "forever"}}\n')
    [batch] = read_batches(path)
    assert batch.start.tolist() == [micros]
    assert describe(path).timestamps


def test_numbers_and_iso_times_may_be_mixed() -> None:
    data = b'{"stable": 5}\n{"insert": {"itemID": 1}, "start": "1970-01-01", "end": 3}\n'
    assert read_lines(data, BID).batch.start.tolist() == [0]


def test_each_row_knows_the_promise_made_before_it() -> None:
    data = b"""{"insert": {"itemID": 1}, "start": 5}

{"stable": 4}
{"insert": {"itemID": 2}, "start": 5}
{"stable": 9}
{"stable": 7}
{"insert": {"itemID": 3}, "start": 5}
"""
    piece = read_lines(data, BID, first_line=100)
    assert piece.position.tolist() == [100, 103, 106]
    assert piece.bound.tolist() == [BEGINNING, 4, 9]
    assert piece.stable_positions.tolist() == [102, 104, 105]
    parts = list(piece.split(1))
    assert [part.batch.stable for part in parts] == [4, 9, BEGINNING]
    assert [part.position.tolist() for part in parts] == [[100], [103], [106]]
    assert [part.stables.tolist() for part in parts] == [[4], [9, 7], []]


def test_stable_points_of_batches_only_rise(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(LINES + b'{"stable": 3}\n' + LINES.replace(b"12", b"14"))
    stables = [int(batch.stable) for batch in read_batches(path, BID, chunk_rows=1)]
    assert stables == [BEGINNING, 12, 12, 14]


@pytest.mark.parametrize(
    ("data", "positions"),
    [
        (b"", []),
        (b"\n  \n", []),
        (b'\r\n{"insert": {"itemID": 1}, "start": 5}\r\n', [2]),
        (b'\n \n{"insert": {"itemID": 1}, "start": 5}\n \n\n', [3]),
        (b'{"insert": {"itemID": 1}, "start": 5}\n {"insert": {}, "start": 5}\n\t', [1, 2]),
        (b'{"insert": {"itemID": 1}, "start": 5}', [1]),
    ],
)
def test_blank_lines_count_but_mean_nothing(data: bytes, positions: list[int]) -> None:
    assert read_lines(data, BID).position.tolist() == positions


def test_types_are_inferred_and_widened(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"stable": 1}\n'
        '{"insert": {"n": 1, "t": "2026-01-01 00:00:00", "z": null, "o": {"a": [1]}}, "start": 5}\n'
        '{"adjust": {"n": 1.5, "t": "x", "b": true}, "start": 5, "new_end": 6}\n'
    )
    expected = {
        "n": pa.float64(),
        "t": pa.string(),
        "z": pa.null(),
        "o": pa.struct([("a", pa.list_(pa.int64()))]),
        "b": pa.bool_(),
    }
    assert describe(path).schema == pa.schema(list(expected.items()))
    [batch] = read_batches(path)
    assert batch.payload.to_pylist()[1] == {"n": 1.5, "t": "x", "z": None, "o": None, "b": True}


def test_the_whole_file_can_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.model.files.stream_file.BLOCK_BYTES", 30)
    path = tmp_path / "s.jsonl"
    path.write_text(
        '{"insert": {"n": 1}, "start": 5}\n{"insert": {"n": 1.5, "m": "forever"}, "start": 5}\n'
    )
    assert describe(path).schema == pa.schema([("n", pa.int64())])
    assert describe(path, whole=True).schema == pa.schema([("n", pa.float64()), ("m", pa.string())])


def test_a_file_is_read_in_blocks_of_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.model.files.stream_file.BLOCK_BYTES", 1)
    lines = [
        json.dumps({"insert": {"t": "€" * (i % 7)}, "start": i}, ensure_ascii=False)
        for i in range(50)
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    pieces = list(read_arrivals(path, pa.schema([("t", pa.string())])))
    assert [int(p) for piece in pieces for p in piece.position] == list(range(1, 51))
    assert [int(s) for piece in pieces for s in piece.batch.start] == list(range(50))


def test_compressed_files_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + LINES))
    assert len(next(iter(read_batches(path)))) == 2


def test_typed_columns_are_read_from_what_people_write() -> None:
    schema = pa.schema(
        [
            ("d", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("time", pa.time64("us")),
            ("wait", pa.duration("s")),
            ("raw", pa.binary()),
            ("f", pa.float64()),
            ("tags", pa.map_(pa.string(), pa.int64())),
        ]
    )
    data = (
        b'{"insert": {"d": 1.25, "day": "2026-11-15", "at": "2026-11-15T10:00:00Z", "time": '
        b'"10:00:00.5", "wait": 90, "raw": "AP8=", "f": NaN, "tags": [{"key": "a", "value": 1}]}, '
        b'"start": 1}\n'
    )
    [row] = read_lines(data, schema).batch.payload.to_pylist()
    assert math.isnan(row.pop("f"))
    expected = {
        "d": Decimal("1.25"),
        "day": date(2026, 11, 15),
        "at": datetime(2026, 11, 15, 10),
        "time": time(10, 0, 0, 500_000),
        "wait": timedelta(seconds=90),
        "raw": b"\x00\xff",
        "tags": [("a", 1)],
    }
    assert row == expected
    other = data.replace(b"1.25", b'"1.25"').replace(b"NaN", b'"NaN"')
    other = other.replace(b'[{"key": "a", "value": 1}]', b'{"a": 1}')
    [row] = read_lines(other, schema).batch.payload.to_pylist()
    assert math.isnan(row.pop("f"))
    assert row == expected


def test_floats_come_back_to_the_last_bit() -> None:
    numbers = [0.1, 1e300, 5e-324, 1 / 3, 123456789012345.68, 1e22, 2.0**53]
    schema = pa.schema([("f", pa.float64())])
    batch = batch_of([Insert({"f": number}, 1) for number in numbers], schema)
    again = read_lines(element_lines(batch), schema).batch
    assert again.payload.column(0).to_pylist() == numbers


def test_moves_of_nothing_are_not_written() -> None:
    batch = batch_of([Insert({"itemID": 1}, 5, 5), Insert({"itemID": 2}, 5, 6)], BID)
    assert element_lines(batch).count(b"\n") == 1


def test_standard_output_gets_json_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_stream("-", read_batches_of(LINES))
    assert capfdbinary.readouterr().out == LINES


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    def broken() -> Any:
        yield read_lines(LINES, BID).batch
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_stream(tmp_path / "s.jsonl", broken())
    assert list(tmp_path.iterdir()) == []


def test_the_same_stream_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "a.parquet", "b.parquet"):
        write_stream(tmp_path / name, read_batches_of(LINES))
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_type_that_parquet_lacks_is_refused(tmp_path: Path) -> None:
    batch = EventBatch.empty(pa.schema([("s", pa.struct([]))]))
    with pytest.raises(StreamError, match="Parquet has no such type"):
        write_stream(tmp_path / "s.parquet", [batch])


def test_parquet_of_other_makers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
    table = pa.table(
        {
            "name": pa.array(["a", None], pa.large_string()),
            "kind": pa.array(["insert", "stable"]).dictionary_encode(),
            "start": pa.array([moment, moment], pa.timestamp("ms", tz="UTC")),
        }
    )
    pq.write_table(table, path)
    [batch] = read_batches(path)
    assert batch.schema == pa.schema([("name", pa.string())])
    assert (batch.start.tolist(), batch.new_end.tolist()) == ([1_000_000], [FOREVER])
    assert batch.stable == 1_000_000
    assert describe(path).timestamps


def test_an_empty_stream_has_no_rows(tmp_path: Path) -> None:
    for name in ("s.jsonl", "s.parquet"):
        write_stream(tmp_path / name, [])
        assert sum(len(batch) for batch in read_batches(tmp_path / name)) == 0
        assert len(describe(tmp_path / name).schema) == 0


def test_events_without_columns_are_written_and_read(tmp_path: Path) -> None:
    data = b'{"insert": {}, "start": 1, "end": 2}\n{"insert": {}, "start": 1, "end": 3}\n'
    piece = read_lines(data, pa.schema([]))
    assert len(piece) == 2
    for name in ("s.jsonl", "s.parquet"):
        write_stream(tmp_path / name, [piece.batch])
        assert [len(batch) for batch in read_batches(tmp_path / name)] == [2]
    assert (tmp_path / "s.jsonl").read_bytes() == data


def test_reading_does_not_hold_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with path.open("wb") as out:
        for start in range(200_000):
            out.write(b'{"insert": {"itemID": %d}, "start": %d}\n' % (start % 10, start))
    sizes = [len(batch) for batch in read_batches(path, chunk_rows=10_000)]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 10_000
