"""Revisions in stream files: what is written is read, and what is not a revision is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model.revised_streams import (
    SCHEMA,
    Part,
    insert,
    meaning,
    revised_streams,
    revision,
    withdrawal,
)

from anabranch.errors import StreamError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import MICROSECONDS, Clock
from anabranch.model.coarser import coarser
from anabranch.model.elements import Adjust, Insert, batch_of, elements_of
from anabranch.model.files.line_parser import LineParser
from anabranch.model.files.line_writer import revision_line, write_lines
from anabranch.model.files.stream_file import (
    describe,
    has_revisions,
    read_arrivals,
    read_batches,
    read_lines,
    read_parts,
    write_stream,
)
from anabranch.model.files.stream_parquet import read_parquet
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time

KEYS = pa.schema([("k", pa.int64()), ("n", pa.int64())])
CHANGES = (
    '[{"adjust": {"k": 1, "n": 3}, "start": 20, "end": 30, "new_end": 20}, '
    '{"insert": {"k": 1, "n": 4}, "start": 20, "end": 30}]'
)
LINE = f'{{"revise": 7, "from": 20, "to": 30, "changes": {CHANGES}}}\n'
STREAM = f'{{"insert": {{"k": 1, "n": 3}}, "start": 15, "end": 40}}\n{{"stable": 30}}\n{LINE}'


def as_values(parts: list[Part]) -> list[object]:
    """The parts as plain values: neighbouring batches put together, and how far it is stable."""
    found: list[object] = []
    rows: list[str] = []
    reached = int(BEGINNING)
    for part in parts:
        if isinstance(part, Revision):
            span = (part.number, part.first, part.last)
            changes = [str(element) for element in elements_of(part.changes)]
            found += [(rows, reached), (span, changes)]
            rows = []
        else:
            rows = rows + [str(each) for each in elements_of(part.with_stable(BEGINNING))]
            reached = max(reached, part.stable)
    return [*found, (rows, reached)]


def test_a_revision_is_one_line() -> None:
    [found] = read_lines(LINE.encode(), KEYS, 5).revisions
    assert (found.number, found.first, found.last) == (7, 20, 30)
    assert elements_of(found.changes) == [
        Adjust({"k": 1, "n": 3}, 20, 30, 20),
        Insert({"k": 1, "n": 4}, 20, 30),
    ]
    assert revision_line(found) == LINE.encode()


def test_times_are_written_as_elsewhere() -> None:
    changes = batch_of([Insert({"k": 1, "n": 4}, 0), Insert({"k": 2, "n": 4}, 1, 2)], KEYS)
    whole = Revision(number=1, first=Time(0), last=FOREVER, changes=changes)
    line = revision_line(whole, clock=Clock(1_000_000, timestamps=True))
    content = json.loads(line)
    assert (content["from"], content["to"]) == ("1970-01-01T00:00:00", "forever")
    assert content["changes"][0] == {"insert": {"k": 1, "n": 4}, "start": "1970-01-01T00:00:00"}
    [found] = read_lines(line, KEYS).revisions
    assert (found.first, found.last) == (0, FOREVER)
    assert found.changes.new_end.tolist() == [FOREVER, 2_000_000]


@given(revised_streams(), st.sampled_from(["s.jsonl", "s.parquet"]), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(
    tmp_path: Path, parts: list[Part], name: str, timestamps: bool
) -> None:
    path = tmp_path / name
    write_stream(path, parts or [EventBatch.empty(SCHEMA)], timestamps)
    found = list(read_parts(path, SCHEMA))
    assert as_values(found) == as_values(parts)
    assert LogicalStream.of_batches(read_batches(path, SCHEMA)) == meaning(parts)
    assert has_revisions(path) == any(isinstance(part, Revision) for part in parts)


@given(revised_streams(), st.integers(1, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_of_any_size_say_the_same(tmp_path: Path, parts: list[Part], rows: int) -> None:
    for name in ("s.jsonl", "s.parquet"):
        write_stream(tmp_path / name, parts or [EventBatch.empty(SCHEMA)])
        pieces = list(read_arrivals(tmp_path / name, SCHEMA, rows))
        found = [part for piece in pieces for part in piece.parts()]
        assert as_values(found) == as_values(list(read_parts(tmp_path / name, SCHEMA)))


@given(revised_streams())
def test_the_fast_and_the_exact_way_agree(parts: list[Part]) -> None:
    out = io.BytesIO()
    write_lines(out, parts, clock=MICROSECONDS)
    fast = read_lines(out.getvalue(), SCHEMA, 4)
    exact = LineParser(name="s").read(out.getvalue(), SCHEMA, 4)
    assert as_values([*fast.parts()]) == as_values([*exact.parts()])
    assert fast.revision_positions == exact.revision_positions
    assert fast.position.tolist() == exact.position.tolist()


def test_other_lines_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    read = LineParser.read

    def counted(self: LineParser, data: bytes, schema: pa.Schema, first: int) -> object:
        seen.append(data)
        return read(self, data, schema, first)

    monkeypatch.setattr(LineParser, "read", counted)
    rows = b'{"insert": {"k": 1, "n": 3}, "start": 15}\n' * 3
    line = LINE.encode()
    for kept, exactly in ((line, []), (line.replace(b'"to": 30', b'"to": "forever"'), [1])):
        found = read_lines(rows + kept + rows, KEYS, 10)
        assert seen == [kept.rstrip()] * len(exactly)
        assert found.position.tolist() == [10, 11, 12, 14, 15, 16]
        assert found.revision_positions == (13,)
        assert len(found.revisions[0].changes) == 2


@pytest.mark.parametrize(
    "line",
    [
        '{"from": 20, "changes": [{"insert": {"k": 1}, "start": 20, "end": 30}], "to": 30, '
        '"revise": 1}',
        '  { "revise" :1, "from": 20, "to": 30, "stable": null, '
        '"changes": [{"insert": {"k": 1}, "start": 20, "end": 30}]}  ',
        '{"\\u0072evise": 1, "from": 20, "to": 30, '
        '"changes": [{"insert": {"k": 1}, "start": 20, "end": 30}]}',
    ],
)
def test_a_revision_may_be_spelled_in_other_ways(line: str) -> None:
    data = f'{{"insert": {{"n": 3}}, "start": 15}}\n\n{line}\r\n{{"stable": 50}}'.encode()
    found = read_lines(data, KEYS)
    assert [each.number for each in found.revisions] == [1]
    assert (found.revision_positions, found.stable_positions.tolist()) == ((3,), [4])


def test_a_column_may_be_called_revise() -> None:
    schema = pa.schema([("revise", pa.int64())])
    data = b'{"insert": {"revise": 3}, "start": 15}\n'
    assert read_lines(data, schema).batch.payload.to_pylist() == [{"revise": 3}]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"from": 20, ', "", "'from' is missing"),
        ('"to": 30, ', "", "'to' is missing"),
        (f', "changes": {CHANGES}', "", "'changes' is missing"),
        (CHANGES, "[]", "the revision has no changes"),
        (CHANGES, "{}", "'changes' must be a list, found {}"),
        (CHANGES, "[7]", "change 1 of the revision must be a JSON object, found 7"),
        (
            CHANGES,
            '[{"stable": 7}]',
            "change 1 of the revision is a stable point",
        ),
        (
            CHANGES,
            f"[{LINE.strip()}]",
            "change 1 of the revision: a revision within another one",
        ),
        ('"revise": 7', '"revise": 0', "'revise' is not the number of a revision: 0"),
        ('"revise": 7', '"revise": true', "'revise' is not the number of a revision: true"),
        ('"revise": 7', '"revise": "7"', "'revise' is not the number of a revision: \"7\""),
        ('"from": 20', '"from": 30', "the revision [30, 30) ends before it starts"),
        ('"from": 20', '"from": "x"', "'x' is not an instant"),
        (
            '"from": 20',
            '"from": 21',
            "change 1 of the revision lies outside of it: [20, 30) is not within [21, 30)",
        ),
        (
            '"n": 4}, "start": 20, "end": 30',
            '"n": 4}, "start": 20',
            "change 2 of the revision lies outside of it: [20, forever) is not within [20, 30)",
        ),
        (
            '"new_end": 20',
            '"new_end": 25',
            "change 1 of the revision is not a withdrawal: it moves an end to 25",
        ),
        (
            '"n": 4}, "start": 20, "end": 30',
            '"n": 4}, "start": 20, "end": 20',
            "change 2 of the revision changes nothing: [20, 20)",
        ),
        (', "new_end": 20', "", "change 1 of the revision: 'new_end' is missing"),
        ('"n": 4', '"n": "x"', "column 'n' expects a whole number, found \"x\""),
        ('"n": 4', '"m": 4', "unknown column 'm'"),
        ('"to"', '"too"', "unknown key 'too'"),
        ('"to": 30', '"to": 30, "start": 3', "key 'start' does not belong to 'revise'"),
        ('"to": 30', '"to": 30, "to": 31', "key 'to' is given twice"),
    ],
)
def test_what_is_not_a_revision_is_refused_with_its_line(old: str, new: str, what: str) -> None:
    assert old in LINE
    text = STREAM.replace(LINE, LINE.replace(old, new))
    with pytest.raises(StreamError) as no:
        read_lines(text.encode(), KEYS, 10, name="s.jsonl")
    assert no.value.what == what
    assert no.value.where is not None
    assert no.value.where.startswith("s.jsonl, line 12: ")
    assert no.value.hint


def test_revisions_count_up(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(STREAM.replace('"revise": 7', '"revise": 1') + LINE.replace("7", "3"))
    with pytest.raises(StreamError, match="revision 3 where revision 2 was expected") as no:
        list(read_arrivals(path))
    assert no.value.where == f"{path}, line 4"
    assert len(next(read_arrivals(path, strict=False)).revisions) == 2
    path.write_text(LINE)
    with pytest.raises(StreamError, match="revision 7 where revision 1 was expected"):
        list(read_arrivals(path))
    assert [piece.revisions[0].number for piece in read_arrivals(path, revised=6)] == [7]


def test_columns_are_looked_for_in_changes(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(STREAM.replace('"n": 4', '"n": 4.5, "new": "x"'))
    found = describe(path).schema
    assert found == pa.schema([("k", pa.int64()), ("n", pa.float64()), ("new", pa.string())])
    path.write_text(STREAM.replace('"n": 4', '"n": "x"'))
    with pytest.raises(StreamError, match="column 'n' is of type int64, found"):
        describe(path)


def test_timestamps_are_noticed_in_a_file_with_revisions(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    parts = [batch_of([Insert({"k": 1, "n": 1}, 0, 9)], KEYS).with_stable(Time(9))]
    write_stream(path, [*parts, Revision(number=1, first=Time(0), last=Time(9), changes=parts[0])])
    assert not describe(path).timestamps


def test_a_query_reads_changes_as_rows_at_their_position() -> None:
    data = STREAM + '{"insert": {"k": 2, "n": 3}, "start": 35, "end": 40}\n'
    flat = read_lines(data.encode(), KEYS).flattened()
    assert flat.position.tolist() == [1, 3, 3, 4]
    assert flat.is_adjust.tolist() == [False, True, False, False]
    assert flat.bound.tolist() == [-(2**63), 30, 30, 30]
    assert flat.batch.stable == 30
    assert flat.revisions == ()


def test_coarser_changes_stay_below_the_stable_point() -> None:
    data = STREAM.replace('"stable": 30', '"stable": 36').replace('"to": 30', '"to": 36')
    data = data.replace('"n": 4}, "start": 20, "end": 30', '"n": 4}, "start": 20, "end": 36')
    found = coarser(read_lines(data.encode(), KEYS), 10)
    [revised] = found.revisions
    assert (revised.first, revised.last) == (2, 3)
    assert revised.changes.new_end.tolist() == [2, 3]
    assert (found.flattened().batch.start[1:] < found.flattened().bound[1:]).all()
    assert coarser(read_lines(data.encode(), KEYS), 100).revisions == ()


def parquet_of(rows: list[dict[str, object]], path: Path) -> Path:
    types = {"kind": pa.string(), "a": pa.string()}
    names = ["kind", "start", "end", "new_end", "a"]
    schema = pa.schema([(name, types.get(name, pa.int64())) for name in names])
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


HEAD = {"kind": "revise", "start": 2, "end": 4, "new_end": 1}
ADDED = {"kind": "revise-insert", "start": 2, "end": 4, "a": "x"}
TAKEN = {"kind": "revise-adjust", "start": 2, "end": 3, "new_end": 2, "a": "y"}


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([ADDED], "a change without its revision"),
        ([HEAD, ADDED, {"kind": "stable", "start": 9}, ADDED], "a change without its revision"),
        ([HEAD], "the revision has no changes"),
        ([HEAD, {"kind": "stable", "start": 9}], "the revision has no changes"),
        ([{**HEAD, "new_end": None}, ADDED], "a revision without its number"),
        ([{**HEAD, "new_end": 0}, ADDED], "'new_end' is not the number of a revision: 0"),
        ([{**HEAD, "start": 4}, ADDED], "the revision [4, 4) ends before it starts"),
        ([{**HEAD, "start": 3}, ADDED], "a change of the revision lies outside of [3, 4)"),
        ([HEAD, {**TAKEN, "new_end": 1}], "a change of the revision is not a withdrawal"),
        ([HEAD, {**ADDED, "end": 2}], "a change of the revision changes nothing"),
    ],
)
def test_parquet_files_with_something_else_are_refused(
    tmp_path: Path, rows: list[dict[str, object]], what: str
) -> None:
    path = parquet_of(rows, tmp_path / "s.parquet")
    with pytest.raises(StreamError) as no:
        list(read_parquet(path, SCHEMA, 2))
    assert no.value.what == what
    assert no.value.where is not None
    assert no.value.where.startswith(f"{path}, row ")


def test_a_revision_may_go_over_pieces_of_a_parquet_file(tmp_path: Path) -> None:
    stable = {"kind": "stable", "start": 9}
    second = {**HEAD, "new_end": 2}
    path = parquet_of([stable, HEAD, ADDED, TAKEN, second, TAKEN, stable], tmp_path / "s.parquet")
    expected = [
        revision(1, 2, 4, insert("x", 2, 4), withdrawal("y", 2, 3)),
        revision(2, 2, 4, withdrawal("y", 2, 3)),
    ]
    for rows in range(1, 8):
        pieces = list(read_parquet(path, SCHEMA, rows))
        found: list[Part] = [each for piece in pieces for each in piece.revisions]
        assert as_values(found) == as_values([*expected])
        assert [at for piece in pieces for at in piece.revision_positions] == [2, 5]
        assert sum(len(piece.stables) for piece in pieces) == 2
