"""A broken stream file is told what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.errors import StreamError
from anabranch.model.files.stream_file import describe, read_batches, read_lines, write_stream

GOLDEN = Path(__file__).parents[1] / "golden" / "stream_errors.txt"
SCHEMA = pa.schema(
    [
        ("itemID", pa.int64()),
        ("price", pa.float64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("d", pa.decimal128(5, 2)),
        ("o", pa.struct([("x", pa.int8())])),
        ("l", pa.list_(pa.bool_())),
    ]
)
GOOD = '{"insert": {"itemID": 1}, "start": 5, "end": 9}\n'


def cases() -> list[str]:
    """Each case is a line and, below it, the error that it causes."""
    return GOLDEN.read_text("utf-8").strip().split("\n\n")


def error_of(line: str) -> str:
    data = f"{GOOD}{line}\n{GOOD}".encode()
    with pytest.raises(StreamError) as caught:
        read_lines(data, SCHEMA, first_line=41, name="bids.jsonl")
    return f"StreamError: {caught.value}"


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case).split("\n")[0][:60])
def test_a_bad_line_is_explained(case: str, update_golden: bool) -> None:
    line, _, expected = case.partition("\n")
    found = error_of(line)
    if update_golden:
        text = GOLDEN.read_text("utf-8")
        GOLDEN.write_text(text.replace(case + "\n", f"{line}\n{found}\n"), "utf-8")
    else:
        assert found == expected


def caught(path: Path) -> str:
    with pytest.raises(StreamError) as error:
        list(read_batches(path))
    return str(error.value).replace(str(path.parent), "DIR")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bids.jsonl").touch()
    assert caught(tmp_path / "bid.jsonl") == (
        "no such file\n  DIR/bid.jsonl\n  hint: did you mean 'bids.jsonl'?"
    )
    assert caught(tmp_path / "x" / "y.jsonl") == (
        "no such file\n  DIR/y.jsonl\n  hint: check the path and the working folder"
    )


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert caught(tmp_path) == (
        f"a folder is not a stream file\n  DIR/{tmp_path.name}\n"
        "  hint: name a file of JSON lines (.jsonl) or a Parquet file of elements in it"
    )


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(GOOD.encode() + b'{"insert": {"name": "\xff"}, "start": 5}\n')
    assert caught(path) == (
        "not UTF-8 text: byte 0xff\n"
        '  DIR/s.jsonl, line 2, column 22: {"insert": {"name": "�"}, "start": 5}\n'
        "  hint: stream files are UTF-8; convert the file, for example with iconv"
    )


def test_a_column_that_changes_its_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"insert": {"a": 1}, "start": 5}\n{"insert": {"a": "x"}, "start": 5}\n')
    assert caught(path) == (
        "column 'a' is of type int64, found \"x\"\n"
        '  DIR/s.jsonl, line 2: {"insert": {"a": "x"}, "start": 5}\n'
        "  hint: give all values of a column one type, or declare the schema"
    )
    path.write_text('{"insert": {"a": [1, "x"]}, "start": 5}\n')
    assert "column 'a' is mixed" in caught(path)


def test_a_damaged_archive_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(b"no gzip")
    assert caught(path).startswith("cannot read the file")


def test_a_file_that_is_not_parquet_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    path.write_bytes(b"PAR1 but no more")
    assert caught(path).startswith("not a Parquet file\n  DIR/s.parquet: ")


def test_plain_rows_are_not_elements(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"itemID": [1], "start": [2]}), path)
    assert caught(path).startswith("no column 'kind'\n  DIR/s.parquet: columns itemID, start\n")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"kind": "upsert", "start": 1}, "unknown kind of element"),
        ({"kind": None, "start": 1}, "unknown kind of element"),
        ({"kind": "insert", "start": None}, "'start' is missing"),
        ({"kind": "insert", "start": 2**63 - 1}, "an event cannot start at forever"),
    ],
)
def test_a_bad_row_is_named(row: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    kinds = [("kind", pa.string()), *((name, pa.int64()) for name in ("start", "end", "new_end"))]
    good = {"kind": "insert", "start": 1, "end": 2}
    pq.write_table(pa.Table.from_pylist([good, row], pa.schema(kinds)), path)
    assert caught(path).startswith(f"{message}\n  DIR/s.parquet, row 2: ")


def test_parquet_columns_are_checked_against_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    write_stream(path, [read_lines(GOOD.encode(), SCHEMA.remove(8)).batch])
    with pytest.raises(StreamError, match="no column 'prize'"):
        list(read_batches(path, pa.schema([("prize", pa.float64())])))
    [batch] = read_batches(path, pa.schema([("itemID", pa.int32())]))
    assert batch.schema == pa.schema([("itemID", pa.int32())])
    assert len(describe(path).schema) == 8


def test_element_tables_have_names_of_their_own(tmp_path: Path) -> None:
    batch = read_lines(
        b'{"insert": {"kind": 1}, "start": 5}', pa.schema([("kind", pa.int64())])
    ).batch
    with pytest.raises(StreamError, match="a payload column is called 'kind'"):
        write_stream(tmp_path / "s.parquet", [batch])
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="cannot write the stream: No such file or directory"):
        write_stream(tmp_path / "no" / "s.jsonl", [])
